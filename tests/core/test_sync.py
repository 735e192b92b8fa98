"""Why a round is synced before it is posted: what a power cut does to a master that only wrote it.

A write that is not synced survives kill -9, but not a power cut.  Here the disk loses the last few saves at
each crash, and what the others were promised is broken for everybody to see.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.core.cluster import Disk, Member
from tests.core.weather import Weather

if TYPE_CHECKING:
    from quadlog.core.messages import Save
    from quadlog.core.model import Post

SEEDS = 60


@dataclass(slots=True)
class Unsynced(Disk):
    """A disk that takes saves and may lose the last ones."""

    saves: list[Save] = field(default_factory=list)

    def save(self, save: Save) -> None:
        Disk.save(self, save)
        self.saves.append(save)

    def without_last(self, count: int) -> Unsynced:
        """What is there after a power cut."""
        disk = Unsynced()
        for save in self.saves[: max(0, len(self.saves) - count)]:
            disk.save(save)
        return disk


class PowerCuts(Weather):
    """Each crash is a power cut.  What members know of their promises is not looked at: only what all can see."""

    def __init__(self, seed: int, *, lost: int) -> None:
        super().__init__(seed, masters=3)
        self.lost = lost
        for member in self.members:
            member.disk = Unsynced()

    def _restart(self, member: Member) -> None:
        assert isinstance(member.disk, Unsynced)
        member.disk = member.disk.without_last(self.random.randrange(self.lost + 1))
        super()._restart(member)

    def _check_promise(self, member: Member) -> None:
        pass

    def _check_whole(self, member: Member, post: Post) -> None:
        pass

    def _check_understood(self, reader: Member, sender: Member) -> None:
        pass


def harm(*, lost: int) -> Counter[str]:
    """What the runs ended in, by the first words of what was seen."""
    found: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            PowerCuts(seed, lost=lost).run()
        except AssertionError as error:
            text = str(error)
            kinds = (
                "two orders",
                "behind a later timestamp",
                "remembers",
                "not converged",
                "lost or doubled",
            )
            found[next((kind for kind in kinds if kind in text), text.splitlines()[0][:80])] += 1
    return found


def test_without_the_sync_promises_are_broken() -> None:
    found = harm(lost=3)
    print(f"of {SEEDS} runs with power cuts: {dict(found)}")
    assert found["two orders"] + found["behind a later timestamp"], "a counter that was posted was used again"
    assert found["not converged"] + found["remembers"], "a queue or a log that was said was forgotten"


def test_with_the_sync_the_same_runs_are_clean() -> None:
    assert not harm(lost=0)
