"""LOAD and SERVICE: fetches and parses what one entry needs from other servers, concurrently with all other work.

Meanwhile the worker continues to apply effects, to answer reads and to send heartbeats.  Only the evaluation of
this entry and of those after it waits, in the whole cluster, for at most `load-timeout`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import httpx
import structlog
from pyoxigraph import Quad

from quadlog.core.sparql.operations import Load, Service
from quadlog.rdf.document_reader import read
from quadlog.rdf.documents import DocumentError
from quadlog.settings.units import MIB
from quadlog.web.http_pool import trust
from quadlog.worker.evaluate.answers import asked
from quadlog.worker.evaluate.fetch import LoadLimits, fetch, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


__all__ = ["LoadFailed", "LoadLimits", "Loaded", "Loader", "Wanted"]

log = structlog.get_logger()

EXPANSION: Final = 4
"""Maximum length of a document's quads as N-Quads, as a multiple of `max-transaction-size`.

Prefixes make a document much shorter than its quads.
"""

ANSWERED: Final = 8 * MIB
"""Bytes of one endpoint's answer, at most: it is parsed and evaluated as text."""

Wanted: TypeAlias = Load | Service


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """A document or an answer that could not be loaded."""

    why: str


Loaded: TypeAlias = tuple[Quad, ...] | str | LoadFailed
"""The quads of a document, the text that replaces a SERVICE, or why there is neither."""


class Loader:
    """Loader for one entry at a time: the next one that will be evaluated."""

    def __init__(self, limits: LoadLimits, done: Callable[[], None]) -> None:
        """Load within `limits`; `done` is called on another thread."""
        self._limits: Final = limits
        self._done: Final = done
        self._job: _LoadJob | None = None

    def loaded(self, tx_id: bytes, wanted: Sequence[Wanted]) -> Mapping[Wanted, Loaded] | None:
        """Return what a transaction needs; None if it is not loaded yet: `done` is called when it is."""
        if self._job is None or self._job.tx_id != tx_id:
            self._job = _LoadJob(tx_id, wanted, self._limits)
            if self._job.result is None:
                run = partial(self._job.run, self._done)
                threading.Thread(target=run, name="loader", daemon=True).start()
        return self._job.result

    def forget(self) -> None:
        """Drop what was loaded: its entry was evaluated, or may be of a branch."""
        self._job = None


class _LoadJob:
    """Loading of what one entry needs."""

    def __init__(self, tx_id: bytes, wanted: Sequence[Wanted], limits: LoadLimits) -> None:
        self.tx_id: Final = tx_id
        self._wanted, self._limits = wanted, limits
        # What must not be fetched uses no thread: anybody may send such an update.
        self._refused = {one: why for one in wanted if (why := _refusal(one, limits))}
        self.result: Mapping[Wanted, Loaded] | None = (
            self._refused if len(self._refused) == len(wanted) else None
        )
        """What was loaded; set once, when everything is loaded or has failed."""

    def run(self, done: Callable[[], None]) -> None:
        asyncio.run(self._work(done))

    async def _work(self, done: Callable[[], None]) -> None:
        # `done` is called in here: the loop ends later if it waits for a name server that does not answer.
        try:
            self.result = await self._load()
        except Exception as error:  # whatever it is, the log must continue
            log.exception("load_failed", id=self.tx_id.hex())
            self.result = dict.fromkeys(self._wanted, LoadFailed(f"it failed: {error!r}"))
        done()

    async def _load(self) -> Mapping[Wanted, Loaded]:
        """Load one after the other: the first one may use all of the time and the size."""
        limits = self._limits
        late = LoadFailed(f"not there within load-timeout of the worker ({limits.seconds:g} s)")
        loaded: dict[Wanted, Loaded] = dict.fromkeys(self._wanted, late)
        loaded.update(self._refused)
        left = limits.size
        with contextlib.suppress(TimeoutError):
            async with (
                asyncio.timeout(limits.seconds) as time,
                httpx.AsyncClient(verify=trust(), trust_env=False, timeout=limits.seconds) as client,
            ):
                for one in self._wanted:
                    if one in self._refused:
                        continue
                    try:
                        if isinstance(one, Service):
                            loaded[one], size = await asked(client, one, limits, size=min(left, ANSWERED))
                            left -= size
                            continue
                        document = await fetch(client, one.source.value, limits, size=left)
                        left -= len(document.body)
                        seconds = (time.when() or 0.0) - asyncio.get_running_loop().time()
                        most = EXPANSION * limits.size
                        loaded[one] = read(one, self.tx_id, document, seconds=seconds, most=most)
                    except (DocumentError, httpx.HTTPError) as error:
                        loaded[one] = LoadFailed(str(error) or type(error).__name__)
        return loaded


def _refusal(one: Wanted, limits: LoadLimits) -> LoadFailed | None:
    try:
        if isinstance(one, Service):
            limits.check_endpoint(url_of(one.endpoint.value))
        else:
            limits.check(url_of(one.source.value))
    except DocumentError as error:
        return LoadFailed(str(error))
    return None
