"""Reads of a worker: each in a thread of its own, so that a slow client holds up nobody else."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

import structlog
from starlette.responses import Response

from quadlog.answers import Streamed
from quadlog.errors import QuadlogError, Unavailable
from quadlog.worker.pipe import Pipe

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

READS: Final = 32
"""Reads under way: each holds a thread, a snapshot of the store and at most `ROOM` bytes."""

TURN_S: Final = 5.0
"""How long a read waits for its turn; then another worker may be less busy."""


class Readers:
    """Runs reads and sends what they write."""

    def __init__(self, *, reads: int = READS, turn_s: float = TURN_S) -> None:
        """Nothing runs yet."""
        self._reads, self._turn_s = reads, turn_s
        self._turns = asyncio.Semaphore(reads)

    async def answer(self, write: Callable[[Pipe], None]) -> Response:
        """What `write` writes: whole if it is small, else piece by piece while it is written.

        An error before the first piece is raised here; after it, the transfer is broken off.

        Raises:
            Unavailable: too many reads are under way.
            QuadlogError: what `write` raised.

        """
        pipe = await self._begin(write)
        pieces = pipe.pieces()
        first = await anext(pieces, b"")
        if pipe.is_read:
            return Response(first, headers=pipe.headers)
        return Streamed(first, pieces, headers=pipe.headers)

    async def _begin(self, write: Callable[[Pipe], None]) -> Pipe:
        try:
            await asyncio.wait_for(self._turns.acquire(), self._turn_s)
        except TimeoutError:
            message = f"{self._reads} reads have been under way here for {self._turn_s:g} s"
            raise Unavailable(message, retry_after=2) from None
        loop, pipe = asyncio.get_running_loop(), Pipe()

        def run() -> None:
            try:
                pipe.end(_outcome(write, pipe))
            finally:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._turns.release)

        # A daemon: a query knows no way to be cancelled, and must not keep the process from ending.
        threading.Thread(target=run, name="read", daemon=True).start()
        return pipe


def _outcome(write: Callable[[Pipe], None], pipe: Pipe) -> Exception | None:
    try:
        write(pipe)
    except BrokenPipeError:
        log.info("a read was stopped: its client left")
    except Exception as error:
        if not isinstance(error, QuadlogError):
            log.exception("a read failed")
        # Without its frames: pyoxigraph's results must not be let go of in another thread.
        return error.with_traceback(None)
    return None
