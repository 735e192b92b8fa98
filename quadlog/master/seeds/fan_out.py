"""Forwarding of one incoming stream to several URLs at once, as fast as the slowest of them accepts it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from quadlog.snapshots.store_archive import ArchiveManifest

HELD: Final = 4
"""Maximum pieces that wait for one URL: a short stall there does not block the others at once."""

SILENT_S: Final = 120.0
CONNECT_S: Final = 2.0
TIMEOUT: Final = httpx.Timeout(SILENT_S, connect=CONNECT_S)
"""Timeouts of a delivery: a URL that accepts nothing for so long is given up."""


def answered_in(label: ArchiveManifest) -> httpx.Timeout:
    """Return the timeouts of a delivery: a forwarding receiver answers after its own receivers and their copies."""
    return httpx.Timeout(SILENT_S, connect=CONNECT_S, read=SILENT_S + label.copying_s)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Result of one copy of the stream."""

    answer: httpx.Response | None
    failure: str = ""


class _Lane:
    """Transfer to one URL."""

    def __init__(self, client: httpx.AsyncClient, url: str, label: ArchiveManifest) -> None:
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

    async def put(self, piece: bytes | None) -> None:
        """Enqueue the next piece, None after the last; wait while the receiver is slow, unless it was given up."""
        if self.is_open:
            giving = asyncio.ensure_future(self._queue.put(piece))
            await asyncio.wait({giving, self._sending}, return_when=asyncio.FIRST_COMPLETED)
            giving.cancel()

    async def end(self) -> Delivery:
        """Return the result of the transfer."""
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
    client: httpx.AsyncClient, pieces: AsyncIterator[bytes], label: ArchiveManifest, doors: Mapping[str, str]
) -> dict[str, Delivery]:
    """Forward a stream to all URLs, by name; return when all have answered or were given up.

    If the stream breaks off, all transfers are cancelled, and the error is raised.
    """
    lanes = {name: _Lane(client, url, label) for name, url in doors.items()}
    try:
        async for piece in pieces:
            await asyncio.gather(*(lane.put(piece) for lane in lanes.values()))
            if not any(lane.is_open for lane in lanes.values()):
                break
        await asyncio.gather(*(lane.put(None) for lane in lanes.values()))
        return {name: await lane.end() for name, lane in lanes.items()}
    except BaseException:
        await asyncio.gather(*(lane.cancel() for lane in lanes.values()))
        raise


def message_of(answer: httpx.Response) -> str:
    """Return the message of an error response."""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"answered {answer.status_code}: {answer.text[:200]}"
