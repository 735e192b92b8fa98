"""One question to a reading process, and its answer as it arrives."""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

from quadlog.worker.reads.frames import Headers, Kind, headers_of
from quadlog.worker.reads.reader_process import GATHERED

if TYPE_CHECKING:
    from quadlog.errors import QuadlogError
    from quadlog.worker.reads.frames import Question
    from quadlog.worker.reads.reader import Reader

AHEAD: Final = 64 * 1024
"""Bytes that wait for a slow client, from which on its process has to wait.  As much as one read of the socket gives
may come on top (256 KiB)."""


class Call:
    """Is told what its process says; gives the pieces of the answer to one consumer."""

    def __init__(self, question: Question, asked_at: float) -> None:
        """`asked_at`: steady milliseconds, as all times here."""
        self.question, self.asked_at = question, asked_at
        self.is_long = False
        """Whether it is known to run long."""
        self.reader: Reader | None = None
        """The process that it was asked at."""
        self.number = 0
        """Of its ticket there."""
        self.began = inf
        """Since when its process has nothing else to do."""
        self.headers: Headers = []
        self.is_ended = False
        """Whether nothing more comes."""
        self.is_given_up = False
        """Whether nobody waits for it, while its process works on it."""
        self._pieces: deque[bytes] = deque()
        self.waiting = 0
        """Bytes that came and were not taken."""
        self._error: QuadlogError | None = None
        self._news: asyncio.Future[None] | None = None

    # --- of the process ---------------------------------------------------------------------------------

    @property
    def is_answered(self) -> bool:
        """Whether any of the answer came: it cannot be asked again then."""
        return bool(self.headers)

    def hear(self, kind: Kind, body: bytes) -> None:
        """Take the next frame of the answer."""
        if kind is Kind.HEADERS:
            self.headers = headers_of(body)
            return
        if kind is Kind.PIECE:
            self._pieces.append(body)
            self.waiting += len(body)
            if self.waiting > AHEAD and self.reader is not None:
                self.reader.pause()
            if len(body) < GATHERED:
                return  # the end, or an error, comes with it
        else:
            self.is_ended = True
        self._wake()

    def fail(self, error: QuadlogError) -> None:
        """There is no answer, or not the rest of it."""
        if not self.is_ended:
            self._error, self.is_ended = error, True
            self._wake()

    def take_back(self) -> None:
        """Its process did not begin it, or was ended before it answered: it will be asked again."""
        self.reader, self.began = None, inf

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # --- of the consumer --------------------------------------------------------------------------------

    async def whole(self) -> bytes | None:
        """All of the answer where it is small; None: it comes in pieces.

        Raises:
            QuadlogError: there is none.

        """
        await self._some()
        if not self.is_ended or len(self._pieces) > 1:
            return None
        return self._take()

    async def next(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            QuadlogError: the rest does not come.

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
