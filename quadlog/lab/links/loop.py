"""Event loop of the links process: ready sockets and due timers, in one thread.

It uses `selectors` without asyncio's transports: see docs/decisions/0005.
"""

from __future__ import annotations

import heapq
import selectors
import time
from abc import ABC, abstractmethod
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE


class SocketHandler(ABC):
    """Handler of a socket's events."""

    __slots__ = ()

    @abstractmethod
    def readable(self) -> None:
        """Handle bytes to read, a connection to accept, or a peer that has closed."""

    def writable(self) -> None:
        """Handle room to write, or the end of a connect; fail if neither is ever watched."""
        raise AssertionError


class SocketWatch:
    """A socket, and the events that are reported for it."""

    __slots__ = ("_selector", "events", "handler", "socket")

    def __init__(self, selector: selectors.BaseSelector, sock: socket.socket, handler: SocketHandler) -> None:
        """Start without events; `want` sets them."""
        self._selector = selector
        self.socket = sock
        self.handler = handler
        self.events = 0

    def want(self, events: int) -> None:
        """Report these events from now on; 0 unregisters the socket, also for a hang-up."""
        if events == self.events:
            return
        if not self.events:
            self._selector.register(self.socket, events, self)
        elif not events:
            self._selector.unregister(self.socket)
        else:
            self._selector.modify(self.socket, events, self)
        self.events = events

    def close(self) -> None:
        """Unregister the socket and close it."""
        self.want(0)
        self.socket.close()


class SocketLoop:
    """Runs handlers; none of them may block, except for the short exchange of a command."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def watch(self, sock: socket.socket, handler: SocketHandler, events: int = 0) -> SocketWatch:
        """Make a socket non-blocking, and watch it."""
        sock.settimeout(0)
        watch = SocketWatch(self._selector, sock, handler)
        watch.want(events)
        return watch

    def at(self, moment: float, then: Callable[[], None]) -> None:
        """Call `then` at a moment of `time.monotonic`."""
        heapq.heappush(self._timers, (moment, next(self._numbers), then))

    def run(self) -> None:
        """Run until the process ends."""
        while True:
            self.turn()

    def turn(self, longest: float | None = None) -> None:
        """Wait at most `longest` seconds for events or a timer, and handle all that are ready."""
        timers = self._timers
        wait = longest
        if timers:
            due = max(0.0, timers[0][0] - time.monotonic())
            wait = due if longest is None else min(due, longest)
        for key, events in self._selector.select(wait):
            watch: SocketWatch = key.data
            # Handlers that ran earlier in this turn may have changed the watched events.
            if events & READ & watch.events:
                watch.handler.readable()
            if events & WRITE & watch.events:
                watch.handler.writable()
        if timers:
            now = time.monotonic()
            while timers and timers[0][0] <= now:
                heapq.heappop(timers)[2]()

    def close(self) -> None:
        """Close the selector; the sockets must be closed by their owners."""
        self._selector.close()
