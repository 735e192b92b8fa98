"""The full way: a whole store of another worker of the data centre or, if none provides one, of a backup."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.errors import QuadlogError, Unavailable
from quadlog.quadstore.applied import Applied
from quadlog.worker.catchup.restoring import Restoring
from quadlog.worker.catchup.store_copying import StoreCopying

if TYPE_CHECKING:
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.catchup.partial_copy import CopyProgress
    from quadlog.worker.catchup.store_copying import CopiedStore, CopyOffer
    from quadlog.worker.replica.rates import RatesFile

log = structlog.get_logger()

_TELLING: Final = 10_000_000
"""Bytes received, at least, from which a rate is measured."""


class StoreTransfer:
    """Source of whole stores at a worker's start, on its main thread; any thread may read `progress`."""

    def __init__(self, settings: WorkerSettings, topics: Topics, rates: RatesFile) -> None:
        self._copying, self._restoring = StoreCopying(settings, topics), Restoring(settings, topics)
        self._rates = rates
        self._source: StoreCopying | Restoring = self._copying

    @property
    def progress(self) -> CopyProgress:
        """Progress of the store that is being received."""
        return self._source.progress

    def offer(self, applied: Applied) -> CopyOffer | None:
        """Return the offer of a worker or a backup that is further than this state, if there is any."""
        return self._copying.offer(applied.index) or self._restoring.offer(applied)

    def is_there(self) -> bool:
        """Return True if an empty worker would be given a store."""
        return bool(self._copying.donors(1)) or self._restoring.offer(Applied()) is not None

    def transfer(self, before: Applied) -> None:
        """Replace the store here, which must not be open, and has applied `before`.

        Raises:
            Unavailable: nobody provides a store; the old one stays.

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
            copied = self._restoring.restore(before, self._copying.forget)
        except QuadlogError as none:
            raise Unavailable(f"{nobody}; and {none}") from none
        took = time.monotonic() - began
        log.info("backup_restored", **_figures(copied, before, took))
        if (rate := _rate(copied, took)) is not None:
            self._rates.keep(restored=rate)

    def forget(self) -> None:
        """Delete the received parts of stores."""
        self._copying.forget()
        self._restoring.forget()


def _figures(copied: CopiedStore, before: Applied, took: float) -> dict[str, float]:
    """Return the figures of a received store for the log."""
    index, size = copied.applied.index, copied.size
    return {"index": index, "before": before.index, "size": size, "took_s": round(took, 1)}


def _rate(copied: CopiedStore, took: float) -> float | None:
    """Return the bits/s; None if too few bytes were received to measure them."""
    return copied.came * 8 / took if copied.came >= _TELLING else None
