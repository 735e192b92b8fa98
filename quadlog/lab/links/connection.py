"""A connection through a link: two sockets, and a flow for each direction.

A connection that is cut is one whose sockets nobody reads or writes: each end sees a peer that is
silent, as behind a cut cable, and TCP holds the senders back.  When the link heals, what was held
flows on.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import TYPE_CHECKING, Final

from quadlog.lab.links.flow import Flow
from quadlog.lab.links.loop import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.lab.links.lane import Lane
    from quadlog.lab.links.loop import Loop, Watch

LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""With this a close sends a reset."""


class End:
    """One socket of a connection, between the flow that reads it and the flow that writes it."""

    __slots__ = ("_watch", "connection", "into", "out", "socket")

    def __init__(self, loop: Loop, sock: socket.socket, connection: Connection) -> None:
        """The connection sets `out` and `into`."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self.connection = connection
        self.out: Flow
        self.into: Flow
        self._watch: Watch = loop.watch(sock, self)

    def want(self, event: int, *, when: bool) -> None:
        """Be told when it is ready to be read, or to be written; or not."""
        events = self._watch.events
        self._watch.want(events | event if when else events & ~event)

    def readable(self) -> None:
        """Read, where the lane lets it."""
        self.out.pump()

    def writable(self) -> None:
        """Write what is held; the first time it is the answer to our connect."""
        if self.connection.is_open:
            self.into.deliver()
        else:
            self.connection.connected()

    def close(self) -> None:
        """Forget and close the socket."""
        self._watch.close()


class Connection:
    """From a client that knocked at a door to the server that it meant."""

    def __init__(
        self,
        loop: Loop,
        client: socket.socket,
        address: tuple[str, int],
        lanes: tuple[Lane, Lane],
        gone: Callable[[Connection], None],
    ) -> None:
        """Begin to connect.

        Args:
            loop: tells when sockets are ready.
            client: was accepted.
            address: the server's.
            lanes: to the server, and back.
            gone: is told when it is over.

        """
        there, back = lanes
        self._gone = gone
        self.is_open = False
        """Both sockets are connected, and nothing is over."""
        self.is_cut = False
        self.was_reset = False
        self._client = End(loop, client, self)
        self._server = End(loop, socket.socket(), self)
        self._client.out = self._server.into = Flow(loop, there, self, self._client, self._server)
        self._server.out = self._client.into = Flow(loop, back, self, self._server, self._client)
        self._flows = (self._client.out, self._server.out)
        self._failed = self._server.socket.connect_ex(address) not in {0, errno.EINPROGRESS}
        self._server.want(WRITE, when=True)

    @property
    def runs(self) -> bool:
        """Its sockets may be read and written now."""
        return self.is_open and not self.is_cut

    def connected(self) -> None:
        """The connect has ended, one way or the other."""
        if self._failed or self._server.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close(reset=True)  # nobody listens there: the client is told as clearly
            return
        self.is_open = True
        self._update()

    def set_cut(self, *, cut: bool) -> None:
        """Hold everything, or let it flow on."""
        self.is_cut = cut
        if self.is_open:
            self._update()

    def lost(self, end: End) -> None:
        """A socket of it has failed: the other end is told after all that travels to it."""
        self.was_reset = True
        end.into.drop()
        end.out.end()

    def delivered_end(self, flow: Flow) -> None:
        """Everything that a source said is with the sink, and so is its end."""
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
        """Close both sockets, for both ends to see."""
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
