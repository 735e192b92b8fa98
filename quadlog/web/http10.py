"""Answers to HTTP/1.0, which has no chunks: each answer has a Content-Length.

Without one, the end of an HTTP/1.0 answer is the end of its connection, which clients and proxies cannot distinguish
from a failure: nginx before version 1.29 uses HTTP/1.0 to its upstream servers, and passes a part on as the whole.
Therefore an answer of unknown length is gathered first, in memory and then in a temporary file.  A failure meanwhile is
answered as an error with its own status.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final

import structlog

from quadlog.errors import QueryStopped, Unavailable
from quadlog.web.answers import FAILED, error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from quadlog.errors import QuadlogError

log = structlog.get_logger()

IN_MEMORY: Final = 1024 * 1024
"""Bytes of an answer above which they are written to a file, and bytes of each piece that is read from there."""

NO_BODY: Final = (204, 304)

ROOM: Final = 1024 * 1024 * 1024
"""Maximum bytes of all gathered answers: what nginx keeps of a single one (`proxy_max_temp_file_size`)."""


class Http10Buffering:
    """The gathered answers of a process, which share a limit."""

    def __init__(self, room: int = ROOM) -> None:
        """`room`: maximum bytes of all gathered answers together."""
        self._most = self.room = room

    async def answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Gather the answer of `app`, and send it with its length."""
        gathered = _Gathered(self, send)
        try:
            with suppress(_TooMuchError):
                await app(scope, receive, gathered.send)
            await gathered.send_all(scope, receive)
        finally:
            gathered.close()

    def reserve(self, size: int) -> None:
        """Reserve `size` bytes of the room.

        Raises:
            _TooMuchError: fewer bytes are left.

        """
        if size > self.room:
            raise _TooMuchError
        self.room -= size

    def no_room(self, size: int) -> QuadlogError:
        """Return the error for an answer of at least `size` bytes that exceeds the room."""
        advice = "use HTTP/1.1 (nginx: proxy_http_version 1.1;), which needs no room here, or ask for less"
        if size >= self._most:
            return QueryStopped(
                f"the answer is longer than HTTP/1.0 is given here ({self._most} bytes): {advice}"
            )
        message = f"answers to HTTP/1.0 take all {self._most} bytes that they are given here: {advice}"
        return Unavailable(message, retry_after=5)


class _TooMuchError(Exception):
    """The rest of an answer cannot be gathered."""


class _Gathered:
    def __init__(self, gathering: Http10Buffering, send: Send) -> None:
        self._gathering, self._send = gathering, send
        self._start: Message | None = None
        """Start message of the answer, held back until the length is known."""
        self._pieces = bytearray()
        self._file: IO[bytes] | None = None
        self._size = 0
        self._is_whole = self._is_passed_on = False
        self._error: QuadlogError | None = None

    async def send(self, message: Message) -> None:
        """Gather a message of the application, or pass it on if the answer has a known length."""
        if message["type"] == "http.response.start":
            is_announced = any(name.lower() == b"content-length" for name, _ in message["headers"])
            self._is_passed_on = is_announced or message["status"] in NO_BODY
            self._start = message
        if self._is_passed_on:
            await self._send(message)
        elif message["type"] == "http.response.body":
            await self._keep(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)

    async def _keep(self, piece: bytes) -> None:
        try:
            self._gathering.reserve(len(piece))
        except _TooMuchError:
            self._error = self._gathering.no_room(self._size + len(piece))
            raise
        self._size += len(piece)
        self._pieces += piece
        if len(self._pieces) > IN_MEMORY:
            try:
                await asyncio.to_thread(self._write)
            except OSError as error:
                self._error = Unavailable(
                    f"an answer to HTTP/1.0 cannot be gathered in a temporary file: {error}", retry_after=5
                )
                raise _TooMuchError from error

    def _write(self) -> None:
        self._file = self._file or TemporaryFile()  # noqa: SIM115 - closed in close()
        self._file.write(self._pieces)
        self._pieces.clear()

    async def send_all(self, scope: Scope, receive: Receive) -> None:
        """Send the answer with its length, or an error if the answer is not whole."""
        if self._start is None or self._is_passed_on:
            return  # without any answer, the server reports that
        if not self._is_whole:
            failed = "the answer failed before its end, see the log of this node: ask again"
            error = self._error or scope.get(FAILED) or Unavailable(failed, retry_after=2)
            log.warning("http10_answer_failed", reason=str(error), size=self._size)
            await error_response(error)(scope, receive, self._send)
            return
        length = (b"content-length", b"%d" % self._size)
        await self._send({**self._start, "headers": [*self._start["headers"], length]})
        if self._file is not None:
            self._file.seek(0)
            while piece := await asyncio.to_thread(self._file.read, IN_MEMORY):
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": bytes(self._pieces)})

    def close(self) -> None:
        """Release the reserved room, and delete the file."""
        self._gathering.room += self._size
        if self._file is not None:
            self._file.close()
