"""Bodies of requests: read with a limit, decoded with an error that says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from quadlog.errors import TooLarge, UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request


FIELDS: Final = 1000
"""Of a form: beyond what any protocol here needs; megabytes of `&` would take seconds and gigabytes."""

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})

QUERY_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a query's text."""


def media_type_of(request: Request) -> str:
    """Media type of the body, without its parameters.

    Raises:
        UserError: another charset than UTF-8.

    """
    media_type, *parameters = request.headers.get("content-type", "").lower().split(";")
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in {"utf-8", "utf8", "us-ascii"}:
            message = f"text is sent as UTF-8, not as {value}"
            raise UserError(message)
    return media_type.strip()


async def read_query(request: Request, grow: Callable[[int], None] | None = None) -> bytes:
    """The body of a query; `grow` as for `read_body`.

    Raises:
        TooLarge: it is above `QUERY_LIMIT`.
        UserError: the client left before its end, or it is not as long as was announced.

    """
    message = f"the request is larger than a query may be ({QUERY_LIMIT} bytes): ask for less at once"
    return await _read(request, QUERY_LIMIT, message, grow)


async def read_body(request: Request, limit: int, grow: Callable[[int], None] | None = None) -> bytes:
    """The body, if it is within `limit` bytes.

    `grow` is told of every part before it is kept; what it raises ends the reading.

    Raises:
        TooLarge: it is not; said by its Content-Length already where there is one.
        UserError: the client left before its end, or it is not as long as was announced.

    """
    return await _read(request, limit, too_large(limit), grow)


async def _read(
    request: Request, limit: int, message: str, grow: Callable[[int], None] | None = None
) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise TooLarge(message)
    chunks: list[bytes] = []
    size, is_all = 0, False
    while not is_all:
        received = await request.receive()
        if received["type"] == "http.disconnect":  # nobody is there to read it
            left = f"the client left after {size} bytes of its request"
            raise UserError(left)
        chunk: bytes = received.get("body", b"")
        is_all = not received.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise TooLarge(message)
        if grow:
            grow(len(chunk))
        chunks.append(chunk)
    _check_size(request, size, length)
    return b"".join(chunks)


def _check_size(request: Request, size: int, length: str) -> None:
    """A body that is not there must not be taken for an empty one, whatever the server and the proxies before it do."""
    if length and int(length) != size:
        raise UserError(
            f"the body has {size} bytes, and Content-Length says {length}: send it again; nothing was done"
        )
    if not size and not length and request.method in WITH_BODY:
        raise UserError(
            f"{request.method} needs a body, and none came: send one, or Content-Length: 0 if it is to be empty;"
            " nothing was done"
        )


def parameters_of(request: Request) -> dict[str, list[str]]:
    """The parameters in the URL."""
    query: bytes = request.scope["query_string"]
    return parse_qs(query.decode("latin-1"), keep_blank_values=True)


def too_large(limit: int) -> str:
    """What a client is told whose request is above the limit."""
    return (
        f"the request is larger than max-transaction-size allows ({limit} bytes);"
        " send it in parts, load files into a new cluster with `quadlog import`, or raise max-transaction-size on every"
        " master"
    )


def text_of(body: bytes) -> str:
    """The body as text.

    Raises:
        UserError: it is not UTF-8.

    """
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        message = f"the text is not UTF-8: byte {error.start} is {body[error.start]:#04x}"
        raise UserError(message) from error


def form_of(body: bytes) -> dict[str, list[str]]:
    """The fields of a form.

    Raises:
        UserError: it is not UTF-8, or has too many fields.

    """
    try:
        return parse_qs(text_of(body), keep_blank_values=True, errors="strict", max_num_fields=FIELDS)
    except UnicodeDecodeError as error:
        message = f"the form is not UTF-8: {error}"
        raise UserError(message) from error
    except ValueError as error:
        message = f"the form has more than {FIELDS} fields"
        raise UserError(message) from error
