"""What a worker and its reading processes say to each other: frames of a kind and some bytes.

Effects and questions go down as pickles: the worker made them.  What comes up is bytes and JSON: the process
that says it evaluates what strangers wrote.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

HEAD: Final = struct.Struct("!BI")

Headers = list[tuple[bytes, bytes]]
"""Of an answer, with names in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a process is asked."""

    text: str | None
    """A query; None: all quads."""
    accept: str = "*/*"
    default: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    rows: int | None = None
    """An answer with more of them is QueryStopped."""


class Kind(IntEnum):
    """Of a frame."""

    EFFECTS = 1
    """Down: a pickle of effects and of the applied state after them."""
    QUESTION = 2
    """Down: a pickle of the number of its ticket and of a `Question`."""
    READY = 3
    """Up: JSON with the index that the store has."""
    HEADERS = 4
    """Up: of the answer that begins, see `headers_of`."""
    PIECE = 5
    """Up: bytes of the answer."""
    END = 6
    """Up: it was all of it."""
    ERROR = 7
    """Up: JSON with the error's name and message; and what was said is not all."""


KINDS: Final = {kind.value: kind for kind in Kind}
"""By number, in a tenth of the time of `Kind(number)`."""


def framed(kind: Kind, body: bytes) -> bytes:
    """One frame.

    >>> HEAD.unpack(framed(Kind.PIECE, b"ok")[: HEAD.size])
    (5, 2)
    """
    return HEAD.pack(kind, len(body)) + body


def question_frame(number: int, question: Question) -> bytes:
    """Ask a question whose ticket has this number.

    >>> question_of(question_frame(3, Question(text="ASK {}"))[HEAD.size :])
    (3, Question(text='ASK {}', accept='*/*', default=(), named=(), rows=None))
    """
    asked = (number, question.text, question.accept, question.default, question.named, question.rows)
    return framed(Kind.QUESTION, pickle.dumps(asked, pickle.HIGHEST_PROTOCOL))


def question_of(body: bytes) -> tuple[int, Question]:
    """The number of its ticket, and the question."""
    number, text, accept, default, named, rows = pickle.loads(body)  # noqa: S301  of our own worker
    return number, Question(text=text, accept=accept, default=default, named=named, rows=rows)


def headers_frame(headers: dict[str, str]) -> bytes:
    r"""Begin an answer.

    >>> headers_frame({"Content-Type": "text/csv", "Quadlog-Index": "3:ab"})[HEAD.size :]
    b'content-type\ntext/csv\nquadlog-index\n3:ab'
    """
    lines = [line for name, value in headers.items() for line in (name.lower(), value)]
    return framed(Kind.HEADERS, "\n".join(lines).encode())


def headers_of(body: bytes) -> Headers:
    r"""The headers of an answer.

    >>> headers_of(b'content-type\ntext/csv\nquadlog-index\n3:ab')
    [(b'content-type', b'text/csv'), (b'quadlog-index', b'3:ab')]
    """
    lines = body.split(b"\n")
    return list(zip(lines[::2], lines[1::2], strict=True))
