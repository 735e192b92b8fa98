"""The reading process: opens its copy of the store, follows the effects, answers one query at a time.

It is killed if a query must end, and nothing is lost with it: no other process uses the copy.  Run as

    python -m quadlog.worker.reads.reader_process DIRECTORY INLET

with one end of a socket pair as its standard input; INLET is the file descriptor of its tickets.
"""

from __future__ import annotations

import json
import pickle
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.core.effects.lines import ChangeLines
from quadlog.core.effects.signature import render
from quadlog.damage import told_of
from quadlog.errors import QuadlogError, QueryStopped, StoreDamaged
from quadlog.quadstore.quadquery import too_many_rows
from quadlog.quadstore.quadstore import QuadStore
from quadlog.quadstore.query_scope import Dataset
from quadlog.worker.reads.frames import HEAD, KINDS, FrameKind, framed, headers_frame, question_of
from quadlog.worker.reads.giving_way import GivingWay
from quadlog.worker.reads.row_counter import FORMATS, RowCounter
from quadlog.worker.reads.tickets import TicketReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.quadstore.applied import Applied
    from quadlog.worker.reads.frames import QueryRequest

GATHERED: Final = 16 * 1024
"""Bytes that are sent as one piece: pyoxigraph writes 8 KiB at a time, and a short answer is one piece."""


N_QUADS: Final = "application/n-quads"
_END: Final = framed(FrameKind.END, b"")


class FrameOutput:
    """Destination of an answer, which sends it to the worker in pieces."""

    def __init__(self, channel: socket.socket, headers: bytes, media_type: str, rows: int | None) -> None:
        """`headers` is the frame of the headers; an answer with more than `rows` rows is stopped."""
        self._channel, self._most = channel, rows
        self._rows = RowCounter(media_type) if rows is not None and media_type in FORMATS else None
        self._gathered = bytearray()
        self._begin = headers

    def write(self, piece: bytes, /) -> int:
        """Write some bytes; blocks while the worker's client is slow.

        Raises:
            QueryStopped: the answer has too many rows.

        """
        self._gathered += piece
        if len(self._gathered) >= GATHERED:
            self._send()
        return len(piece)

    def flush(self) -> None:
        """Do nothing: `end` sends the rest."""

    def end(self) -> None:
        """Send the rest, and the end of the answer; raises as `write`."""
        self._send(_END)

    def _send(self, end: bytes = b"") -> None:
        piece = bytes(self._gathered)
        self._count(piece)
        self._channel.sendall(self._begin + (framed(FrameKind.PIECE, piece) if piece else b"") + end)
        self._begin = b""
        self._gathered.clear()

    def _count(self, piece: bytes) -> None:
        """Count the rows, unless the piece is the whole answer and has fewer bytes than rows are allowed."""
        most = self._most
        if self._rows is None or most is None or (self._begin and len(piece) < min(GATHERED, most)):
            return
        if self._rows.feed(piece) > most:
            raise QueryStopped(too_many_rows(most))


class QueryLoop:
    """Follows the effects and answers questions."""

    def __init__(
        self, store: QuadStore, channel: socket.socket, tickets: TicketReader, giving_way: GivingWay
    ) -> None:
        """`channel` is the pipe to the worker."""
        self._store, self._channel, self._tickets, self._giving_way = store, channel, tickets, giving_way
        self._incoming = channel.makefile("rb")
        self._changes: list[ChangeLines] = []
        self._applied = store.applied
        self._headers: dict[str, bytes] = {}
        """Frames of answers' headers at `_applied`, by media type."""

    def run(self) -> None:
        """Follow and answer until the worker is gone."""
        _say(self._channel, FrameKind.READY, {"index": self._applied.index})
        with self._incoming:
            self._giving_way.run(self._go_on)

    def _go_on(self) -> bool:
        """Process the next frame of the worker; return False if the worker is gone."""
        head = self._incoming.read(HEAD.size)
        if not head:
            return False
        kind, length = HEAD.unpack(head)
        body = self._incoming.read(length)
        if KINDS[kind] is FrameKind.EFFECTS:
            self._take(*pickle.loads(body))  # noqa: S301  of our own worker
        else:
            assert KINDS[kind] is FrameKind.QUESTION, f"a worker does not say {KINDS[kind]!r}"
            number, question = question_of(body)
            if self._tickets.admit(number):
                self._follow()
                with self._giving_way:
                    self._answer(question)
        if self._changes and not select.select([self._channel], [], [], 0)[0]:
            self._follow()  # no question waits: apply before the next one arrives
        return True

    def _take(self, first: int, changes: Iterable[tuple[tuple[str, ...], ...]], applied: Applied) -> None:
        """Add a batch, as the worker commits it; the copy may already contain the first ones."""
        if applied.index > self._applied.index:
            assert first == self._applied.index + 1, "a batch is missing"
            self._changes += map(ChangeLines._make, changes)
            self._applied = applied
            self._headers.clear()

    def _follow(self) -> None:
        if self._changes:
            self._store.apply(self._changes, self._applied)
            self._changes = []

    def _answer(self, question: QueryRequest) -> None:
        try:
            if question.text is None:
                headers = headers_frame({**_index_header(self._applied), **_dump_headers(self._applied)})
                output = FrameOutput(self._channel, headers, N_QUADS, None)
                for piece in self._store.dump():
                    output.write(piece)
            else:
                answer = self._store.query(
                    question.text,
                    accept=question.accept,
                    dataset=Dataset(default=question.default, named=question.named),
                    triples=question.rows,
                )
                media_type = answer.media_type
                output = FrameOutput(self._channel, self._headers_of(media_type), media_type, question.rows)
                answer.write_to(output)
            output.end()
        except QuadlogError as error:
            _say(self._channel, FrameKind.ERROR, _error(error))

    def _headers_of(self, media_type: str) -> bytes:
        """Return the frame of an answer's headers."""
        if (found := self._headers.get(media_type)) is None:
            charset = "; charset=utf-8" * media_type.startswith("text/")
            headers = {"Content-Type": media_type + charset, **_index_header(self._applied)}
            found = self._headers[media_type] = headers_frame(headers)
        return found


def _say(channel: socket.socket, kind: FrameKind, value: object) -> None:
    channel.sendall(framed(kind, json.dumps(value).encode()))


def _error(error: QuadlogError) -> dict[str, object]:
    return {"error": type(error).__name__, "message": str(error), "retry_after": error.retry_after}


def _index_header(applied: Applied) -> dict[str, str]:
    return {"Quadlog-Index": f"{applied.index}:{applied.chain.hex()[:16]}"}


def _dump_headers(applied: Applied) -> dict[str, str]:
    """Return the headers of a dump, with the signature and number of quads for a recount."""
    return {
        "Content-Type": N_QUADS,
        "Quadlog-Signature": render(applied.signature),
        "Quadlog-Quads": str(applied.quads),
    }


def main() -> None:
    """Run the reading process."""
    # Signals to the process group (Ctrl-C, a service manager's stop) also reach the worker, which ends this process.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    with suppress(OSError):  # without /proc; 1000: when memory is short, the kernel kills this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    path, tickets, giving_way = Path(sys.argv[1]), TicketReader(int(sys.argv[2])), GivingWay()
    with socket.socket(fileno=0) as channel, suppress(BrokenPipeError, ConnectionResetError):
        try:
            with told_of(path):
                QueryLoop(QuadStore.open(path), channel, tickets, giving_way).run()
        except StoreDamaged as error:  # the worker has the same files
            _say(channel, FrameKind.ERROR, _error(error))


if __name__ == "__main__":
    main()
