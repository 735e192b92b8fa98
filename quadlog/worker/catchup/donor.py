"""The donor: a worker gives a copy of its whole store to one that cannot, or need not, hear all of the log.

A copy is made by hard links at a moment when nothing is anticipated, and stays until another worker asks, or until
nobody has asked for ten minutes: so whoever was cut off goes on where it was, also where the donor was begun again.
One is given at a time, and the donor serves meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

import structlog
from anyio import CancelScope, to_thread
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.core.effects.signature import render
from quadlog.errors import Unavailable, UserError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES, STORE_HERE
from quadlog.snapshots import packing
from quadlog.snapshots.packing import LEAST_WINDOW, Compression, ahead, packed, window_for
from quadlog.snapshots.parcel import Label, label_of, pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.snapshots.backups import FedFrom

log = structlog.get_logger()

APPLIED: Final = "Quadlog-Applied"
"""What is applied in a copy, as a store says it."""
RESERVED: Final = "Quadlog-Reserved-Graph"
"""The name of its reserved graph."""
STORE: Final = "Quadlog-Store"
"""What the one who asks for a copy can read."""
COMPRESSION: Final = "Quadlog-Compression"
"""What is wanted, and what comes: `auto`, `zstd`, `snappy` or `none`."""
FED_FROM: Final = "Quadlog-Fed-From"
"""Which topics the store was fed from, in whose offsets a copy says what is applied."""
WINDOW: Final = "Quadlog-Window"
"""Bytes of memory that the one who takes a copy lends for zstd's window."""
MEDIA_TYPE: Final = "application/x-quadlog-copy"
"""Chunks (`packing.py`) of a parcel."""
RETRY_S: Final = 5
PATIENCE_S: Final = 30.0
"""After which one that takes nothing any more is not waited for."""
KEPT_S: Final = 600.0
"""How long a copy stays after its last byte was sent: it holds files that the store does not need any more."""
_SAID: Final = "copy.json"
_STORE: Final = "store"


class NoSuchCopy(UserError):
    """No copy of this digest is kept here any more."""

    status = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One that is given."""

    files: Path
    label: Label
    applied: Applied
    reserved: str

    def headers(self) -> dict[str, str]:
        """As it is sent."""
        applied = self.applied.encode()
        return self.label.headers() | {APPLIED: applied, RESERVED: self.reserved}

    def save(self, directory: Path) -> None:
        """Beside its files."""
        said = {"label": asdict(self.label), "applied": self.applied.encode(), "reserved": self.reserved}
        (directory / _SAID).write_text(json.dumps(said))

    @staticmethod
    def load(directory: Path) -> Copy | None:
        """What a process before this one gave, if that was not long ago."""
        file = directory / _SAID
        with suppress(OSError, ValueError, TypeError, KeyError):
            if time.time() - file.stat().st_mtime < KEPT_S:
                said: dict[str, Any] = json.loads(file.read_text())
                label, applied = Label(**said["label"]), Applied.decode(said["applied"])
                files = directory / _STORE / FILES
                return Copy(files=files, label=label, applied=applied, reserved=said["reserved"])
        return None


class Donor:
    """`GET /copy/offer`, `POST /copy` to have one made, `GET /copy?digest=…&from=…` for its bytes.

    Used by the server's threads.
    """

    def __init__(
        self,
        store: QuadStore,
        directory: Path,
        *,
        fed_from: Callable[[], FedFrom | None] = lambda: None,
        bandwidth: float = inf,
        window: int = packing.WINDOW,
    ) -> None:
        """Nothing is given.

        Args:
            store: the one that is served.
            directory: for copies.
            fed_from: tells which topics the store was fed from; None: that is not known yet.
            bandwidth: bytes/s at the most.
            window: bytes that zstd may look back.

        """
        self._store, self._directory, self._fed_from = store, directory, fed_from
        self._bandwidth, self._window = bandwidth, window
        self._lock = threading.Lock()
        self._busy_until, self._turn = 0.0, object()
        self._copy = Copy.load(directory)
        if self._copy is None:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            self._keep(self._turn)

    async def offer(self, _: Request) -> Response:
        """What a copy would be: `index`, `quads`, and `size`, bytes of the files of the store as they are now."""
        applied, size = self._store.applied, await asyncio.to_thread(self._store.size)
        return JSONResponse({"index": applied.index, "quads": applied.quads, "size": size})

    async def post(self, request: Request) -> Response:
        """Make a copy, and say what it is: its bytes are to be asked for next.

        Raises:
            UserError: who asks cannot read it.
            Unavailable: one is being given to another worker, or none can be made.

        """
        if (store := request.headers.get(STORE)) != STORE_HERE:
            raise UserError(
                f"the store here is of {STORE_HERE}, and who asks reads {store} ({STORE}): have both of one version"
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
        told = {FED_FROM: fed_from.encode()} if fed_from is not None else {}
        return Response(status_code=201, headers=copy.headers() | told)

    async def get(self, request: Request) -> Response:
        """Give a copy that was made, from some byte on.

        Raises:
            NoSuchCopy: that is not here any more.
            UserError: not so far.

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
        log.info("copy_requested", index=copy.applied.index, size=copy.label.size, start=int(start), how=how)
        window = window_for(copy.label.size - int(start), self._window, lent_in(request.headers))
        chunks = packed(pieces_of(copy.files, start=int(start)), how, window=window)
        headers = copy.headers() | {COMPRESSION: how, "Content-Type": MEDIA_TYPE}
        return _Given(self._paced(chunks, turn), headers, lambda: self._end(turn))

    def _begin(self, digest: str | None, *, until: float = 0.0) -> object:
        """Whoever knows the copy that is given is its taker, and was cut off."""
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
        """Whether nobody else has come since, for want of any sign of life."""
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
                copy.save(self._directory)  # it was asked for now
            self._keep(turn)

    def _keep(self, turn: object) -> None:
        """For some time, if nobody else comes."""
        timer = threading.Timer(KEPT_S, self._drop, (turn,))
        timer.daemon = True
        timer.start()

    def _drop(self, turn: object) -> None:
        with self._lock:
            if self._turn is turn:
                self._copy = None
                shutil.rmtree(self._directory, ignore_errors=True)

    def _make(self) -> Copy:
        self._copy = None
        shutil.rmtree(self._directory, ignore_errors=True)
        try:
            self._directory.mkdir(parents=True)
            path = self._directory / _STORE
            applied = self._store.copy(path)
            files = path / FILES
            label = label_of(files, signature=render(applied.signature), quads=applied.quads)
        except (OSError, RuntimeError) as error:
            if not self._store.damage.note(error) and isinstance(error, RuntimeError):
                raise
            raise Unavailable(f"no copy can be made: {error}") from error
        copy = Copy(files=files, label=label, applied=applied, reserved=self._store.reserved)
        copy.save(self._directory)
        self._copy = copy
        return copy

    def _paced(self, chunks: Iterator[bytes], turn: object) -> Generator[bytes]:
        """Not faster than is allowed."""
        began, sent = time.monotonic(), 0
        for chunk in ahead(chunks):
            if not self._goes_on(turn):
                return
            yield chunk
            sent += len(chunk)
            time.sleep(max(0.0, began + sent / self._bandwidth - time.monotonic()))


class _Given(StreamingResponse):
    """An answer that says when it is over, also where nobody stayed to hear its first byte."""

    def __init__(
        self, chunks: Generator[bytes], headers: Mapping[str, str], over: Callable[[], None]
    ) -> None:
        """Not begun."""
        super().__init__(iterate_in_threadpool(chunks), headers=headers)
        self._chunks, self._over = chunks, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()
            with CancelScope(shield=True):
                await to_thread.run_sync(self._chunks.close)


def lent_in(headers: Mapping[str, str]) -> int:
    """Bytes of memory that the one who asks for a copy lends."""
    with suppress(ValueError):
        return max(LEAST_WINDOW, int(headers.get(WINDOW, "")))
    return LEAST_WINDOW


def wanted_in(headers: Mapping[str, str]) -> Compression:
    """What the one who asks for a copy wants; none where it says nothing that we speak."""
    with suppress(ValueError):
        return Compression(headers.get(COMPRESSION, Compression.NONE))
    return Compression.NONE
