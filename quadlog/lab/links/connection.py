"""A connection through a link: two sockets, and a flow for each direction.

The sockets of a cut connection are neither read nor written: each end sees a silent peer, as with a cut cable, and
TCP's flow control stops the senders.  After the link heals, the held bytes continue.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import TYPE_CHECKING, Final

from quadlog.lab.links.flow import Flow
from quadlog.lab.links.loop import READ, WRITE, SocketHandler

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.lab.links.lane import Lane
    from quadlog.lab.links.loop import SocketLoop, SocketWatch

LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""Linger option with which a close sends a reset."""


class SocketEnd(SocketHandler):
    """One socket of a connection, between the flow that reads it and the flow that writes it."""

    __slots__ = ("_watch", "connection", "into", "out", "socket")

    def __init__(self, loop: SocketLoop, sock: socket.socket, connection: LinkConnection) -> None:
        """Start to watch the socket; the connection must set `out` and `into`."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self.connection = connection
        self.out: Flow
        self.into: Flow
        self._watch: SocketWatch = loop.watch(sock, self)

    def want(self, event: int, *, when: bool) -> None:
        """Start or stop waiting for an event, `READ` or `WRITE`."""
        events = self._watch.events
        self._watch.want(events | event if when else events & ~event)

    def readable(self) -> None:
        """Read, as far as the lane permits."""
        self.out.pump()

    def writable(self) -> None:
        """Write held bytes; the first call reports the result of the connect instead."""
        if self.connection.is_open:
            self.into.deliver()
        else:
            self.connection.connected()

    def close(self) -> None:
        """Stop watching the socket, and close it."""
        self._watch.close()


class LinkConnection:
    """Connection from a client at a door to the server of that door."""

    def __init__(
        self,
        loop: SocketLoop,
        client: socket.socket,
        address: tuple[str, int],
        lanes: tuple[Lane, Lane],
        gone: Callable[[LinkConnection], None],
    ) -> None:
        """Begin to connect; `lanes`: to the server, and back; `gone` is called when the connection is closed."""
        there, back = lanes
        self._gone = gone
        self.is_open = False
        """True while both sockets are connected and not closed."""
        self.is_cut = False
        self.was_reset = False
        self._client = SocketEnd(loop, client, self)
        self._server = SocketEnd(loop, socket.socket(), self)
        self._client.out = self._server.into = Flow(loop, there, self, self._client, self._server)
        self._server.out = self._client.into = Flow(loop, back, self, self._server, self._client)
        self._flows = (self._client.out, self._server.out)
        self._failed = self._server.socket.connect_ex(address) not in {0, errno.EINPROGRESS}
        self._server.want(WRITE, when=True)

    @property
    def runs(self) -> bool:
        """True if its sockets may be read and written now."""
        return self.is_open and not self.is_cut

    def connected(self) -> None:
        """Handle the success or failure of the connect."""
        if self._failed or self._server.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close(reset=True)  # no server listens: the client is reset
            return
        self.is_open = True
        self._update()

    def set_cut(self, *, cut: bool) -> None:
        """Hold all bytes, or let them continue."""
        self.is_cut = cut
        if self.is_open:
            self._update()

    def lost(self, end: SocketEnd) -> None:
        """Handle a failed socket: the other end is reset after it has received all bytes on their way to it."""
        self.was_reset = True
        end.into.drop()
        end.out.end()

    def delivered_end(self, flow: Flow) -> None:
        """Handle a sink that has received everything, and now the end of its source."""
        if self.was_reset:
            self.close(reset=True)
        elif all(each.is_over for each in self._flows):
            self.close()
        else:
            try:
                flow.sink.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self.lost(flow.sink)

    def close(self, *, reset: bool = False) -> None:
        """Close both sockets, with a reset if required."""
        self.is_open = False
        for end in (self._client, self._server):
            if reset:
                end.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            end.close()
        self._gone(self)

    def _update(self) -> None:
        for end in (self._client, self._server):
            end.want(READ | WRITE, when=False)
        for flow in self._flows:
            if self.is_open:
                flow.update()
