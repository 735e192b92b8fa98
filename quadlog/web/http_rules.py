"""What holds for each request at masters and workers: checks of framing, URL and HTTP version, and added headers."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from quadlog.errors import UserError
from quadlog.web.answers import error_response
from quadlog.web.http10 import Http10Buffering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BEYOND_ASCII: Final = re.compile(rb"%[89A-Fa-f]")

CLOSE: Final = (b"connection", b"close")


class HttpRules:
    """ASGI application that checks the requests to another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gathering = Http10Buffering()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request with 400, or pass it on; the end of the answer is marked as its HTTP version can."""
        try:
            _check_url(scope["raw_path"], scope["query_string"])
            is_waiting = _check_framing(scope["headers"], scope["http_version"])
        except UserError as error:
            # The length of the body is unknown: the rest of this connection is not read.
            await error_response(error, {"Connection": "close"})(scope, receive, send)
            return
        if is_waiting:
            receive, send = _closing_unless_read(receive, send)
        if scope["method"] == "HEAD":
            await _answer_head(self._app, scope, receive, send)
        elif scope["http_version"] == "1.0":
            await self._gathering.answer(self._app, scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _SentError(Exception):
    """Stops an application whose answer is complete because it has no body."""


async def _answer_head(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as to GET, but end the body before it begins, and stop the code that produces it."""

    async def send_head(message: Message) -> None:
        if message["type"] != "http.response.body":
            await send(message)
            return
        await send({"type": "http.response.body", "body": b""})
        if message.get("more_body", False):
            raise _SentError

    with suppress(_SentError):
        await app(scope, receive, send_head)


def _check_url(raw_path: bytes, query: bytes) -> None:
    """Refuse escapes that are not UTF-8, which would be read as U+FFFD; the parser refuses bytes beyond ASCII.

    Raises:
        UserError: the URL has such an escape.

    """
    for name, part in (("path", raw_path), ("query", query)):
        if _BEYOND_ASCII.search(part) is not None:
            try:
                unquote_to_bytes(part).decode()
            except UnicodeDecodeError as error:
                raise UserError(f"the URL's {name} is not UTF-8: {error}; nothing was done") from None


def _check_framing(headers: Sequence[tuple[bytes, bytes]], version: str) -> bool:
    """Check how the body is delimited; return whether the client waits for 100 Continue.

    If two readers of one request see its end at different positions, one of them takes the rest for another request
    (RFC 9112, section 11.2).  The parser already refuses most such requests.

    Raises:
        UserError: the end of the body is ambiguous, or the body is compressed or otherwise encoded.

    """
    lengths, codings, is_waiting = 0, list[bytes](), False
    for name, value in headers:
        if name == b"content-length":
            lengths += 1
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
        elif name == b"content-encoding" and value.lower() not in {b"", b"identity"}:
            raise UserError("a body with a Content-Encoding is not taken: send it as it is; nothing was done")
        elif name == b"expect":
            is_waiting = value.lower() == b"100-continue" and version != "1.0"
    if lengths > 1 or (lengths and codings):
        raise UserError("Content-Length stands once, or Transfer-Encoding instead of it; nothing was done")
    if codings and (codings != [b"chunked"] or version == "1.0"):
        raise UserError(
            "Transfer-Encoding is chunked, of HTTP/1.1, and no other; compressed bodies are not taken; nothing was done"
        )
    return is_waiting


def _closing_unless_read(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Return channels that close the connection if the answer starts before the body was read.

    The client has then not received 100 Continue, and it is unknown whether it sends the body.
    """
    is_read = False

    async def receive_noting() -> Message:
        nonlocal is_read
        is_read = True
        return await receive()

    async def send_closing(message: Message) -> None:
        if message["type"] == "http.response.start" and not is_read:
            message = {**message, "headers": [*message.get("headers", ()), CLOSE]}
        await send(message)

    return receive_noting, send_closing


class AddedHeaders:
    """ASGI application that adds headers to the answers of another one."""

    def __init__(self, app: ASGIApp, headers: Callable[[], Sequence[tuple[bytes, bytes]]]) -> None:
        """`headers` returns the headers for a request that begins now; it is called for each, so it must be quick."""
        self._app, self._headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; the answer has the headers that held when the request or the answer began."""
        before = self._headers()

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start" and (added := self._headers() or before):
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self._app(scope, receive, send_more)
