"""A master dies in each phase of leaving a view and of being let in again, and goes on from where it was.

One lab for all: a data centre is cut off and comes back, and one of the masters dies at one phase after the other
(`docs/agreement.md` lists them), each time to be started again, while clients write at all of them.

`make test` dies at each phase once; `make soak` has all cases.  `TEST_PHASES=each` has one death in each test.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.errors import SetupError
from quadlog.failpoints import Failpoint
from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import AGAIN_S, ending, in_turn, views
from tests.support.clusters.phases import CASES, DCS, PHASES, Case
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.clusters.appends import Appends
    from tests.support.labs import RunningLab

LAG_S = 5.0
"""`max-peer-lag` here: a master that dies three times in a row is not given up meanwhile."""
VISITS = {Failpoint.HALF_BEHIND_CUT: 5, Failpoint.HALF_BEHIND_REWIND: 5}
"""Not behind the first record."""


SHORT = (CASES[0], CASES[4])
EACH = [case for every in CASES for case in every.each()] if os.environ.get("TEST_PHASES") == "each" else []
LONG = EACH or [case for case in CASES if case not in SHORT]
TRIED = [*SHORT, *(pytest.param(case, marks=pytest.mark.soak) for case in LONG)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Three data centres that give each other up soon."""
    with BROKERS.lab(
        tmp_path_factory.mktemp("phases") / "lab",
        dcs=3,
        workers=1,
        environment={"QUADLOG_MAX_PEER_LAG": str(LAG_S), "QUADLOG_SPLIT_RECOVERY": "Smart"},
    ) as lab:
        yield lab


@pytest.fixture
def cluster(lab: RunningLab) -> Iterator[Cluster]:
    """All of it together; whoever a failed test left apart or dead comes back."""
    with in_turn(lab) as cluster:
        yield cluster


def test_every_phase_is_in_the_table_and_every_entry_of_it_is_tried() -> None:
    text = (Path(__file__).parents[2] / "docs" / "agreement.md").read_text()
    _, phases, _ = re.split(r"^## (?:Phases|Lost disks)$", text, flags=re.MULTILINE)
    cells = re.findall(r"^\| (`.*?`) \|", phases, re.MULTILINE)
    assert {Failpoint(name) for cell in cells for name in re.findall("`([a-z-]+)`", cell)} == PHASES
    assert {point for case in SHORT for point in case.points} == PHASES


@pytest.mark.long("a start after each death")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", TRIED, ids=str)
def test_death_in_phases(cluster: Cluster, case: Case) -> None:
    """Whoever dies at whichever step: one log and one state in the end, and all that the clients know is so."""
    apart, stay, dies = case.roles(cluster.status()["view"]["home"])
    victim, began, died = f"{dies}-m1", time.monotonic(), list[Failpoint]()
    with appending(cluster) as appends:
        if case.leaving:
            start_again(cluster, victim, case.leaving[0], [*DCS])
        for other in stay:
            cluster.cut(apart, other)
        died += deaths(cluster, victim, case.leaving)
        until(lambda: members(cluster, apart) == [apart])
        until(lambda: all(members(cluster, other) == stay for other in stay))
        told_more(appends)
        if case.rejoining:
            start_again(cluster, victim, case.rejoining[0], [apart] if dies == apart else stay)
            told_more(appends)
        cluster.heal()
        died += deaths(cluster, victim, case.rejoining)
        end = ending(cluster, appends, time.monotonic())
    print(f"{len(died)} deaths of {victim}, {time.monotonic() - began:.1f} s")
    assert died == [*case.points]
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


def members(cluster: Cluster, dc: str) -> list[str]:
    """Data centres of the view that its master is in."""
    return [name.removesuffix("-m1") for name in views(cluster)[DCS.index(dc)][1]]


def is_in_a_view_of(cluster: Cluster, dc: str, among: Sequence[str]) -> bool:
    """Whether its master is; it may die meanwhile."""
    with suppress(httpx.TransportError):
        return members(cluster, dc) == among
    return False


def told_more(appends: Appends) -> None:
    """Until each master has acknowledged some more."""
    since = time.monotonic()
    until(lambda: all(appends.told(number, since) >= 5 for number in range(len(DCS))))


def deaths(cluster: Cluster, victim: str, points: Sequence[Failpoint]) -> list[Failpoint]:
    """Wait until it has died at each of these, started again each time; it serves in the end."""
    died: list[Failpoint] = []
    began = time.monotonic()
    for number, point in enumerate(points, start=1):
        until(lambda: cluster.lab.states()[victim] != "running")
        assert cluster.lab.exited(victim), cluster.lab.states()
        died.append(point)
        start(cluster, victim, *points[number : number + 1])
        print(f"{victim} died {point} and is back {time.monotonic() - began:.1f} s")
    return died


def start_again(cluster: Cluster, victim: str, point: Failpoint, among: Sequence[str]) -> None:
    """To die there, later: it is in a view of these first.

    Where the machine lets a start take longer than `LAG_S` it is given up, and dies as it changes its view for that.
    """
    dc = victim.removesuffix("-m1")
    cluster.lab.kill(victim)
    while True:
        start(cluster, victim, point)
        until(lambda: cluster.lab.exited(victim) or is_in_a_view_of(cluster, dc, among))
        if not cluster.lab.exited(victim):
            return
        print(f"{victim} was given up while it started, and died {point}")


def start(cluster: Cluster, victim: str, *points: Failpoint) -> None:
    """To die at a point, perhaps before it serves; or to serve."""
    for point in points:
        with suppress(SetupError):
            cluster.lab.start(victim, QUADLOG_FAILPOINT=f"{point}:{VISITS.get(point, 1)}")
    if not points:
        assert "serves" in cluster.lab.start(victim)
