"""One direction of a connection: bytes are read at the source, pass a lane, and are written at the sink."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from quadlog.lab.links.loop import READ, WRITE

if TYPE_CHECKING:
    from quadlog.lab.links.connection import LinkConnection, SocketEnd
    from quadlog.lab.links.lane import Lane
    from quadlog.lab.links.loop import SocketLoop

CHUNK: Final = 256 * 1024
"""Bytes read at once."""
MOST_HELD: Final = 1024 * 1024
"""Maximum bytes on their way in one direction of a connection, like TCP's window: 25 MB/s with 40 ms."""
CHUNK_COST: Final = 200
"""Bytes counted for each held chunk in addition to its content: a million small ones must reach the limit."""
END: Final = b""
"""Marker after the last chunk."""

_BUFFER: Final = memoryview(bytearray(CHUNK))  # shared by all flows: a chunk that is held is copied


class Flow:
    """Bytes from a source to a sink.

    While the flow holds nothing and its lane has no delay and no queue, a packet costs one read and one write.
    """

    __slots__ = (
        "_connection",
        "_ended",
        "_held",
        "_held_size",
        "_lane",
        "_loop",
        "_source",
        "_timed",
        "_waits",
        "is_over",
        "sink",
    )

    def __init__(
        self, loop: SocketLoop, lane: Lane, connection: LinkConnection, source: SocketEnd, sink: SocketEnd
    ) -> None:
        self._loop, self._lane, self._connection = loop, lane, connection
        self._source, self.sink = source, sink
        self._held: deque[tuple[float, bytes]] = deque()
        """Chunks on their way, each with its time of arrival."""
        self._held_size = 0
        self._timed = False
        """True while a timer for the next delivery is set."""
        self._waits = False
        """True while the flow is in the lane's queue."""
        self._ended = False
        """True after the source has ended or failed, or the sink was lost."""
        self.is_over = False
        """True after the sink has received everything including the end, or was lost."""

    # --- reading --------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Handle a readable source: read, or queue at the lane."""
        most = self._lane.grant(CHUNK)
        if most:
            self._read(most)
        else:
            self._waits = True
            self._source.want(READ, when=False)
            self._lane.wait(self)

    def enter(self, most: int) -> None:
        """Use the turn that the lane gives to this waiting flow."""
        self._waits = False
        if self._may_read:
            self._read(min(most, CHUNK))
        self.update()

    @property
    def _may_read(self) -> bool:
        return self._connection.runs and not self._ended and not self._waits and self._held_size < MOST_HELD

    def _read(self, most: int) -> None:
        try:
            count = self._source.socket.recv_into(_BUFFER, most)
        except BlockingIOError:
            return
        except OSError:
            self._connection.lost(self._source)
            return
        if not count:
            self.end()
            return
        lane = self._lane
        lane.entered(count)
        if self._held or lane.latency:
            self._hold(_BUFFER[:count], time.monotonic() + lane.latency)
        else:
            sent = self._send(_BUFFER[:count])
            if sent < count and not self._ended:
                self._hold(_BUFFER[sent:count], 0.0)

    def end(self) -> None:
        """Handle the end of the source: the sink receives it after all bytes on their way."""
        self._ended = True
        self._held.append((time.monotonic() + self._lane.latency, END))
        self.update()

    def drop(self) -> None:
        """Handle the loss of the sink: discard the bytes on their way, and read no more."""
        self._ended = self.is_over = True
        self._held.clear()
        self.update()

    # --- delivering -----------------------------------------------------------------------------------

    def _hold(self, content: memoryview, due: float) -> None:
        self._held.append((due, bytes(content)))
        self._held_size += len(content) + CHUNK_COST
        self.update()

    def deliver(self) -> None:
        """Write all chunks that have arrived, as far as the sink has room."""
        now = time.monotonic()
        held = self._held
        while held and held[0][0] <= now:
            due, content = held[0]
            if content is END:
                held.popleft()
                self.is_over = True
                self._connection.delivered_end(self)
                return
            sent = self._send(content)
            self._held_size -= sent
            if sent < len(content):
                if held:  # otherwise the sink was lost
                    held[0] = (due, content[sent:])
                break
            held.popleft()
            self._held_size -= CHUNK_COST
        self.update()

    def _send(self, content: bytes | memoryview) -> int:
        try:
            return self.sink.socket.send(content)
        except BlockingIOError:
            return 0
        except OSError:
            self._connection.lost(self.sink)
            return 0

    def update(self) -> None:
        """Renew what the flow waits for: bytes to read, room to write, or the next arrival."""
        if not self._connection.runs:
            return
        self._source.want(READ, when=self._may_read)
        if not self._held:
            self.sink.want(WRITE, when=False)
            return
        due, content = self._held[0]
        travels = due > time.monotonic()
        self.sink.want(WRITE, when=not travels and content is not END)
        if travels and not self._timed:
            self._timed = True
            self._loop.at(due, self._arrived)
        elif not travels and content is END:
            self.deliver()

    def _arrived(self) -> None:
        self._timed = False
        if self._connection.runs:
            self.deliver()
