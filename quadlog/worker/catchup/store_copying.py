"""Copying: a worker fetches the whole store of another worker of its data centre, the one that is furthest in the log.

The copy is one stream, whose files are written as it arrives: after an interruption or a crash it continues
where it was.  Offsets in topics are the same for all workers of a data centre, so the copy reads on where its
donor was.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import structlog

from consumers import status
from quadlog.broker import last_records
from quadlog.clock import wall
from quadlog.core.records import WorkerState
from quadlog.errors import ForeignRecord, QuadlogError, Unavailable
from quadlog.quadstore.applied import Applied
from quadlog.worker.catchup.partial_copy import COMING, CopyDescription
from quadlog.worker.catchup.stream import CopyStream, size_at

if TYPE_CHECKING:
    from quadlog.core.records import Heartbeat
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics

log = structlog.get_logger()

RECENT_MS: Final = 10_000
"""Milliseconds since its last heartbeat within which a worker counts as running."""
HEARTBEATS: Final = 500
"""Records at the end of the status topic, among which the newest heartbeat of each worker is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOffer:
    """A store that a worker or a backup would provide."""

    donor: str
    """URL of the worker, or path of the backup."""
    index: int
    """Index of the last effect that it has applied."""
    size: int | None
    """Bytes of the store; None: not reported."""
    is_backup: bool = False


class CopiedStore(NamedTuple):
    """A store that was received."""

    applied: Applied
    size: int
    """Bytes of the store."""
    came: int
    """Bytes of the store that were not here before: the measured time was spent on these."""


class StoreCopying:
    """Copying at a worker's start, on its main thread."""

    def __init__(self, settings: WorkerSettings, topics: Topics) -> None:
        self._settings, self._topics = settings, topics
        self._directory: Final = settings.data_dir / COMING
        self._stream: Final = CopyStream(
            self._directory, compression=settings.copy_compression, window=settings.copy_window
        )
        self.progress: Final = self._stream.progress

    def offer(self, index: int) -> CopyOffer | None:
        """Return the offer of the worker that is furthest in the log, if any is further than this index."""
        for beat in self._living(index + 1):
            size = None
            try:
                size = size_at(beat.url)
            except QuadlogError as error:
                log.warning("donor_size_unknown", donor=beat.url, reason=str(error))
            return CopyOffer(donor=beat.url, index=beat.applied.index, size=size)
        return None

    def donors(self, index: int) -> list[str]:
        """Return the URLs of the serving workers that have applied at least this index, the furthest first."""
        return [beat.url for beat in self._living(index)]

    def _living(self, index: int) -> list[Heartbeat]:
        newest: dict[str, Heartbeat] = {}
        for record in last_records(self._settings.kafka, self._topics.status, count=HEARTBEATS):
            with suppress(ForeignRecord):
                if (beat := status.hear(record)) is not None:
                    newest[beat.worker] = beat
        since = wall() - RECENT_MS
        living = [
            beat
            for beat in newest.values()
            if beat.worker != self._settings.node_id
            and beat.state is WorkerState.SERVING
            and beat.fork is None
            and (beat.scrub is None or beat.scrub.found == beat.scrub.expected)
            and beat.sent >= since
            and beat.applied.index >= index
        ]
        return sorted(living, key=lambda beat: -beat.applied.index)

    def fetch(self, index: int) -> CopiedStore:
        """Replace the store here, which must not be open, by a copy; each donor is tried.

        If no donor sends all of it, the received part of the last one's copy is kept: the next attempt
        continues there.

        Raises:
            Unavailable: no worker provides a store that is at `index` or further.

        """
        begun = CopyDescription.load(self._directory)
        first = [begun.donor] if begun is not None and Applied.decode(begun.applied).index >= index else []
        reasons: list[str] = []
        self.progress.came = 0
        for donor in dict.fromkeys(first + self.donors(index)):
            if donor not in first:
                self.forget()
            try:
                return self._whole(donor)
            except (QuadlogError, httpx.HTTPError, OSError) as error:
                reasons.append(f"{donor}: {error}")
                log.warning("copy_failed", donor=donor, reason=str(error))
        raise Unavailable(
            "no worker of this data centre gives a copy: " + ("; ".join(reasons) or "none is there")
        )

    def _whole(self, donor: str) -> CopiedStore:
        coming = self._stream.receive(donor)
        try:
            applied = coming.put_into(self._settings.data_dir)
        except (QuadlogError, OSError):
            self.forget()  # it is unknown which part of it is wrong
            raise
        return CopiedStore(applied, coming.size, self.progress.came)

    def forget(self) -> None:
        """Delete the received part of a copy."""
        self._stream.forget()
