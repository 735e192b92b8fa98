"""Frames between a worker and its reading processes: a kind and some bytes.

The worker sends effects and questions as pickles.  A process sends only bytes and JSON, because it evaluates
untrusted queries.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

HEAD: Final = struct.Struct("!BI")

Headers = list[tuple[bytes, bytes]]
"""Headers of an answer, with names in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """A question to a reading process."""

    text: str | None
    """Text of a query; None: all quads."""
    accept: str = "*/*"
    default: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    rows: int | None = None
    """Maximum rows of the answer; one with more rows is stopped by QueryStopped."""


class FrameKind(IntEnum):
    """Kind of a frame."""

    EFFECTS = 1
    """To the process: a pickle of effects and of the applied state after them."""
    QUESTION = 2
    """To the process: a pickle of the number of the ticket and of a `QueryRequest`."""
    READY = 3
    """To the worker: JSON with the index that the store has."""
    HEADERS = 4
    """To the worker: headers, which begin an answer, see `headers_of`."""
    PIECE = 5
    """To the worker: bytes of the answer."""
    END = 6
    """To the worker: the answer is complete."""
    ERROR = 7
    """To the worker: JSON with the error's name, message and `retry_after`; the answer is incomplete."""


KINDS: Final = {kind.value: kind for kind in FrameKind}
"""Kinds by number: a lookup takes a tenth of the time of `FrameKind(number)`."""


def framed(kind: FrameKind, body: bytes) -> bytes:
    """Return one frame.

    >>> HEAD.unpack(framed(FrameKind.PIECE, b"ok")[: HEAD.size])
    (5, 2)
    """
    return HEAD.pack(kind, len(body)) + body


def question_frame(number: int, question: QueryRequest) -> bytes:
    """Return the frame of a question whose ticket has this number.

    >>> question_of(question_frame(3, QueryRequest(text="ASK {}"))[HEAD.size :])
    (3, QueryRequest(text='ASK {}', accept='*/*', default=(), named=(), rows=None))
    """
    asked = (number, question.text, question.accept, question.default, question.named, question.rows)
    return framed(FrameKind.QUESTION, pickle.dumps(asked, pickle.HIGHEST_PROTOCOL))


def question_of(body: bytes) -> tuple[int, QueryRequest]:
    """Return the number of the ticket, and the question."""
    number, text, accept, default, named, rows = pickle.loads(body)  # noqa: S301  of our own worker
    return number, QueryRequest(text=text, accept=accept, default=default, named=named, rows=rows)


def headers_frame(headers: dict[str, str]) -> bytes:
    r"""Return the frame of an answer's headers.

    >>> headers_frame({"Content-Type": "text/csv", "Quadlog-Index": "3:ab"})[HEAD.size :]
    b'content-type\ntext/csv\nquadlog-index\n3:ab'
    """
    lines = [line for name, value in headers.items() for line in (name.lower(), value)]
    return framed(FrameKind.HEADERS, "\n".join(lines).encode())


def headers_of(body: bytes) -> Headers:
    r"""Return the headers of an answer.

    >>> headers_of(b'content-type\ntext/csv\nquadlog-index\n3:ab')
    [(b'content-type', b'text/csv'), (b'quadlog-index', b'3:ab')]
    """
    lines = body.split(b"\n")
    return list(zip(lines[::2], lines[1::2], strict=True))
