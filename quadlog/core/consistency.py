"""Consistency that a client requests of a read: how recent the answer must be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quadlog.errors import UserError


class Consistency(StrEnum):
    """Levels of consistency; each shows everything that the preceding ones show."""

    EVENTUAL = "eventual"
    """The state of any worker: a complete, possibly earlier, state of the log."""
    SESSION = "session"
    """All that this master has acknowledged."""
    LOCAL = "local"
    """All that this master knows to be agreed, up to the first undecided synchronous transaction."""
    STRICT = "strict"
    """All that any master of a majority had acknowledged before the read arrived."""


_POINT: Final = re.compile(r"(\d{1,18})(?::([0-9a-f]{1,64}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequirement:
    """State that a read must show."""

    consistency: Consistency
    index: int = 0
    """Index of the last entry that the read must include."""
    chain: str = ""
    """Beginning of the chain hash at that index, as reported by `Quadlog-Index`; empty: any."""


_PLAIN: Final = {consistency: ReadRequirement(consistency=consistency) for consistency in Consistency}


def wanted(consistency: str | None, min_index: str | None, default: Consistency) -> ReadRequirement:
    """Return what the headers `Quadlog-Consistency` and `Quadlog-Min-Index` request.

    >>> wanted("LOCAL", "7:ab12", Consistency.SESSION)
    ReadRequirement(consistency=<Consistency.LOCAL: 'local'>, index=7, chain='ab12')

    Raises:
        UserError: a header has an invalid value.

    """
    try:
        asked = default if consistency is None else Consistency(consistency.strip().lower())
    except ValueError:
        message = f"Quadlog-Consistency is one of {', '.join(Consistency)}, not {consistency!r}"
        raise UserError(message) from None
    if min_index is None:
        return _PLAIN[asked]
    point = _POINT.fullmatch(min_index.strip().lower())
    if point is None:
        raise UserError(f"Quadlog-Min-Index is an index, or what Quadlog-Index said, not {min_index!r}")
    return ReadRequirement(consistency=asked, index=int(point[1]), chain=point[2] or "")
