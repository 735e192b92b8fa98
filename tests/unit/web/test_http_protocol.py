"""A small piece and the one written next are sent together; nothing is held for longer than a turn of the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from quadlog.web.http_protocol import SMALL, CombiningTransport

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD, BODY, BIG = b"HTTP/1.1 200 OK\r\n\r\n", b"ok\n", bytes(SMALL + 1)


class Sent:
    """A transport that notes what it is given at once."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_over = False

    def write(self, data: bytes) -> None:
        self.sent.append(data if not self.is_over else b"after the end: " + data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    def get_extra_info(self, name: str) -> str:
        return name


def run(*pieces: bytes | None, closes: bool = False) -> list[bytes]:
    """What is sent, of pieces written in one turn of the loop, and after it where None stands."""

    async def write() -> list[bytes]:
        sent = Sent()
        transport = CombiningTransport(cast("asyncio.Transport", sent))
        assert transport.get_extra_info("peername") == "peername"
        for piece in pieces:
            if piece is None:
                await asyncio.sleep(0)
            else:
                transport.write(piece)
        if closes:
            transport.close()
            assert sent.is_over
            transport.write(HEAD)  # nobody receives it
        await asyncio.sleep(0)
        return sent.sent

    return asyncio.run(write())


@pytest.mark.parametrize(
    ("pieces", "sent"),
    [
        ([HEAD, BODY], [HEAD + BODY]),
        ([HEAD, BIG, BODY], [HEAD + BIG, BODY]),
        ([HEAD, None, BODY], [HEAD, BODY]),
        ([HEAD], [HEAD]),
        ([BIG, BIG, HEAD, BODY, BODY], [BIG, BIG, HEAD + BODY, BODY]),
    ],
)
def test_a_head_goes_with_its_body(pieces: list[bytes | None], sent: list[bytes]) -> None:
    assert run(*pieces) == sent


def test_what_is_held_is_sent_before_the_connection_is_closed() -> None:
    assert run(HEAD, closes=True) == [HEAD]
    assert run(HEAD, BODY, HEAD, closes=True) == [HEAD + BODY, HEAD]
