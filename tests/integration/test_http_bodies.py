"""Bodies of requests: sent as the server takes them, and as long as their head says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.web.http_client import new_client
from tests.support.asking import OK
from tests.support.raw_servers import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


pytestmark = pytest.mark.anyio


async def long_body() -> AsyncIterator[bytes]:
    for _ in range(200):
        yield b"x" * 100_000


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "20000000"}])
async def test_a_long_body_is_sent_as_the_server_takes_it(headers: dict[str, str]) -> None:
    async with serving((None, OK, None, OK)) as (port, heard), new_client(5) as client:
        answer = await client.put(f"http://127.0.0.1:{port}/", content=long_body(), headers=headers)
        assert answer.text == "ok"
        await client.get(f"http://127.0.0.1:{port}/")
        [[put, get]] = heard
        head, _, body = put.partition(b"\r\n\r\n")
        assert (b"chunked" in head) == (not headers)
        assert len(body) == 20_000_000
        assert get.startswith(b"GET / HTTP/1.1")


@pytest.mark.parametrize(("length", "wrong"), [(19_999_999, "longer"), (20_000_001, "shorter")])
async def test_a_body_that_is_not_as_long_as_its_head_says_is_no_request(length: int, wrong: str) -> None:
    """What is too much would be the next request of its connection; what lacks would take it from that one."""
    async with serving((None, OK, None)) as (port, heard), new_client(5) as client:
        with pytest.raises(httpx.LocalProtocolError, match=wrong):
            await client.put(
                f"http://127.0.0.1:{port}/", content=long_body(), headers={"Content-Length": str(length)}
            )
        await asyncio.sleep(0.05)
        assert heard == [[]]


async def test_an_answer_before_the_end_of_a_body_ends_the_sending() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with serving((refusal, 1.0)) as (port, _), new_client(5) as client:
        answer = await client.put(f"http://127.0.0.1:{port}/", content=long_body())
        assert (answer.status_code, answer.text) == (413, "no")


async def test_a_server_that_takes_nothing_of_a_body_is_left_in_time() -> None:
    async with serving((3.0,)) as (port, _), new_client(httpx.Timeout(5, write=0.1)) as client:
        with pytest.raises(httpx.WriteTimeout):
            await client.put(f"http://127.0.0.1:{port}/", content=long_body())
