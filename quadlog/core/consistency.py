"""How new an answer has to be, as a client says it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quadlog.errors import UserError


class Consistency(StrEnum):
    """Each shows all that the ones before it show."""

    EVENTUAL = "eventual"
    """What some worker has: an earlier state of the log, whole."""
    SESSION = "session"
    """All that this master has acknowledged."""
    LOCAL = "local"
    """All that this master knows to be agreed."""
    STRICT = "strict"
    """All that any master acknowledged before the read came."""


_POINT: Final = re.compile(r"(\d{1,18})(?::([0-9a-f]{1,64}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a read has to show."""

    consistency: Consistency
    index: int = 0
    """At least up to here."""
    chain: str = ""
    """How the chain hash begins there, as `Quadlog-Index` gave it; empty: any."""


def wanted(consistency: str | None, min_index: str | None, default: Consistency) -> Wanted:
    """What the headers `Quadlog-Consistency` and `Quadlog-Min-Index` ask for.

    >>> wanted("LOCAL", "7:ab12", Consistency.SESSION)
    Wanted(consistency=<Consistency.LOCAL: 'local'>, index=7, chain='ab12')

    Raises:
        UserError: they say something else.

    """
    try:
        asked = default if consistency is None else Consistency(consistency.strip().lower())
    except ValueError:
        message = f"Quadlog-Consistency is one of {', '.join(Consistency)}, not {consistency!r}"
        raise UserError(message) from None
    if min_index is None:
        return Wanted(consistency=asked)
    point = _POINT.fullmatch(min_index.strip().lower())
    if point is None:
        message = f"Quadlog-Min-Index is an index, or what Quadlog-Index said, not {min_index!r}"
        raise UserError(message)
    return Wanted(consistency=asked, index=int(point[1]), chain=point[2] or "")
