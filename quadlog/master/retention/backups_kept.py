"""Backups that the log is kept for, in addition to workers and masters: the two newest that the log continues.

Two, because the newest one may turn out to be damaged when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from quadlog.snapshots.backups import backups_in, log_of, looked_through

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from quadlog.topics import Topics

log = structlog.get_logger()

KEPT: Final = 2
"""Number of backups that the log is kept for."""
NEWEST: Final = "the newest backups"
UNREADABLE: Final = "backups that cannot be read"


class BackupsKept:
    """Backups of one data centre.  Used outside the node's thread."""

    def __init__(self, directory: Path, kafka: str, topics: Topics) -> None:
        """Prepare; nothing is read yet.

        Args:
            directory: directory of the backups.
            kafka: bootstrap servers of the local data centre.
            topics: its topics.

        """
        self._directory, self._kafka, self._topics = directory, kafka, topics

    def needs(self) -> Mapping[str, int]:
        """Return the index of the last entry that the older of these backups has, by `NEWEST`; empty without backups.

        If the directory cannot be read, all entries are kept, as for a worker without a store.

        Raises:
            QuadlogError: Kafka does not report which records the topics have.

        """
        try:
            paths = backups_in(self._directory)
        except OSError as error:
            log.warning("backups_unreadable", directory=str(self._directory), reason=str(error))
            return {UNREADABLE: 0}
        usable, _ = looked_through(paths, log_of(self._kafka, self._topics))
        return {NEWEST: usable[:KEPT][-1].applied.index} if usable else {}
