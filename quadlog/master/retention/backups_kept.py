"""What the log is kept for beside workers and masters: the two newest backups that it goes on behind.

Two, for the newest may turn out to be damaged when it is needed.
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
"""Backups."""
NEWEST: Final = "the newest backups"
UNREADABLE: Final = "backups that cannot be read"


class BackupsKept:
    """Of one data centre.  Used beside the node's thread."""

    def __init__(self, directory: Path, kafka: str, topics: Topics) -> None:
        """Nothing is looked at yet.

        Args:
            directory: where backups are.
            kafka: of the own data centre.
            topics: its own ones.

        """
        self._directory, self._kafka, self._topics = directory, kafka, topics

    def needs(self) -> Mapping[str, int]:
        """Up to which entry the older one of them has the log, by what they are called; nothing where there is none.

        Where the directory cannot be read all is kept, as for a worker that has nothing.

        Raises:
            QuadlogError: Kafka does not tell what the topics have.

        """
        try:
            paths = backups_in(self._directory)
        except OSError as error:
            log.warning("backups_unreadable", directory=str(self._directory), reason=str(error))
            return {UNREADABLE: 0}
        usable, _ = looked_through(paths, log_of(self._kafka, self._topics))
        return {NEWEST: usable[:KEPT][-1].applied.index} if usable else {}
