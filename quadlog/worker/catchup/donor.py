"""The donor: a worker gives a copy of its whole store to a worker that cannot, or need not, read all of the log.

A copy is made by hard links at a moment when nothing is anticipated.  It is kept until another worker requests
one, or until nobody has requested it for ten minutes: so an interrupted receiver continues where it was, also
after a restart of the donor.  One copy is given at a time, and the donor serves meanwhile.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

import structlog
from anyio import CancelScope, to_thread
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.core.effects.signature import render
from quadlog.errors import NoSuchCopy, Unavailable, UserError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES, STORE_HERE
from quadlog.snapshots import chunk_codec
from quadlog.snapshots.chunk_codec import LEAST_WINDOW, Compression, encode_chunks, prefetch, window_for
from quadlog.snapshots.store_archive import label_of, pieces_of
from quadlog.worker.catchup.partial_copy import CopyDescription
from quadlog.worker.repair.health import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.snapshots.backups import SourceTopicIds

log = structlog.get_logger()

STORE: Final = "Quadlog-Store"
"""Header with the kind of store that the receiver can read."""
COMPRESSION: Final = "Quadlog-Compression"
"""Header with the requested and the used compression: `auto`, `zstd`, `snappy` or `none`."""
WINDOW: Final = "Quadlog-Window"
"""Header with the bytes of memory that the receiver lends for zstd's window."""
MEDIA_TYPE: Final = "application/x-quadlog-copy"
"""Media type of a store archive in chunks (`chunk_codec.py`)."""
RETRY_S: Final = 5
PATIENCE_S: Final = 30.0
"""Seconds after which the donor no longer waits for a receiver that accepts no data."""
KEPT_S: Final = 600.0
"""Seconds for which a copy is kept after its last byte was sent: it holds files that the store no longer needs."""
_STORE: Final = "store"


class Donor:
    """Handlers of `GET /copy/offer`, of `POST /copy` to make a copy, and of `GET /copy?digest=…&from=…` for its bytes.

    Used by the server's threads.
    """

    def __init__(
        self,
        store: QuadStore,
        directory: Path,
        *,
        health: Health | None = None,
        fed_from: Callable[[], SourceTopicIds | None] = lambda: None,
        bandwidth: float = inf,
        window: int = chunk_codec.WINDOW,
    ) -> None:
        """Keep the copy of an earlier process, if there is one; nobody gets a copy of a store that keeps a branch.

        `fed_from` returns the topics that the store was fed from; None: they are not known yet.  `bandwidth` is the
        most bytes/s, `window` the bytes that zstd may look back.
        """
        self._store, self._directory, self._fed_from = store, directory, fed_from
        self._health: Final = health or Health()
        self._bandwidth, self._window = bandwidth, window
        self._lock = threading.Lock()
        self._busy_until, self._turn = 0.0, object()
        self._files: Final = directory / _STORE / FILES
        self._copy = CopyDescription.load(directory, within=KEPT_S)
        if self._copy is None:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            self._keep(self._turn)

    async def offer(self, _: Request) -> Response:
        """Describe a copy: `index`, `quads`, and `size`, the bytes of the store's files as they are now."""
        applied, size = self._store.applied, await asyncio.to_thread(self._store.size)
        return JSONResponse({"index": applied.index, "quads": applied.quads, "size": size})

    async def post(self, request: Request) -> Response:
        """Make a copy, and describe it; its bytes must be requested next.

        Raises:
            UserError: the receiver cannot read it.
            Unavailable: a copy is being given to another worker, or none can be made.

        """
        if self._health.branch is not None:
            raise Unavailable(
                "this worker keeps a branch that is not in the log: copy another one; /statements has its quads"
            )
        if (store := request.headers.get(STORE)) != STORE_HERE:
            raise UserError(
                f"the store here is of {STORE_HERE}, and the receiver reads {store} ({STORE}): have both of one version"
            )
        turn = self._begin(None, until=inf)
        try:
            copy = await asyncio.to_thread(self._make)
        except BaseException:
            self._end(turn)
            raise
        self._goes_on(turn)
        self._keep(turn)
        fed_from = self._fed_from()
        told = replace(copy, fed_from=fed_from.encode() if fed_from is not None else "")
        return Response(status_code=201, headers=told.headers())

    async def get(self, request: Request) -> Response:
        """Send a copy that was made, from a byte on.

        Raises:
            NoSuchCopy: that copy is no longer here.
            UserError: the request is not valid, or the copy has fewer bytes.

        """
        digest, start = request.query_params.get("digest"), request.query_params.get("from", "0")
        if digest is None or not start.isdigit():
            raise UserError(
                "a copy is asked for by its 'digest', which POST tells, 'from' a number of bytes on"
            )
        copy = self._copy
        if copy is None or digest != copy.label.digest:
            raise NoSuchCopy("that copy is not here any more: begin again")
        if int(start) > copy.label.size:
            raise UserError(f"this copy has {copy.label.size} bytes, and is asked for from {start} on")
        turn = self._begin(digest)
        how = wanted_in(request.headers)
        index = Applied.decode(copy.applied).index
        log.info("copy_requested", index=index, size=copy.label.size, start=int(start), how=how)
        window = window_for(copy.label.size - int(start), self._window, lent_in(request.headers))
        chunks = encode_chunks(pieces_of(self._files, start=int(start)), how, window=window)
        headers = copy.headers() | {COMPRESSION: how, "Content-Type": MEDIA_TYPE}
        return _Given(self._paced(chunks, turn), headers, lambda: self._end(turn))

    def _begin(self, digest: str | None, *, until: float = 0.0) -> object:
        """Begin to serve a receiver, unless another one is being served.

        A receiver that knows the current copy is the one that was served, and was interrupted.
        """
        with self._lock:
            knows = self._copy is not None and digest == self._copy.label.digest
            if not knows and time.monotonic() < self._busy_until:
                raise Unavailable(
                    "this worker gives a copy to another one: ask another worker", retry_after=RETRY_S
                )
            self._busy_until = until or time.monotonic() + PATIENCE_S
            self._turn = object()
            return self._turn

    def _goes_on(self, turn: object) -> bool:
        """Extend the turn; return False if another receiver was accepted since, because this one showed no activity."""
        with self._lock:
            if self._turn is turn:
                self._busy_until = time.monotonic() + PATIENCE_S
            return self._turn is turn

    def _end(self, turn: object) -> None:
        with self._lock:
            if self._turn is not turn:
                return
            self._busy_until = 0.0
            copy = self._copy
        if copy is not None:
            with suppress(FileNotFoundError):
                copy.save(self._directory)  # its age counts from now on
            self._keep(turn)

    def _keep(self, turn: object) -> None:
        """Drop the copy after `KEPT_S`, unless it or another one is requested before."""
        timer = threading.Timer(KEPT_S, self._drop, (turn,))
        timer.daemon = True
        timer.start()

    def _drop(self, turn: object) -> None:
        with self._lock:
            if self._turn is turn:
                self._copy = None
                shutil.rmtree(self._directory, ignore_errors=True)

    def _make(self) -> CopyDescription:
        self._copy = None
        shutil.rmtree(self._directory, ignore_errors=True)
        try:
            self._directory.mkdir(parents=True)
            applied = self._store.copy(self._directory / _STORE)
            label = label_of(self._files, signature=render(applied.signature), quads=applied.quads)
        except (OSError, RuntimeError) as error:
            if not self._store.damage.note(error) and isinstance(error, RuntimeError):
                raise
            raise Unavailable(f"no copy can be made: {error}") from error
        copy = CopyDescription(label=label, applied=applied.encode(), reserved=self._store.reserved)
        copy.save(self._directory)
        self._copy = copy
        return copy

    def _paced(self, chunks: Iterator[bytes], turn: object) -> Generator[bytes]:
        began, sent = time.monotonic(), 0
        for chunk in prefetch(chunks):
            if not self._goes_on(turn):
                return
            yield chunk
            sent += len(chunk)
            time.sleep(max(0.0, began + sent / self._bandwidth - time.monotonic()))


class _Given(StreamingResponse):
    """A response that calls `over` at its end, also if the client left before its first byte."""

    def __init__(
        self, chunks: Generator[bytes], headers: Mapping[str, str], over: Callable[[], None]
    ) -> None:
        super().__init__(iterate_in_threadpool(chunks), headers=headers)
        self._chunks, self._over = chunks, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()
            with CancelScope(shield=True):
                await to_thread.run_sync(self._chunks.close)


def lent_in(headers: Mapping[str, str]) -> int:
    """Return the bytes of memory that the receiver of a copy lends."""
    with suppress(ValueError):
        return max(LEAST_WINDOW, int(headers.get(WINDOW, "")))
    return LEAST_WINDOW


def wanted_in(headers: Mapping[str, str]) -> Compression:
    """Return the compression that the receiver of a copy requests; NONE if it names none that is supported."""
    with suppress(ValueError):
        return Compression(headers.get(COMPRESSION, Compression.NONE))
    return Compression.NONE
