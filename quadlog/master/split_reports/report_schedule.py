"""When the report of a side that gave way is made: soon, then after growing pauses, a limited number of times."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, Self

from quadlog.master.split_reports.report_request import EndedSide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PAUSES_S: Final = (3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Seconds before each attempt.  The first one lets effects arrive; after the last one, no further attempt is made."""
FRESH_MS: Final = 2 * 3_600_000
"""Milliseconds for which a side that gave way may be new: its master posts it until it is restarted, and a master that
becomes the reporter later must not report it again.  All attempts take less."""
REMEMBERED: Final = 200
"""Sides that are remembered as settled, and those that were given up."""


@dataclass(slots=True, kw_only=True)
class PendingReport:
    """A side whose report is not made yet."""

    side: EndedSide
    attempts: int = 0
    reason: str = ""
    """Why the last attempt made no report."""
    is_failure: bool = False
    """True if that was a failure, and not only something that is not there yet."""
    due_at: float
    """Steady milliseconds; infinite: it was given up."""

    @property
    def is_given_up(self) -> bool:
        """True if no further attempt is made."""
        return self.due_at == inf

    @property
    def is_last(self) -> bool:
        """True if the next attempt is the last one."""
        return self.attempts == len(PAUSES_S) - 1

    def as_json(self, moment: float) -> dict[str, Any]:
        """Return it as clients see it; `moment`: steady milliseconds."""
        return {
            "node": self.side.node,
            "dc": self.side.dc,
            "fork": self.side.fork,
            "attempts": self.attempts,
            "reason": self.reason or None,
            "again_in_s": None if self.is_given_up else max(0, round((self.due_at - moment) / 1000)),
        }


class ReportSchedule:
    """The sides that gave way: settled ones, and those whose reports are missing.  Times are steady milliseconds."""

    def __init__(self) -> None:
        """Start without any.

        >>> schedule = ReportSchedule()
        >>> schedule.note([EndedSide("m3", "dc3", 1, 7)], moment=0.0, wall=2)
        True
        >>> [one.side.node for one in schedule.due(3000.0)]
        ['m3']
        """
        self._settled: dict[EndedSide, None] = {}
        """In the order in which they were settled."""
        self._pending: dict[EndedSide, PendingReport] = {}

    @classmethod
    def restored(cls, state: Mapping[str, Any], moment: float) -> Self:
        """Continue from what `state` returned; the next attempts begin with the first pause.

        If that is damaged, start without any: at worst, a side is examined again, and its report is found.
        """
        found = cls()
        with suppress(KeyError, TypeError, ValueError):
            found._settled = {EndedSide(*one): None for one in state.get("settled", ())}
            for fields in state.get("pending", ()):
                kept = {name: fields[name] for name in ("attempts", "reason", "is_failure")}
                due_at = inf if fields["is_given_up"] else moment + PAUSES_S[0] * 1000
                side = EndedSide(*fields["side"])
                found._pending[side] = PendingReport(side=side, due_at=due_at, **kept)
        return found

    def note(self, sides: Iterable[EndedSide], *, moment: float, wall: int) -> bool:
        """Take in which sides gave way; return whether some of them are new.  `wall`: milliseconds since 1970."""
        new = [
            one
            for one in sides
            if one not in self._settled and one not in self._pending and wall - one.at < FRESH_MS
        ]
        for one in new:
            self._pending[one] = PendingReport(side=one, due_at=moment + PAUSES_S[0] * 1000)
        return bool(new)

    @property
    def pending(self) -> list[PendingReport]:
        """All without a report, also those that were given up."""
        return [*self._pending.values()]

    def due(self, moment: float) -> list[PendingReport]:
        """Return those whose next attempt is due."""
        return [one for one in self._pending.values() if one.due_at <= moment]

    def settle(self, side: EndedSide) -> None:
        """Note that the report of a side is there."""
        self._pending.pop(side, None)
        self._settled[side] = None
        for oldest in list(self._settled)[:-REMEMBERED]:
            del self._settled[oldest]

    def fail(self, side: EndedSide, reason: str, moment: float, *, is_failure: bool) -> PendingReport:
        """Note that an attempt made no report; return the side with the time of the next attempt."""
        one = self._pending[side]
        one.attempts += 1
        one.reason = reason
        one.is_failure = is_failure or one.attempts == len(PAUSES_S)
        one.due_at = inf if one.attempts >= len(PAUSES_S) else moment + PAUSES_S[one.attempts] * 1000
        given_up = [known for known, found in self._pending.items() if found.is_given_up]
        for oldest in given_up[:-REMEMBERED]:
            self.settle(oldest)
        return one

    def state(self) -> dict[str, Any]:
        """Return what must be known after a restart, as values of JSON."""
        kept = ("side", "attempts", "reason", "is_failure", "is_given_up")
        pending = [{name: getattr(one, name) for name in kept} for one in self._pending.values()]
        return {"settled": [*self._settled], "pending": pending}
