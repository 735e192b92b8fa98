"""The full way: a whole store, of another worker of the data centre, or where none gives one, of a backup."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.errors import QuadlogError, Unavailable
from quadlog.quadstore.applied import Applied
from quadlog.worker.catchup.copying import Copying
from quadlog.worker.catchup.restoring import Restoring

if TYPE_CHECKING:
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.catchup.copying import Copied, Offer
    from quadlog.worker.replica.rates import RatesFile

log = structlog.get_logger()

_TELLING: Final = 10_000_000
"""Bytes of a store that tell how fast it comes."""


class Full:
    """At a worker's start, by its main thread; any may look how far it is."""

    def __init__(self, settings: WorkerSettings, topics: Topics, rates: RatesFile) -> None:
        """Nothing is looked at yet."""
        self._copying, self._restoring = Copying(settings, topics), Restoring(settings, topics)
        self._rates = rates
        self._source: Copying | Restoring = self._copying

    @property
    def progress(self) -> tuple[int, int | None]:
        """Percent of what is coming, and seconds to go; None: nobody knows."""
        return self._source.progress

    def offer(self, applied: Applied) -> Offer | None:
        """What would come, if anything goes further than this."""
        return self._copying.offer(applied.index) or self._restoring.offer(applied)

    def is_there(self) -> bool:
        """Whether a worker that has nothing would be given anything."""
        return bool(self._copying.donors(1)) or self._restoring.offer(Applied()) is not None

    def take(self, before: Applied) -> None:
        """Have a store in the place of the one that is here, which nobody has open, and which has this applied.

        Raises:
            Unavailable: nobody gives one; the old one stays.

        """
        self._source, began = self._copying, time.monotonic()
        try:
            copied = self._copying.fetch(before.index)
        except Unavailable as nobody:
            if not self._restoring.is_set:
                raise
            self._restore(before, nobody)
            return
        took = time.monotonic() - began
        log.info("copy_taken", **_figures(copied, before, took))
        if (rate := _rate(copied, took)) is not None:
            self._rates.keep(copied=rate)

    def _restore(self, before: Applied, nobody: Unavailable) -> None:
        log.warning("backup_search_started", reason=str(nobody))
        self._source, began = self._restoring, time.monotonic()
        try:
            copied = self._restoring.take(before, self._copying.forget)
        except QuadlogError as none:
            raise Unavailable(f"{nobody}; and {none}") from none
        took = time.monotonic() - began
        log.info("backup_restored", **_figures(copied, before, took))
        if (rate := _rate(copied, took)) is not None:
            self._rates.keep(restored=rate)

    def forget(self) -> None:
        """What is here of a store that came in part is not needed any more."""
        self._copying.forget()
        self._restoring.forget()


def _figures(copied: Copied, before: Applied, took: float) -> dict[str, float]:
    """What the log tells of a store that came."""
    index, size = copied.applied.index, copied.size
    return {"index": index, "before": before.index, "size": size, "took_s": round(took, 1)}


def _rate(copied: Copied, took: float) -> float | None:
    """Bits/s, where it was enough to tell."""
    return copied.came * 8 / took if copied.came >= _TELLING else None
