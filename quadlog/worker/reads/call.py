"""One question to a reading process, and its answer as it arrives."""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

from quadlog.worker.reads.frames import FrameKind, Headers, headers_of
from quadlog.worker.reads.reader_process import GATHERED

if TYPE_CHECKING:
    from quadlog.errors import QuadlogError
    from quadlog.worker.reads.frames import QueryRequest
    from quadlog.worker.reads.reading_process import ReadingProcess

AHEAD: Final = 64 * 1024
"""Bytes waiting for a slow client above which its process must wait.  As many as one read of the socket returns (256
KiB) may be added to them."""


class ReadCall:
    """Receives the frames of its process, and gives the pieces of the answer to one consumer."""

    def __init__(self, question: QueryRequest, asked_at: float) -> None:
        """`asked_at` is in steady milliseconds, like all times here."""
        self.question, self.asked_at = question, asked_at
        self.is_long = False
        """True if the question is known to run long."""
        self.reader: ReadingProcess | None = None
        """The process to which the question was sent."""
        self.number = 0
        """Number of the question's ticket at that process."""
        self.began = inf
        """Time from which the process had no earlier question to answer."""
        self.headers: Headers = []
        self.is_ended = False
        """True once no more of the answer will arrive."""
        self.is_given_up = False
        """True if nobody waits for the answer any more, while the process works on it."""
        self._pieces: deque[bytes] = deque()
        self.waiting = 0
        """Bytes that have arrived and were not consumed."""
        self._error: QuadlogError | None = None
        self._news: asyncio.Future[None] | None = None

    # --- for the process --------------------------------------------------------------------------------

    @property
    def is_answered(self) -> bool:
        """True if a part of the answer has arrived: the question cannot be asked again then."""
        return bool(self.headers)

    def on_frame(self, kind: FrameKind, body: bytes) -> None:
        """Process the next frame of the answer."""
        if kind is FrameKind.HEADERS:
            self.headers = headers_of(body)
            return
        if kind is FrameKind.PIECE:
            self._pieces.append(body)
            self.waiting += len(body)
            if self.waiting > AHEAD and self.reader is not None:
                self.reader.pause()
            if len(body) < GATHERED:
                return  # the end, or an error, follows immediately
        else:
            self.is_ended = True
        self._wake()

    def fail(self, error: QuadlogError) -> None:
        """End the call with an error: there is no answer, or the rest of it is missing."""
        if not self.is_ended:
            self._error, self.is_ended = error, True
            self._wake()

    def take_back(self) -> None:
        """Detach the call from its process, which did not begin it or ended before it answered."""
        self.reader, self.began = None, inf

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # --- for the consumer -------------------------------------------------------------------------------

    async def whole(self) -> bytes | None:
        """Return the whole answer if it is small; None: it arrives in pieces.

        Raises:
            QuadlogError: there is no answer.

        """
        await self._some()
        if not self.is_ended or len(self._pieces) > 1:
            return None
        return self._take()

    async def next(self) -> bytes:
        """Return the next piece; empty at the end.

        Raises:
            QuadlogError: the rest of the answer will not arrive.

        """
        if not self._pieces or self._error is not None:
            await self._some()
        return self._take()

    async def _some(self) -> None:
        while not (self._pieces and len(self._pieces[0]) >= GATHERED) and not self.is_ended:
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        if self._error is not None:
            raise self._error

    def _take(self) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        if self.waiting > AHEAD >= self.waiting - len(piece) and self.reader is not None:
            self.reader.resume()
        self.waiting -= len(piece)
        return piece
