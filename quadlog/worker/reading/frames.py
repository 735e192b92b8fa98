"""What a worker and its reading processes say to each other: frames of a kind and some bytes.

Effects go down as pickles: the worker made them.  What comes up is bytes and JSON: the process that says
it evaluates what strangers wrote.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

HEAD: Final = struct.Struct("!BI")


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
    """Down: JSON, see `Question`."""
    READY = 3
    """Up: JSON with the index that the store has."""
    HEADERS = 4
    """Up: JSON, of the answer that begins."""
    PIECE = 5
    """Up: bytes of the answer."""
    END = 6
    """Up: it was all of it."""
    ERROR = 7
    """Up: JSON with the error's name and message; and what was said is not all."""


def framed(kind: Kind, body: bytes) -> bytes:
    """One frame.

    >>> HEAD.unpack(framed(Kind.PIECE, b"ok")[: HEAD.size])
    (5, 2)
    """
    return HEAD.pack(kind, len(body)) + body
