"""What ends an answer that cannot be completed."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

import pytest
from rdflib.query import Result

from quadlog.errors import Unavailable
from quadlog.web.answers import StreamedResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio

CSV: Final = b'a,b\r\nurn:x,"one, ""two""\r\nthree"\r\n,y\r\n'
TSV: Final = b'?a\t?b\n<urn:x>\t"3\\" of tape"@en\n\t4\n'

READ_AHEAD: Final = 16 * 1024
"""What Java's HTTP client forgets at most, of what came last, when its connection fails."""


async def sent(media_type: str, body: bytes, cut: int) -> bytes:
    """What a client gets of an answer that fails when so much of it was sent."""

    async def rest() -> AsyncGenerator[bytes]:
        for place in range(1, cut):
            yield body[place : place + 1]
        raise Unavailable("it failed")

    pieces: list[bytes] = []

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            assert message["more_body"], "this is an end"
            pieces.append(message["body"])

    answer = StreamedResponse(body[:1], rest(), headers={"Content-Type": f"{media_type}; charset=utf-8"})
    await answer.stream_response(send)  # type: ignore[arg-type]  # messages of ASGI
    return b"".join(pieces)


@pytest.mark.parametrize("cut", range(1, len(CSV) + 1))
async def test_no_part_of_a_csv_is_read(cut: int) -> None:
    said = await sent("text/csv", CSV, cut)
    assert said.startswith(CSV[:cut])
    assert said.count(b'"') % 2, "parsers that forgive what follows a closing quote need an open one"
    for got in (said, said[:-READ_AHEAD]):
        with pytest.raises(csv.Error):
            list(csv.reader(io.StringIO(got.decode(), newline=""), strict=True))


@pytest.mark.parametrize("cut", range(1, len(TSV) + 1))
async def test_no_part_of_a_tsv_is_read(cut: int) -> None:
    said = await sent("text/tab-separated-values", TSV, cut)
    assert said.startswith(TSV[:cut] + b'\n"')
    for got in (said, said[:-READ_AHEAD]):
        with pytest.raises(Exception, match=r"."):
            Result.parse(io.BytesIO(got), format="tsv")
