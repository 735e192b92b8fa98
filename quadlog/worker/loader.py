"""LOAD: the documents of one entry, fetched and read beside everything else.

Meanwhile the worker applies, answers reads and sends heartbeats as ever.  What waits is the evaluation of
this entry and of those behind it, in the whole cluster: for `load-timeout` at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import httpx
import structlog
from pyoxigraph import Quad

from quadlog.document_reader import read
from quadlog.documents import DocumentError
from quadlog.worker.fetch import LoadLimits, fetch, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from quadlog.core.operations import Load

__all__ = ["LoadLimits", "Loaded", "Loader"]

log = structlog.get_logger()

EXPANSION: Final = 4
"""How much longer than `max-transaction-size` a document's quads may be, as N-Quads: prefixes make much of little."""

Loaded: TypeAlias = tuple[Quad, ...] | str
"""The quads of a document, or why there are none."""


class Loader:
    """Loads for one entry at a time: the next one that is to be evaluated."""

    def __init__(self, limits: LoadLimits, done: Callable[[], None]) -> None:
        """`done` is called in another thread."""
        self._limits: Final = limits
        self._done: Final = done
        self._job: _Job | None = None

    def loaded(self, tx_id: bytes, loads: Sequence[Load]) -> Mapping[int, Loaded] | None:
        """What a transaction loads, by operation; None: `done` is called when it is there."""
        if self._job is None or self._job.tx_id != tx_id:
            self._job = _Job(tx_id, loads, self._limits)
            if self._job.result is None:
                run = partial(self._job.run, self._done)
                threading.Thread(target=run, name="loader", daemon=True).start()
        return self._job.result

    def forget(self) -> None:
        """It was evaluated."""
        self._job = None


class _Job:
    """The documents of one entry."""

    def __init__(self, tx_id: bytes, loads: Sequence[Load], limits: LoadLimits) -> None:
        self.tx_id: Final = tx_id
        self._loads, self._limits = loads, limits
        # What may not be fetched costs no thread: anybody may ask for it.
        self._refused = {load.number: why for load in loads if (why := _refusal(load, limits))}
        self.result: Mapping[int, Loaded] | None = self._refused if len(self._refused) == len(loads) else None
        """Set once, when all of it is there."""

    def run(self, done: Callable[[], None]) -> None:
        asyncio.run(self._work(done))

    async def _work(self, done: Callable[[], None]) -> None:
        # Said in here: the loop ends later where it waits for a name server that does not answer.
        try:
            self.result = await self._load()
        except Exception as error:  # whatever it is, the log has to go on
            log.exception("what a transaction loads cannot be loaded", id=self.tx_id.hex())
            self.result = dict.fromkeys((load.number for load in self._loads), f"it failed: {error!r}")
        done()

    async def _load(self) -> Mapping[int, Loaded]:
        """One after the other: the first one may use all of the time and the size."""
        limits = self._limits
        late = f"not there within load-timeout of the worker ({limits.seconds:g} s)"
        loaded: dict[int, Loaded] = {load.number: late for load in self._loads}
        loaded.update(self._refused)
        left = limits.size
        with contextlib.suppress(TimeoutError):
            async with (
                asyncio.timeout(limits.seconds) as time,
                httpx.AsyncClient(trust_env=False, timeout=limits.seconds) as client,
            ):
                for load in self._loads:
                    if load.number in self._refused:
                        continue
                    try:
                        document = await fetch(client, load.source.value, limits, size=left)
                        left -= len(document.body)
                        seconds = (time.when() or 0.0) - asyncio.get_running_loop().time()
                        most = EXPANSION * limits.size
                        loaded[load.number] = read(load, self.tx_id, document, seconds=seconds, most=most)
                    except (DocumentError, httpx.HTTPError) as error:
                        loaded[load.number] = str(error) or type(error).__name__
        return loaded


def _refusal(load: Load, limits: LoadLimits) -> str | None:
    try:
        limits.check(url_of(load.source.value))
    except DocumentError as error:
        return str(error)
    return None
