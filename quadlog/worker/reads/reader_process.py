"""The process that reads: opens its copy of the store, follows the effects, answers one query at a time.

It is killed where a query has to end, and nothing is lost with it: the copy is its own.  Run as

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
from quadlog.quadstore.hiding import Dataset
from quadlog.quadstore.quadquery import too_many_rows
from quadlog.quadstore.quadstore import QuadStore
from quadlog.worker.reads.frames import HEAD, KINDS, Kind, framed, headers_frame, question_of
from quadlog.worker.reads.giving_way import GivingWay
from quadlog.worker.reads.row_counter import FORMATS, RowCounter
from quadlog.worker.reads.tickets import TicketReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.quadstore.applied import Applied
    from quadlog.worker.reads.frames import Question

GATHERED: Final = 16 * 1024
"""Bytes that go up as one piece: pyoxigraph writes 8 KiB at a time, and a short answer is one piece."""


N_QUADS: Final = "application/n-quads"
_END: Final = framed(Kind.END, b"")


class Output:
    """Where the answer is written to: pieces for the worker."""

    def __init__(self, channel: socket.socket, headers: bytes, media_type: str, rows: int | None) -> None:
        """`headers`: their frame.  An answer with more than `rows` is stopped."""
        self._channel, self._most = channel, rows
        self._rows = RowCounter(media_type) if rows is not None and media_type in FORMATS else None
        self._gathered = bytearray()
        self._begin = headers

    def write(self, piece: bytes, /) -> int:
        """Take some bytes; waits while the worker's client is slow.

        Raises:
            QueryStopped: too many rows.

        """
        self._gathered += piece
        if len(self._gathered) >= GATHERED:
            self._send()
        return len(piece)

    def flush(self) -> None:
        """Part of what a file can do; the end follows."""

    def end(self) -> None:
        """It was all.

        Raises:
            QueryStopped: too many rows.

        """
        self._send(_END)

    def _send(self, end: bytes = b"") -> None:
        piece = bytes(self._gathered)
        self._count(piece)
        self._channel.sendall(self._begin + (framed(Kind.PIECE, piece) if piece else b"") + end)
        self._begin = b""
        self._gathered.clear()

    def _count(self, piece: bytes) -> None:
        """But where it is all, and has fewer bytes than rows are allowed."""
        most = self._most
        if self._rows is None or most is None or (self._begin and len(piece) < min(GATHERED, most)):
            return
        if self._rows.take(piece) > most:
            raise QueryStopped(too_many_rows(most))


class Reading:
    """Follows and answers."""

    def __init__(
        self, store: QuadStore, channel: socket.socket, tickets: TicketReader, giving_way: GivingWay
    ) -> None:
        """`channel` leads to the worker."""
        self._store, self._channel, self._tickets, self._giving_way = store, channel, tickets, giving_way
        self._incoming = channel.makefile("rb")
        self._changes: list[ChangeLines] = []
        self._applied = store.applied
        self._headers: dict[str, bytes] = {}
        """Frames of answers' headers at `_applied`, by media type."""

    def run(self) -> None:
        """Until the worker is gone."""
        _say(self._channel, Kind.READY, {"index": self._applied.index})
        with self._incoming:
            self._giving_way.run(self._go_on)

    def _go_on(self) -> bool:
        """Do what the worker says next; False: it is gone."""
        head = self._incoming.read(HEAD.size)
        if not head:
            return False
        kind, length = HEAD.unpack(head)
        body = self._incoming.read(length)
        if KINDS[kind] is Kind.EFFECTS:
            self._take(*pickle.loads(body))  # noqa: S301  of our own worker
        else:
            assert KINDS[kind] is Kind.QUESTION, f"a worker does not say {KINDS[kind]!r}"
            number, question = question_of(body)
            if self._tickets.take(number):
                self._follow()
                with self._giving_way:
                    self._answer(question)
        if self._changes and not select.select([self._channel], [], [], 0)[0]:
            self._follow()  # nobody asks: done before somebody does
        return True

    def _take(self, first: int, changes: Iterable[tuple[tuple[str, ...], ...]], applied: Applied) -> None:
        """One batch, as the worker commits it; the copy may hold the first ones."""
        if applied.index > self._applied.index:
            assert first == self._applied.index + 1, "a batch is missing"
            self._changes += map(ChangeLines._make, changes)
            self._applied = applied
            self._headers.clear()

    def _follow(self) -> None:
        if self._changes:
            self._store.apply(self._changes, self._applied)
            self._changes = []

    def _answer(self, question: Question) -> None:
        try:
            if question.text is None:
                headers = headers_frame({**_index_header(self._applied), **_dump_headers(self._applied)})
                output = Output(self._channel, headers, N_QUADS, None)
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
                output = Output(self._channel, self._headers_of(media_type), media_type, question.rows)
                answer.write_to(output)
            output.end()
        except QuadlogError as error:
            _say(self._channel, Kind.ERROR, _error(error))

    def _headers_of(self, media_type: str) -> bytes:
        """The frame of those of an answer."""
        if (found := self._headers.get(media_type)) is None:
            charset = "; charset=utf-8" * media_type.startswith("text/")
            headers = {"Content-Type": media_type + charset, **_index_header(self._applied)}
            found = self._headers[media_type] = headers_frame(headers)
        return found


def _say(channel: socket.socket, kind: Kind, value: object) -> None:
    channel.sendall(framed(kind, json.dumps(value).encode()))


def _error(error: QuadlogError) -> dict[str, object]:
    return {"error": type(error).__name__, "message": str(error), "retry_after": error.retry_after}


def _index_header(applied: Applied) -> dict[str, str]:
    """Which state of the log an answer shows."""
    return {"Quadlog-Index": f"{applied.index}:{applied.chain.hex()[:16]}"}


def _dump_headers(applied: Applied) -> dict[str, str]:
    """Of which state a dump is, so that anybody can recount it."""
    return {
        "Content-Type": N_QUADS,
        "Quadlog-Signature": render(applied.signature),
        "Quadlog-Quads": str(applied.quads),
    }


def main() -> None:
    """Begin to read."""
    # What goes to the whole group (Ctrl-C, a service manager's stop) goes to the worker as well, which ends this.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    with suppress(OSError):  # no /proc here; or less memory is left than anything else
        Path("/proc/self/oom_score_adj").write_text("1000")
    path, tickets, giving_way = Path(sys.argv[1]), TicketReader(int(sys.argv[2])), GivingWay()
    with socket.socket(fileno=0) as channel, suppress(BrokenPipeError, ConnectionResetError):
        try:
            with told_of(path):
                Reading(QuadStore.open(path), channel, tickets, giving_way).run()
        except StoreDamaged as error:  # the worker has the same files
            _say(channel, Kind.ERROR, _error(error))


if __name__ == "__main__":
    main()
