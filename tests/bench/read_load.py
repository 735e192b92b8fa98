"""A closed loop of reads over raw sockets, in a process of its own: each client asks, takes the answer, asks again.

    python -m tests.bench.read_load '{"url": …}'

Requests are made, and connections used once, before the clock starts; of an answer only its end is looked for.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Final, cast
from urllib.parse import urlsplit

import uvloop

from tests.bench.figures import percentile

LAST_CHUNK: Final = b"0\r\n\r\n"
NO_CONTENT: Final = "204"
QUERY: Final = "application/sparql-query"
PAUSE_S: Final = 0.05
"""Behind a refusal."""
READY_S: Final = 30.0
"""Until each client has had its first answer, whatever it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked."""

    url: str
    body: str
    path: str = "/sparql"
    media_type: str = QUERY
    headers: dict[str, str] = field(default_factory=dict[str, str])
    clients: int = 1
    seconds: float = 1.0
    bytes_a_second: float = 0.0
    """How fast a client takes its answer; 0: as it comes."""

    def start(self) -> subprocess.Popen[str]:
        """Begin to ask."""
        command = [sys.executable, "-m", "tests.bench.read_load", json.dumps(asdict(self))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def run(self) -> Answered:
        """Ask, and wait for the end."""
        return result_of(self.start())

    def request(self) -> bytes:
        """The bytes of each request."""
        return self._post(self.path, self.media_type, self.body)

    def first_request(self) -> bytes:
        """By which a client's connection, and those behind it, are there when the clock starts."""
        return self._post(self.path if self.media_type == QUERY else "/sparql", QUERY, "ASK {}")

    def _post(self, path: str, media_type: str, body: str) -> bytes:
        lines = {"Host": "bench", "Content-Type": media_type, "Content-Length": str(len(body.encode()))}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**lines, **self.headers}.items())
        return f"POST {path} HTTP/1.1\r\n{head}\r\n{body}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the clients saw."""

    answers: int
    seconds: float
    p50_ms: float
    p99_ms: float
    refused: int
    errors: dict[str, int]
    size: int
    """Bytes of all answers."""
    cpu: float
    """Share of a core that the clients took."""

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds


def result_of(process: subprocess.Popen[str]) -> Answered:
    """What a load that was started saw."""
    said, _ = process.communicate()
    return Answered(**json.loads(said))


class _Client(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, load: Load, statuses: Counter[str], latencies: list[float]) -> None:
        self._load, self._statuses, self._latencies = load, statuses, latencies
        self._request = load.request()
        self._loop = asyncio.get_running_loop()
        self.is_ready: asyncio.Future[None] = self._loop.create_future()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.size = 0
        self._head, self._left, self._tail, self._status = b"", -1, b"", ""
        self._began, self._end = 0.0, inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send(self._load.first_request())

    def begin(self, end: float) -> None:
        """Ask until then."""
        self._end, self.size = end, 0
        self._ask()

    def _ask(self) -> None:
        if time.perf_counter() >= self._end:
            self._transport.close()
        else:
            self._send(self._request)

    def _send(self, request: bytes) -> None:
        self._head, self._left, self._tail = b"", -1, b""
        self._began = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self._left == -1:
            self._head += data
            head, mark, data = self._head.partition(b"\r\n\r\n")
            if not mark:
                return
            self._status = head[9:12].decode()
            _, mark, after = head.lower().partition(b"content-length: ")
            self._left = int(after.partition(b"\r\n")[0]) if mark else -2
            if self._status == NO_CONTENT:
                self._left = 0
        if self._left == -2:
            self._tail = (self._tail + data)[-len(LAST_CHUNK) :]
            if self._tail == LAST_CHUNK:
                self._answered()
        else:
            self._left -= len(data)
            if self._left == 0:
                self._answered()
        if self._load.bytes_a_second and not self._transport.is_closing():
            self._transport.pause_reading()
            self._loop.call_later(len(data) / self._load.bytes_a_second, self._transport.resume_reading)

    def _answered(self) -> None:
        if not self.is_ready.done():
            self.is_ready.set_result(None)
            return
        self._statuses[self._status] += 1
        if self._status in {"200", NO_CONTENT}:
            self._latencies.append(time.perf_counter() - self._began)
            self._ask()
        else:
            self._loop.call_later(PAUSE_S, self._ask)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None or time.perf_counter() < self._end:
            self._statuses["broken off"] += 1
        if not self.is_ready.done():
            self.is_ready.set_result(None)
        self.done.set_result(None)


async def _run(load: Load) -> Answered:
    statuses, latencies = Counter[str](), list[float]()
    parts = urlsplit(load.url)
    assert parts.hostname is not None
    assert parts.port is not None
    loop = asyncio.get_running_loop()
    clients: list[_Client] = []
    for _ in range(load.clients):
        _, client = await loop.create_connection(
            lambda: _Client(load, statuses, latencies), parts.hostname, parts.port
        )
        clients.append(client)
    await asyncio.wait([client.is_ready for client in clients], timeout=READY_S)
    before, began = _cpu(), time.perf_counter()
    for client in clients:
        client.begin(began + load.seconds)
    await asyncio.wait([client.done for client in clients], timeout=load.seconds + 30)
    seconds = time.perf_counter() - began
    ordered = sorted(latencies) or [0.0]
    return Answered(
        answers=len(latencies),
        seconds=seconds,
        p50_ms=percentile(ordered, 0.5) * 1000,
        p99_ms=percentile(ordered, 0.99) * 1000,
        refused=statuses.pop("503", 0),
        errors={status: count for status, count in statuses.items() if status not in {"200", NO_CONTENT}},
        size=sum(client.size for client in clients),
        cpu=(_cpu() - before) / seconds,
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(_run(Load(**json.loads(sys.argv[1])))))))
