"""A closed loop over raw sockets: each client sends one update, waits for its answer, sends the next.

An HTTP client library would take a quarter of a core at the rates that are measured here; this takes
some two per cent, and its share is printed beside every figure.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_CONTENT = 204


@dataclass(slots=True)
class Sent:
    """What the clients saw."""

    latencies: list[float] = field(default_factory=list[float])
    """Seconds, of updates that were acknowledged."""
    errors: Counter[str] = field(default_factory=Counter[str])
    seconds: float = 0.0
    """From the first request to the last answer."""
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one request."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One keep-alive connection to a master."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use `to`."""
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, url: str) -> Connection:
        """Connect."""
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def update(self, text: str, *, key: str | None = None, commit: str | None = None) -> Answer:
        """Send one update, wait for its answer; `key` is its Idempotency-Key, `commit` its Quadlog-Commit."""
        body = text.encode()
        extra = b"" if key is None else b"Idempotency-Key: %b\r\n" % key.encode()
        extra += b"" if commit is None else b"Quadlog-Commit: %b\r\n" % commit.encode()
        self._writer.write(
            b"POST /update HTTP/1.1\r\nHost: m\r\nContent-Type: application/sparql-update\r\n"
            b"%bContent-Length: %d\r\n\r\n%b" % (extra, len(body), body)
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.rstrip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", "0"))
        return Answer(int(status.split()[1]), headers, await self._reader.readexactly(length))

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        await self._writer.wait_closed()


async def closed_loop(
    masters: Sequence[str],
    texts: Iterator[str],
    *,
    clients: int,
    seconds: float,
    commit: str | None = None,
) -> Sent:
    """`clients` at all masters in turn; each begins no new request after `seconds`.  `commit`: its Quadlog-Commit."""
    connections = [await Connection.to(masters[number % len(masters)]) for number in range(clients)]
    sent = Sent()
    cpu, began = time.process_time(), time.perf_counter()

    async def client(connection: Connection) -> None:
        asked = began
        while asked < began + seconds:
            answer = await connection.update(next(texts), commit=commit)
            answered = time.perf_counter()
            if answer.status == NO_CONTENT:
                sent.latencies.append(answered - asked)
            else:
                sent.errors[f"{answer.status} {answer.body.decode(errors='replace')[:200]}"] += 1
            asked = answered

    await asyncio.gather(*map(client, connections))
    sent.seconds, sent.cpu_s = time.perf_counter() - began, time.process_time() - cpu
    for connection in connections:
        await connection.close()
    return sent
