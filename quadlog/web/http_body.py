"""Bodies of requests: read with a size limit, and decoded with errors that name the fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from quadlog.errors import TooLarge, UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request


FIELDS: Final = 1000
"""Maximum fields of a form: more than any protocol here needs; megabytes of `&` would cost seconds and gigabytes."""

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})

QUERY_LIMIT: Final = 16 * 1024 * 1024
"""Maximum bytes of the body of a query."""


def media_type_of(request: Request) -> str:
    """Return the media type of the body, without its parameters.

    Raises:
        UserError: the charset is neither UTF-8 nor US-ASCII.

    """
    media_type, *parameters = request.headers.get("content-type", "").lower().split(";")
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in {"utf-8", "utf8", "us-ascii"}:
            raise UserError(f"text is sent as UTF-8, not as {value}")
    return media_type.strip()


async def read_query(request: Request, grow: Callable[[int], None] | None = None) -> bytes:
    """Return the body of a query; `grow` as for `read_body`.

    Raises:
        TooLarge: the body is above `QUERY_LIMIT`.
        UserError: the client disconnected before its end, or the body is missing or not as long as announced.

    """
    refusal = f"the request is larger than a query may be ({QUERY_LIMIT} bytes): ask for less at once"
    return await read_body(request, QUERY_LIMIT, grow, refusal=refusal)


async def read_body(
    request: Request, limit: int, grow: Callable[[int], None] | None = None, *, refusal: str = ""
) -> bytes:
    """Return the body if it has at most `limit` bytes.

    `grow` is called with the size of every part before the part is kept; an exception of `grow` ends the reading.
    `refusal`: message for a longer body; empty: that for a longer transaction.

    Raises:
        TooLarge: the body is longer; if it has a Content-Length, nothing is read.
        UserError: the client disconnected before its end, or the body is missing or not as long as announced.

    """
    headers = request.scope["headers"]
    length = next((value.decode("latin-1") for name, value in headers if name == b"content-length"), "")
    if length.isdigit() and int(length) > limit:
        raise TooLarge(refusal or too_large(limit))
    chunks: list[bytes] = []
    size, is_all = 0, False
    while not is_all:
        received = await request.receive()
        if received["type"] == "http.disconnect":  # nobody receives the message
            raise UserError(f"the client left after {size} bytes of its request")
        chunk: bytes = received.get("body", b"")
        is_all = not received.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise TooLarge(refusal or too_large(limit))
        if grow:
            grow(len(chunk))
        chunks.append(chunk)
    _check_size(request, size, length)
    return b"".join(chunks)


def _check_size(request: Request, size: int, length: str) -> None:
    """Refuse a body that is missing or not as long as announced.

    A missing body must not be taken for an empty one, whatever the server and the proxies in front of it do.
    """
    if length and int(length) != size:
        raise UserError(
            f"the body has {size} bytes, and Content-Length says {length}: send it again; nothing was done"
        )
    if not size and not length and request.scope["method"] in WITH_BODY:
        raise UserError(
            f"{request.method} needs a body, and none came: send one, or Content-Length: 0 for an empty one;"
            " nothing was done"
        )


def parameters_of(request: Request) -> dict[str, list[str]]:
    """Return the parameters in the URL."""
    query: bytes = request.scope["query_string"]
    return parse_qs(query.decode("latin-1"), keep_blank_values=True)


def too_large(limit: int) -> str:
    """Return the error message for a request above the limit."""
    return (
        f"the request is larger than max-transaction-size allows ({limit} bytes);"
        " send it in parts, load files into a new cluster with `quadlog import`, or raise max-transaction-size on every"
        " master"
    )


def text_of(body: bytes) -> str:
    """Return the body as text.

    Raises:
        UserError: the body is not UTF-8.

    """
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"the text is not UTF-8: byte {error.start} is {body[error.start]:#04x}") from error


def form_of(body: bytes) -> dict[str, list[str]]:
    """Return the fields of a form.

    Raises:
        UserError: the form is not UTF-8, or has more than `FIELDS` fields.

    """
    try:
        return parse_qs(text_of(body), keep_blank_values=True, errors="strict", max_num_fields=FIELDS)
    except UnicodeDecodeError as error:
        raise UserError(f"the form is not UTF-8: {error}") from error
    except ValueError as error:
        raise UserError(f"the form has more than {FIELDS} fields") from error
