"""Why a round is synced before it is posted: what a power cut does to a master that only wrote it.

A write that is not synced survives kill -9, but not a power cut.  Here the disk loses the last few saves at
each crash, and what the others were promised is broken for everybody to see.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from quadlog.core.cluster_settings import SplitApproval, SplitRecovery
from tests.support.agreement.cluster import Disk, Member
from tests.support.agreement.safety import Safety
from tests.support.agreement.weather import Weather
from tests.support.agreement.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quadlog.core.messages import AgreementLimits, Save
    from quadlog.core.model import Pair, Post

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


class WhatAllCanSee(Safety):
    """What members know of their promises is not looked at."""

    def posted(self, member: Member, post: Post) -> None:
        pass

    def kept(self, member: Member) -> None:
        pass

    def submitted(self, member: Member, pairs: Sequence[Pair]) -> None:
        pass

    def understood(self, reader: Member, sender: Member) -> None:
        pass


class Careless(Member):
    """It does not sync."""

    def _disk(self) -> Disk:
        return Unsynced()


class Unpowered(World):
    """Each crash is a power cut."""

    member_of = Careless
    lost = 0

    def __init__(
        self,
        masters: Mapping[str, str],
        *,
        limits: AgreementLimits,
        lag: float,
        newcomers: int = 0,
        put_off: int = 0,
        witnesses: frozenset[str] = frozenset(),
        recovery: SplitRecovery = SplitRecovery.SMART,
        quorum: str = "N/2 + 1",
        time_out: float = 5000.0,
        approval: SplitApproval = SplitApproval.AUTO,
    ) -> None:
        super().__init__(
            masters,
            limits=limits,
            lag=lag,
            newcomers=newcomers,
            put_off=put_off,
            witnesses=witnesses,
            recovery=recovery,
            quorum=quorum,
            time_out=time_out,
            approval=approval,
        )
        self.safety = WhatAllCanSee(limits, self.is_majority, self.homes)
        self.random = random.Random(0)

    def restart(self, member: Member, at: float) -> None:
        assert isinstance(member.disk, Unsynced)
        member.disk = member.disk.without_last(self.random.randrange(self.lost + 1))
        super().restart(member, at)


class PowerCuts(Weather):
    """Where the power fails."""

    world_of = Unpowered


def harm(seeds: int, *, lost: int) -> Counter[str]:
    """What the runs ended in, by the first words of what was seen."""
    found: Counter[str] = Counter()
    for seed in range(seeds):
        try:
            weather = PowerCuts(seed, masters=3)
            assert isinstance(weather.world, Unpowered)
            weather.world.lost = lost
            weather.run()
        except AssertionError as error:
            text = str(error)
            kinds = (
                "two orders",
                "twice by majorities",
                "behind a later timestamp",
                "voted twice",
                "remembers",
                "not converged",
                "lost or doubled",
            )
            found[next((kind for kind in kinds if kind in text), text.splitlines()[0][:80])] += 1
    return found


@pytest.mark.parametrize("seeds", [24, pytest.param(SEEDS, marks=pytest.mark.soak)])
def test_without_the_sync_promises_are_broken(seeds: int) -> None:
    found = harm(seeds, lost=3)
    print(f"of {seeds} runs with power cuts: {dict(found)}")
    assert found["two orders"] + found["voted twice"] + found["behind a later timestamp"], (
        "a promise was forgotten"
    )
    assert found["remembers"], "a log that was said was forgotten"


@pytest.mark.parametrize("seeds", [24, pytest.param(SEEDS, marks=pytest.mark.soak)])
def test_with_the_sync_the_same_runs_are_clean(seeds: int) -> None:
    assert not harm(seeds, lost=0)
