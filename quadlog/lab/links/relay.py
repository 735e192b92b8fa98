"""The relay: doors, the connections accepted at them, and the lanes that these share."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from quadlog.lab.links.connection import LinkConnection
from quadlog.lab.links.lane import Lane
from quadlog.lab.links.loop import READ, SocketHandler
from quadlog.lab.links.state import routes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.lab.links.loop import SocketLoop, SocketWatch
    from quadlog.lab.links.state import LinksState, Route

HOST: Final = "127.0.0.1"
BACKLOG: Final = 128
MOST_KNOCKING: Final = 128
"""Maximum number of connections of one route that wait for its cut to heal.  Beyond it, those whose clients have
given up are closed, then the oldest.  Accepted connections do not fill the kernel's backlog: clients that meet a full
one are slow to retry."""
FULL_PAUSE: Final = 0.1
"""Seconds without accepting when the process has no file descriptor left."""
BITS_PER_MBIT: Final = 1_000_000
BITS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenDoor:
    """Port for the connections of `opener` to one broker or master of `target`."""

    opener: str
    target: str
    port: int
    server_port: int

    @property
    def route(self) -> Route:
        """Route of the connections at this door."""
        return self.opener, self.target


class _OpenDoor(SocketHandler):
    """Door with its listening socket."""

    def __init__(self, relay: LinkRelay, loop: SocketLoop, door: ListenDoor) -> None:
        self._relay, self._loop = relay, loop
        self.door = door
        listener = socket.create_server((HOST, door.port), backlog=BACKLOG)
        self._watch: SocketWatch = loop.watch(listener, self, READ)

    def readable(self) -> None:
        """Accept a client."""
        try:
            client, _ = self._watch.socket.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no file descriptor is left
            self._watch.want(0)
            self._loop.at(time.monotonic() + FULL_PAUSE, lambda: self._watch.want(READ))
            return
        self._relay.knock(client, self.door)

    def close(self) -> None:
        """Stop listening."""
        self._watch.close()


class LinkRelay:
    """Relay of all connections between the data centres."""

    def __init__(self, loop: SocketLoop, doors: Iterable[ListenDoor], state: LinksState) -> None:
        """Listen at every door.

        Raises:
            OSError: a port is taken.

        """
        self._loop = loop
        self._lanes: dict[Route, Lane] = {
            route: Lane(loop) for pair in state.pairs for route in routes_of(pair)
        }
        self._connections: dict[Route, set[LinkConnection]] = {route: set() for route in self._lanes}
        self._knocking: dict[Route, deque[tuple[socket.socket, ListenDoor]]] = {
            route: deque() for route in self._lanes
        }
        self.state = state
        self.set(state)
        self._doors = [_OpenDoor(self, loop, door) for door in doors]

    def set(self, state: LinksState) -> None:
        """Put a state into force, also for open connections."""
        self.state = state
        for pair in state.pairs:
            quality = state.quality(pair)
            rate = quality.rate_mbit * BITS_PER_MBIT / BITS
            for route in routes_of(pair):
                self._lanes[route].set(latency=quality.latency_ms / 1000, rate=rate)
                self._set_cut(route, cut=route in state.cuts)

    def _set_cut(self, route: Route, *, cut: bool) -> None:
        for connection in tuple(self._connections[route]):
            connection.set_cut(cut=cut)
        knocking = self._knocking[route]
        while knocking and not cut:
            client, door = knocking.popleft()
            if _has_left(client):  # with a cut cable, its request would never have been sent
                client.close()
            else:
                self._open(client, door)

    def knock(self, client: socket.socket, door: ListenDoor) -> None:
        """Connect an accepted client, or hold it until its route heals."""
        if door.route not in self.state.cuts:
            self._open(client, door)
            return
        knocking = self._knocking[door.route]
        knocking.append((client, door))
        if len(knocking) > MOST_KNOCKING:
            still_there = [waiting for waiting in knocking if not _has_left(waiting[0])]
            kept = still_there[-MOST_KNOCKING:]
            for waiting in knocking:
                if waiting not in kept:
                    waiting[0].close()
            self._knocking[door.route] = deque(kept)

    def _open(self, client: socket.socket, door: ListenDoor) -> None:
        lanes = self._lanes[door.route], self._lanes[door.target, door.opener]
        connections = self._connections[door.route]
        try:
            connection = LinkConnection(
                self._loop, client, (HOST, door.server_port), lanes, gone=connections.discard
            )
        except OSError:  # no file descriptor is left for the connection to the server
            client.close()
        else:
            connections.add(connection)

    def describe(self) -> list[dict[str, Any]]:
        """Return the state of every link, for `quadlog lab status`."""
        return [
            {
                "link": pair,
                "cuts": [route for route in routes_of(pair) if route in self.state.cuts],
                "latency_ms": self.state.quality(pair).latency_ms,
                "rate_mbit": self.state.quality(pair).rate_mbit,
                "connections": sum(len(self._connections[route]) for route in routes_of(pair)),
                "waiting": sum(len(self._knocking[route]) for route in routes_of(pair)),
                "bytes": [self._lanes[route].passed for route in routes_of(pair)],
            }
            for pair in self.state.pairs
        ]

    def close(self) -> None:
        """Close every socket."""
        for door in self._doors:
            door.close()
        for route in self._lanes:
            for connection in tuple(self._connections[route]):
                connection.close()
            for client, _ in self._knocking[route]:
                client.close()


def _has_left(client: socket.socket) -> bool:
    """Return whether a client has closed, even if bytes from it are still unread."""
    poll = select.poll()
    poll.register(client, getattr(select, "POLLRDHUP", 0))  # macOS lacks it, and reports only resets
    return bool(poll.poll(0))
