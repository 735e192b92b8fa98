"""What happened to the agreement while which fault was near: weather that leaves something out shows nothing of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.model import HardState

RECENT = 60
"""Events for which a fault counts as near."""
FAULTS = (
    *("split", "pair cut", "one way", "relay", "late payload", "leap"),
    *(
        "repeat",
        "crash",
        "stall",
        "clock",
        "retry",
        "join",
        "dry",
        "deaf",
        "lost disk",
        "void",
        "peers",
        "forced",
        "full",
        "setting",
    ),
)
STEPS = ("collect", "add", "give up", "ask to join", "vote", "install", "give way")


class Coverage:
    """Of one run."""

    def __init__(self) -> None:
        self.events = 0
        self.met: Counter[tuple[str, str]] = Counter()
        """By fault and step."""
        self._near: dict[str, int] = {}
        """When each fault happened last, the newest at the end."""

    def note(self, fault: str) -> None:
        """It happened now."""
        self._near.pop(fault, None)
        self._near[fault] = self.events

    def reach(self, step: str) -> None:
        """A master made it."""
        for fault, at in reversed(self._near.items()):
            if self.events - at > RECENT:
                break
            self.met[fault, step] += 1

    def stands(self, before: HardState, after: HardState) -> None:
        """The steps between where a master stood and where it stands."""
        if before is after:
            return
        if len(after.given_up) > len(before.given_up):
            self.reach("give up")
        if after.joining is not None and before.joining is None:
            self.reach("ask to join")
        if after.ballot != before.ballot:
            self.reach("vote")
        if before.view != after.view:
            self.reach("give way" if after.view.parent != before.view.id else "install")


def table(met: Mapping[tuple[str, str], int]) -> str:
    """Faults in lines, steps in columns."""
    head = " " * 13 + "".join(f"{step:>12}" for step in STEPS)
    lines = (
        f"{fault:12} " + "".join(f"{met.get((fault, step), 0):12,}" for step in STEPS) for fault in FAULTS
    )
    return "\n".join((head, *lines))
