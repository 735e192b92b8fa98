"""A relay in a thread, and servers behind it, for tests of the links alone."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadlog.kafka.ports import free_ports
from quadlog.lab.links.loop import SocketLoop
from quadlog.lab.links.relay import LinkRelay, ListenDoor
from quadlog.lab.links.state import LinksState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class RunningRelay:
    """dc1 and dc2, each with one server that the other reaches through a door."""

    relay: LinkRelay
    doors: dict[str, ListenDoor]
    stopping: bool = False
    todo: list[tuple[Callable[[], None], threading.Event]] = field(
        default_factory=list[tuple["Callable[[], None]", threading.Event]]
    )

    def set(self, change: Callable[[LinksState], LinksState]) -> None:
        """Change the links in the relay's own thread; return when that is in force."""
        done = threading.Event()
        self.todo.append((lambda: self.relay.set(change(self.relay.state)), done))
        assert done.wait(5)

    def slow(self, *, latency_ms: float | None = None, rate_mbit: float | None = None) -> None:
        """`lab link`."""
        self.set(lambda state: state.with_quality("dc1", "dc2", latency_ms=latency_ms, rate_mbit=rate_mbit))

    def connect(self, opener: str = "dc1") -> socket.socket:
        """A connection of that data centre to the other one's server."""
        made = socket.create_connection(("127.0.0.1", self.doors[opener].port), timeout=20)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def run(self, loop: SocketLoop) -> None:
        """The relay's thread."""
        while not self.stopping:
            loop.turn(longest=0.02)
            while self.todo:
                work, done = self.todo.pop(0)
                work()
                done.set()
        self.relay.close()


@contextmanager
def running_relay(dc1_server: int, dc2_server: int) -> Iterator[RunningRelay]:
    """A relay between two servers, healed."""
    one, other = free_ports(2)
    doors = {
        "dc1": ListenDoor(opener="dc1", target="dc2", port=one, server_port=dc2_server),
        "dc2": ListenDoor(opener="dc2", target="dc1", port=other, server_port=dc1_server),
    }
    loop = SocketLoop()
    running = RunningRelay(LinkRelay(loop, doors.values(), LinksState(dcs=("dc1", "dc2"))), doors)
    thread = threading.Thread(target=running.run, args=(loop,))
    thread.start()
    try:
        yield running
    finally:
        running.stopping = True
        thread.join(5)
        assert not thread.is_alive()
        loop.close()


@contextmanager
def server(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that runs `handle` for each connection in a thread; gives its port."""
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                thread = threading.Thread(target=serve, args=(client,), daemon=True)
                threads.append(thread)
                thread.start()

        def serve(client: socket.socket) -> None:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client:
                handle(client)

        accepting = threading.Thread(target=accept)
        accepting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)  # wakes accept
    accepting.join(5)
    for thread in threads:
        thread.join(5)


def echo(client: socket.socket) -> None:
    """Say back what is heard, also the end."""
    try:
        while heard := client.recv(65536):
            client.sendall(heard)
    except OSError:
        return


def rtt(connection: socket.socket, content: bytes = b"x") -> float:
    """Seconds until a few bytes came back."""
    began = time.perf_counter()
    connection.sendall(content)
    assert receive(connection, len(content)) == content
    return time.perf_counter() - began


def receive(connection: socket.socket, count: int) -> bytes:
    """So many bytes; less only where the other end has ended."""
    parts: list[bytes] = []
    while count and (part := connection.recv(min(count, 1 << 20))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
