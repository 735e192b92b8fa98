"""What must hold of strict reads that do not wait for a decision, whatever the weather: see `weather`."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.model import Entry, LogPosition, View
    from tests.support.agreement.cluster import Member

REMEMBERED = 4
"""Barriers of a master whose reads may still wait."""


class ReadSafety:
    """A read shows all that was committed when it came; what it does not show is in no view but this one."""

    def __init__(self) -> None:
        """Nobody reads."""
        self._first: dict[LogPosition, View] = {}
        """By point, the view in which somebody agreed on it first."""
        self._barriers: defaultdict[str, deque[tuple[int, int]]] = defaultdict(
            lambda: deque(maxlen=REMEMBERED)
        )
        """By master, barriers that a majority agreed on, and the last entry that was committed when they were given."""
        self.early = 0
        """Number of reads that did not have to show their barriers."""

    def saved(self, entries: Sequence[Entry]) -> None:
        """A master has saved entries."""
        for entry in entries:
            self._first.setdefault(entry.point, entry.view)

    def agreed(self, member: Member, barrier: int, committed: int) -> None:
        """A master may answer reads that have this barrier."""
        self._barriers[member.name].append((barrier, committed))

    def turned(self, member: Member) -> None:
        """A master took its turn, and answers reads."""
        log, core = member.disk.log, member.core
        for barrier, committed in self._barriers[member.name]:
            index = core.read_index(barrier)
            assert committed <= index <= barrier, (
                f"{member.name} reads {index}, and {committed} was committed"
            )
            if index == barrier:
                continue
            self.early += 1
            for entry in log[index:barrier]:
                first = self._first[entry.point]
                assert first == core.view, (
                    f"{member.name} reads {index} in {core.view}, and {entry} is of {first}"
                )
