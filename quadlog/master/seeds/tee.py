"""One stream that comes in and goes on to several doors at once, as fast as the slowest of them takes it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Mapping

    from quadlog.snapshots.parcel import Label

HELD: Final = 4
"""Pieces that wait for a door: one that stutters does not hold up the others at once."""

SILENT_S: Final = 120.0
CONNECT_S: Final = 2.0
TIMEOUT: Final = httpx.Timeout(SILENT_S, connect=CONNECT_S)
"""A door that takes nothing for so long is given up."""


def answered_in(label: Label) -> httpx.Timeout:
    """How long an answer may take: whoever passes on waits for its own doors, and for copies, before it answers."""
    return httpx.Timeout(SILENT_S, connect=CONNECT_S, read=SILENT_S + label.copying_s)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one copy of the stream."""

    answer: httpx.Response | None
    failure: str = ""


class _Lane:
    """The way to one door."""

    def __init__(self, client: httpx.AsyncClient, url: str, label: Label) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(HELD)
        headers = label.headers() | {"Content-Length": str(label.size)}
        self._sending = asyncio.ensure_future(
            client.put(url, content=self._pieces(), headers=headers, timeout=answered_in(label))
        )

    async def _pieces(self) -> AsyncGenerator[bytes]:
        while (piece := await self._queue.get()) is not None:
            yield piece

    @property
    def is_open(self) -> bool:
        return not self._sending.done()

    async def give(self, piece: bytes | None) -> None:
        """Hand over the next piece, None behind the last; waits while the door is slow, unless it is given up."""
        if self.is_open:
            giving = asyncio.ensure_future(self._queue.put(piece))
            await asyncio.wait({giving, self._sending}, return_when=asyncio.FIRST_COMPLETED)
            giving.cancel()

    async def end(self) -> Delivery:
        """What the door answered."""
        try:
            answer = await self._sending
        except httpx.HTTPError as error:
            return Delivery(None, f"{type(error).__name__} {error}".strip())
        return Delivery(answer, "" if answer.is_success else message_of(answer))

    async def cancel(self) -> None:
        self._sending.cancel()
        with suppress(asyncio.CancelledError, httpx.HTTPError):
            await self._sending


async def deliver(
    client: httpx.AsyncClient, pieces: AsyncIterator[bytes], label: Label, doors: Mapping[str, str]
) -> dict[str, Delivery]:
    """Pass a stream on to all doors (name to URL); returns when all have answered or were given up.

    Where the stream breaks off, what was begun is broken off too, and the error passed on.
    """
    lanes = {name: _Lane(client, url, label) for name, url in doors.items()}
    try:
        async for piece in pieces:
            await _all(lane.give(piece) for lane in lanes.values())
            if not any(lane.is_open for lane in lanes.values()):
                break
        await _all(lane.give(None) for lane in lanes.values())
        return {name: await lane.end() for name, lane in lanes.items()}
    except BaseException:
        await _all(lane.cancel() for lane in lanes.values())
        raise


async def _all(works: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*works)


def message_of(answer: httpx.Response) -> str:
    """What an answer says that is no success."""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"answered {answer.status_code}: {answer.text[:200]}"
