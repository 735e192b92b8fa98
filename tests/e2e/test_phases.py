"""A master dies in each phase of leaving a view and of being let in again, and goes on from where it was.

One lab for all: a data centre is cut off and comes back, and one of the masters dies at one phase after the other
(`docs/agreement.md` lists them), each time to be started again, while clients write at all of them.

`make test` dies at each phase once; `make soak` has all cases.  `QUADLOG_PHASES=each` has one death in each test.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from quadlog.errors import SetupError
from quadlog.failpoints import Failpoint
from tests.e2e.appends import Amiss, appending
from tests.e2e.cluster import Cluster, until
from tests.e2e.ending import AGAIN_S, ending, one_view, views
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.e2e.appends import Appends
    from tests.lab_helpers import RunningLab

pytestmark = pytest.mark.alone

LAG_S = 5.0
"""`max-peer-lag` here: a master that dies three times in a row is not given up meanwhile."""
DCS = ("dc1", "dc2", "dc3")
VISITS = {Failpoint.HALF_BEHIND_CUT: 5, Failpoint.HALF_BEHIND_REWIND: 5}
"""Not behind the first record."""
VOTE = (Failpoint.VOTE_SAVED, Failpoint.VOTE_POSTED, Failpoint.INSTALLED)
DUTY = (Failpoint.BEFORE_HANDOVER, Failpoint.HANDED_OVER)
ASKING = (Failpoint.JOINING, Failpoint.BESIDE_BEGUN, Failpoint.HALF_BESIDE, *VOTE[:2])
GIVING_WAY = (
    Failpoint.CUT_SAID,
    Failpoint.HALF_BEHIND_CUT,
    Failpoint.REWIND_SAID,
    Failpoint.HALF_BEHIND_REWIND,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Who dies where."""

    apart: Literal["the home", "another"]
    """What is cut off."""
    dies: Literal["apart", "home", "lower", "higher"]
    """Whose master dies: the one that is cut off, the home of those who stay, the lower or the higher of them."""
    leaving: tuple[Failpoint, ...] = ()
    """Where it dies while the two are apart."""
    rejoining: tuple[Failpoint, ...] = ()
    """And once they hear each other again."""

    @property
    def points(self) -> tuple[Failpoint, ...]:
        """All of them."""
        return (*self.leaving, *self.rejoining)

    def __str__(self) -> str:
        """What a report calls it."""
        back = ("back", *self.rejoining) if self.rejoining else ()
        return f"{self.apart} is cut off, {self.dies} dies: {', '.join([*self.leaving, *back])}"

    def each(self) -> Iterator[Case]:
        """The same with one death each."""
        for point in self.leaving:
            yield replace(self, leaving=(point,), rejoining=())
        for point in self.rejoining:
            yield replace(self, leaving=(), rejoining=(point,))

    def roles(self, home: str) -> tuple[str, list[str], str]:
        """The data centre that is cut off, those that stay, and the one whose master dies."""
        apart = home if self.apart == "the home" else max({*DCS} - {home})
        stay = [dc for dc in DCS if dc != apart]
        dies = {
            "apart": apart,
            "home": home if home in stay else stay[0],
            "lower": stay[0],
            "higher": stay[1],
        }
        return apart, stay, dies[self.dies]


CASES = (
    Case(
        apart="another",
        dies="apart",
        leaving=(Failpoint.INSTALLED, *DUTY),
        rejoining=(*ASKING, Failpoint.ADOPTED, *GIVING_WAY),
    ),
    Case(
        apart="the home",
        dies="apart",
        leaving=(Failpoint.GIVEN_UP,),
        rejoining=(*ASKING, Failpoint.INSTALLED, *GIVING_WAY),
    ),
    Case(apart="the home", dies="lower", leaving=(Failpoint.GIVEN_UP, *VOTE[1:], *DUTY), rejoining=VOTE),
    Case(apart="another", dies="home", leaving=DUTY, rejoining=DUTY),
    Case(apart="another", dies="higher", leaving=(Failpoint.GIVEN_UP,), rejoining=(Failpoint.INSTALLED,)),
    Case(apart="another", dies="higher", leaving=(Failpoint.INSTALLED,), rejoining=(Failpoint.VOTE_SAVED,)),
)
"""What is saved at once is one death: who proposes gives up and votes with one save, who follows installs with it."""
PHASES = frozenset(point for case in CASES for point in case.points)
SHORT = (CASES[0], CASES[4])
EACH = (
    [case for every in CASES for case in every.each()] if os.environ.get("QUADLOG_PHASES") == "each" else []
)
LONG = EACH or [case for case in CASES if case not in SHORT]
TRIED = [*SHORT, *(pytest.param(case, marks=pytest.mark.soak) for case in LONG)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Three data centres that give each other up soon."""
    with running_lab(
        tmp_path_factory.mktemp("phases") / "lab",
        dcs=3,
        workers=1,
        environment={"QUADLOG_MAX_PEER_LAG": str(LAG_S)},
    ) as lab:
        yield lab


@pytest.fixture
def cluster(lab: RunningLab) -> Iterator[Cluster]:
    """All of it together; whoever a failed test left apart or dead comes back."""
    cluster = Cluster(lab)
    until(lambda: one_view(cluster, members=len(DCS)))
    yield cluster
    lab.links("heal")
    for node, state in lab.states().items():
        if state != "running":
            lab.start(node)


def test_every_phase_is_in_the_table_and_every_entry_of_it_is_tried() -> None:
    text = (Path(__file__).parents[2] / "docs" / "agreement.md").read_text()
    _, phases, _ = re.split(r"^## (?:Phases|Lost disks)$", text, flags=re.MULTILINE)
    cells = re.findall(r"^\| (`.*?`) \|", phases, re.MULTILINE)
    assert {Failpoint(name) for cell in cells for name in re.findall("`([a-z-]+)`", cell)} == PHASES
    assert {point for case in SHORT for point in case.points} == PHASES


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", TRIED, ids=str)
def test_death_in_phases(cluster: Cluster, case: Case) -> None:
    """Whoever dies at whichever step: one log and one state in the end, and all that the clients know is so."""
    apart, stay, dies = case.roles(cluster.status()["view"]["home"])
    victim, began, died = f"{dies}-m1", time.monotonic(), list[Failpoint]()
    with appending(cluster) as appends:
        if case.leaving:
            start_again(cluster, victim, case.leaving[0])
            until(lambda: members(cluster, dies) == [*DCS])
        for other in stay:
            cluster.lab.links("cut", apart, other)
        died += deaths(cluster, victim, case.leaving)
        until(lambda: members(cluster, apart) == [apart])
        until(lambda: all(members(cluster, other) == stay for other in stay))
        told_more(appends)
        if case.rejoining:
            start_again(cluster, victim, case.rejoining[0])
            until(lambda: members(cluster, dies) == ([apart] if dies == apart else stay))
            told_more(appends)
        cluster.lab.links("heal")
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


def told_more(appends: Appends) -> None:
    """Until each master has acknowledged some more."""
    since = time.monotonic()
    until(lambda: all(appends.told(number, since) >= 10 for number in range(len(DCS))))


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


def start_again(cluster: Cluster, victim: str, point: Failpoint) -> None:
    """To die there."""
    cluster.lab.kill(victim)
    start(cluster, victim, point)


def start(cluster: Cluster, victim: str, *points: Failpoint) -> None:
    """To die at a point, perhaps before it serves; or to serve."""
    for point in points:
        with suppress(SetupError):
            cluster.lab.start(victim, QUADLOG_FAILPOINT=f"{point}:{VISITS.get(point, 1)}")
    if not points:
        assert "serves" in cluster.lab.start(victim)
