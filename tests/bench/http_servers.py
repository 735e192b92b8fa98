"""CPU per request of HTTP servers that could serve quadlog's doors: one application, one client, interleaved turns.

    python -m tests.bench.http_servers [--requests 20000] [--turns 5]

Servers that are not installed are left out.  Each serves in a process of its own; what counts is the CPU of that
process and its children, user and system.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from quadlog.kafka.ports import free_ports
from quadlog.web.http_body import read_body
from quadlog.web.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

CONNECTIONS: Final = 8
BODY: Final = b"INSERT DATA { <urn:s> <urn:p> 'a small update, as clients send it' }"
HEADERS: Final = (
    b"Host: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: application/sparql-results+json\r\n"
    b"Accept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
)
REQUESTS: Final = {
    "POST": b"POST /update HTTP/1.1\r\n%bContent-Type: application/sparql-update\r\nContent-Length: %d\r\n\r\n%b"
    % (HEADERS, len(BODY), BODY),
    "GET": b"GET /sparql?query=ASK%%20%%7B%%7D HTTP/1.1\r\n%b\r\n" % HEADERS,
}


async def _update(request: Request) -> Response:
    await read_body(request, 1024 * 1024)
    return Response(status_code=204, headers={"Quadlog-Index": "1:0123456789abcdef"})


async def _query(request: Request) -> Response:
    return PlainTextResponse("{}", headers={"Query": str(len(request.query_params["query"]))})


APP: Final = Starlette(
    routes=[Route("/update", _update, methods=["POST"]), Route("/sparql", _query, methods=["GET"])]
)


def _quadlog(port: int) -> None:
    Server("127.0.0.1", port).run(APP)


def _uvicorn(port: int, parser: str) -> None:
    uvicorn.run(APP, port=port, http=parser, log_level="warning", access_log=False, lifespan="off")


def _hypercorn(port: int) -> None:
    serve = importlib.import_module("hypercorn.asyncio").serve
    config = importlib.import_module("hypercorn.config").Config()
    config.keep_alive_max_requests = 10**9
    config.bind = [f"127.0.0.1:{port}"]
    asyncio.run(serve(APP, config))


def _granian(port: int) -> None:
    granian = importlib.import_module("granian.server").Server
    granian("tests.bench.http_servers:APP", port=port, interface="asginl", http="1", log_access=False).serve()


SERVERS: Final[Mapping[str, Callable[[int], None]]] = {
    "uvicorn, httptools": lambda port: _uvicorn(port, "httptools"),
    "quadlog (uvicorn, Http1Protocol, HttpRules)": _quadlog,
    "uvicorn, h11": lambda port: _uvicorn(port, "h11"),
    "hypercorn": _hypercorn,
    "granian": _granian,
}
NEEDS: Final = {"hypercorn": "hypercorn", "granian": "granian"}


def _cpu_s(pid: int) -> float:
    """Of a process and all below it."""
    used = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        used += int((task / "schedstat").read_text().split()[0]) / 1e9
        used += sum(_cpu_s(int(child)) for child in (task / "children").read_text().split())
    return used


def _connected(port: int) -> list[socket.socket]:
    deadline = time.monotonic() + 20
    while True:
        try:
            return [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(CONNECTIONS)]
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _ask(port: int, request: bytes, rounds: int) -> None:
    sockets = _connected(port)
    for _ in range(rounds):
        for one in sockets:
            one.sendall(request)
        for one in sockets:
            answer = one.recv(65536)
            while b"\r\n\r\n" not in answer or (answer.startswith(b"HTTP/1.1 200") and answer[-2:] != b"{}"):
                piece = one.recv(65536)
                assert piece, "the server closed the connection"
                answer += piece
            assert answer[9:12] in {b"200", b"204"}, answer
    for one in sockets:
        one.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--serve", nargs=2)
    asked = parser.parse_args()
    if asked.serve:
        SERVERS[asked.serve[0]](int(asked.serve[1]))
        return
    names = [name for name in SERVERS if name not in NEEDS or importlib.util.find_spec(NEEDS[name])]
    ports = free_ports(len(names))
    serve = [sys.executable, "-m", "tests.bench.http_servers", "--serve"]
    running = {
        name: subprocess.Popen([*serve, name, str(port)]) for name, port in zip(names, ports, strict=True)
    }
    found: dict[tuple[str, str], list[float]] = {}
    try:
        for port in ports:
            _ask(port, REQUESTS["GET"], 1)
        for turn in range(asked.turns + 1):
            for method, request in REQUESTS.items():
                for name, port in zip(names, ports, strict=True):
                    before = _cpu_s(running[name].pid)
                    rounds = (asked.requests if turn else 2000) // CONNECTIONS
                    _ask(port, request, rounds)
                    used = (_cpu_s(running[name].pid) - before) / (rounds * CONNECTIONS)
                    if turn:  # the first one only warms up
                        found.setdefault((name, method), []).append(used * 1e6)
    finally:
        for process in running.values():
            process.terminate()
            process.wait(10)
    print("| server | POST, µs of CPU (median, least to most) | GET |\n| --- | --- | --- |")
    for name in names:
        cells = [
            f"{statistics.median(v):.1f} ({min(v):.1f} to {max(v):.1f})"
            for v in (found[name, m] for m in REQUESTS)
        ]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
