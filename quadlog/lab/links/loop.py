"""The loop of the links process: sockets that are ready, timers that are due, in one thread.

`selectors` without asyncio's transports in between: see docs/decisions/0005.
"""

from __future__ import annotations

import heapq
import selectors
import time
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE


class Handler(Protocol):
    """Whose turn it is when a socket is ready."""

    def readable(self) -> None:
        """There is something to read or to accept, or the other end has gone."""

    def writable(self) -> None:
        """There is room to write, or a connect has ended."""


class Watch:
    """A socket, and what the loop is to tell about it now."""

    __slots__ = ("_selector", "events", "handler", "socket")

    def __init__(self, selector: selectors.BaseSelector, sock: socket.socket, handler: Handler) -> None:
        """Nothing is told before `want`."""
        self._selector = selector
        self.socket = sock
        self.handler = handler
        self.events = 0

    def want(self, events: int) -> None:
        """Tell about these from now on; 0 also forgets a socket that hung up."""
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
        """Forget the socket and close it."""
        self.want(0)
        self.socket.close()


class Loop:
    """Runs handlers; none of them may block."""

    def __init__(self) -> None:
        """Nothing is watched."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def watch(self, sock: socket.socket, handler: Handler, events: int = 0) -> Watch:
        """Watch a socket."""
        sock.settimeout(0)
        watch = Watch(self._selector, sock, handler)
        watch.want(events)
        return watch

    def at(self, moment: float, then: Callable[[], None]) -> None:
        """Call `then` at that moment of `time.monotonic`."""
        heapq.heappush(self._timers, (moment, next(self._numbers), then))

    def run(self) -> None:
        """Run until the process ends."""
        while True:
            self.turn()

    def turn(self, longest: float | None = None) -> None:
        """Wait for what comes first, at most so long, and handle all that is there."""
        timers = self._timers
        wait = longest
        if timers:
            due = max(0.0, timers[0][0] - time.monotonic())
            wait = due if longest is None else min(due, longest)
        for key, events in self._selector.select(wait):
            watch: Watch = key.data
            # What was handled before it in this turn may have changed what is wanted.
            if events & READ & watch.events:
                watch.handler.readable()
            if events & WRITE & watch.events:
                watch.handler.writable()
        if timers:
            now = time.monotonic()
            while timers and timers[0][0] <= now:
                heapq.heappop(timers)[2]()

    def close(self) -> None:
        """Forget everything; sockets are closed by whoever made them."""
        self._selector.close()
