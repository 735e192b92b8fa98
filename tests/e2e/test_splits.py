"""Data centres lose sight of each other and find each other again, while clients write at all of them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from quadlog.failpoints import Failpoint
from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import HTTP, Cluster, index_of, until
from tests.support.clusters.ending import AGAIN_S, ending, in_turn, one_view, views
from tests.support.clusters.strict import StrictReads, reading_strictly
from tests.support.clusters.trouble import logged
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters.appends import Appends
    from tests.support.labs import RunningLab

LAG_S = 1.5
"""`max-peer-lag` here."""
ON_BOTH_SIDES = {"QUADLOG_MAX_PEER_LAG": str(LAG_S), "QUADLOG_SPLIT_RECOVERY": "Smart"}
"""Each side of a split goes on."""
FLAP_S = LAG_S * 2 / 3
"""That a link is there, and then is not: too short for anybody to be given up."""
DCS = ("dc1", "dc2", "dc3")

FEW = 10
MANY = 1000
"""Strict reads while it is cut off."""


# --- labs of their own come first: one for all others would idle beside them ---


SEED = {"signature": "01" * 32, "quads": 1, "digest": "01" * 32, "sources": ["a.nq"]}


@pytest.fixture
def twos(tmp_path: Path) -> Iterator[Cluster]:
    """Two data centres with two masters each: neither side is a majority."""
    with BROKERS.lab(
        tmp_path / "lab",
        dcs=2,
        masters=2,
        workers=1,
        environment=ON_BOTH_SIDES,
    ) as lab:
        yield Cluster(lab)


def test_two_data_centres_with_two_masters_each(twos: Cluster) -> None:
    """Masters of one data centre stay together; who stands by gives way with the one that leads."""
    until(lambda: one_view(twos, members=4))
    no_side_says_what_the_log_begins_with(twos)
    with appending(twos) as appends:
        twos.cut("dc1", "dc2")
        until(lambda: all(len(members) == 2 for _, members in views(twos)), 2 * LAG_S + 5)
        assert {members for _, members in views(twos)} == {("dc1-m1", "dc1-m2"), ("dc2-m1", "dc2-m2")}
        apart = time.monotonic()
        until(lambda: all(appends.told(number, apart) >= 3 for number in range(4)), 20)
        written = twos.update("INSERT DATA { <urn:split> <urn:told> 1 }", Idempotency_Key="on a branch")
        fork, _, side = written.headers["Quadlog-Split"].partition("; ")
        assert (written.status_code, side) == (204, "side=unknown")
        assert 0 < int(fork.removeprefix("fork=")) < index_of(written)
        assert state_of(twos, 0, "on a branch") == "applied on a branch"
        twos.heal()
        end = ending(twos, appends, time.monotonic())
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()
    assert {state_of(twos, number, "on a branch") for number in range(4)} == {"applied"}
    gave_way = [(twos.status(number)["split"]["rejoined"] or {}).get("gave_way", 0) for number in range(4)]
    assert min(gave_way[:2]) > 0, "who gave way tells how much"
    assert gave_way[2:] == [0, 0]
    assert "Quadlog-Split" not in HTTP.get(f"{twos.masters[0]}/cluster/status").headers


def state_of(cluster: Cluster, master: int, key: str) -> str:
    """What `/tx` says."""
    found: str = HTTP.get(f"{cluster.masters[master]}/tx/{key}").json()["state"]
    return found


def no_side_says_what_the_log_begins_with(cluster: Cluster) -> None:
    """It may have to give way, and a worker that took a seed up holds its quads at index 0."""
    cluster.cut("dc1", "dc2")
    until(lambda: all(len(members) == 2 for _, members in views(cluster)), 2 * LAG_S + 5)
    for master in cluster.masters:
        answer = HTTP.post(f"{master}/cluster/seed", json=SEED)
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable"), answer.text
        assert "is no majority" in answer.json()["message"]
    cluster.heal()
    until(lambda: one_view(cluster, members=4), AGAIN_S)


def test_who_gave_way_loses_whom_it_followed(tmp_path: Path) -> None:
    """The stronger one dies when both are in one view again, before its effects are: the other goes on by itself."""
    environment = ON_BOTH_SIDES
    with BROKERS.lab(tmp_path / "lab", dcs=2, workers=1, environment=environment) as lab:
        cluster = Cluster(lab)
        until(lambda: one_view(cluster, members=2))
        gave_way, alone = "log_adopted", "rewind_written"
        before = [logged(cluster, event) for event in (gave_way, alone)]
        with appending(cluster) as appends:
            cluster.cut("dc1", "dc2")
            until(lambda: all(len(members) == 1 for _, members in views(cluster)), 2 * LAG_S + 5)
            lab.kill("dc2-m1")
            lab.start("dc2-m1", QUADLOG_FAILPOINT=str(Failpoint.INSTALLED))
            apart = time.monotonic()
            until(lambda: all(appends.told(number, apart) >= 3 for number in (0, 1)), 20)
            cluster.heal()
            until(lambda: lab.exited("dc2-m1"))
            died = time.monotonic()
            until(lambda: appends.told(0, died + LAG_S / 2) >= 3, LAG_S + 10)
            print(f"dc1 goes on {time.monotonic() - died:.1f} s after it lost whom it followed")
            after = [logged(cluster, event) for event in (gave_way, alone)]
            assert after == [count + 1 for count in before], (lab.directory / "logs/dc1-m1.log").read_text()
            lab.start("dc2-m1")
            end = ending(cluster, appends, time.monotonic())
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


# --- one lab for all others ---


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Three data centres that give each other up soon."""
    directory = tmp_path_factory.mktemp("splits") / "lab"
    with BROKERS.lab(directory, dcs=3, workers=1, environment=ON_BOTH_SIDES) as lab:
        yield lab


@pytest.fixture
def cluster(lab: RunningLab) -> Iterator[Cluster]:
    """All of it in one view; a test that fails leaves no link cut and no process stopped."""
    with in_turn(lab) as cluster:
        yield cluster


@contextmanager
def strictly(appends: Appends, master: int) -> Iterator[StrictReads]:
    """Strict reads at a master that is cut off: what it acknowledges alone then is no majority's."""
    lone = f"{master}-"

    def acknowledged() -> set[str]:
        return {key for key in appends.acknowledged.copy() if not key.startswith(lone)}

    with reading_strictly(appends, master, acknowledged) as reads:
        until(lambda: bool(reads.fresh))
        yield reads


def chosen(cluster: Cluster, *, evaluates: bool) -> str:
    """The data centre that evaluates, or the last one of the others."""
    home: str = cluster.status()["view"]["home"]
    return home if evaluates else max({*DCS} - {home})


def test_a_master_that_stood_still(cluster: Cluster) -> None:
    """The others go on without it; it goes on with them, and never alone."""
    before = logged(cluster, "duty_assigned", "dc3-m1")
    with appending(cluster) as appends:
        cluster.lab.kill("dc3-m1", "STOP")
        until(lambda: len(cluster.status(0)["view"]["members"]) == 2, 2 * LAG_S + 5)
        apart = time.monotonic()
        until(lambda: all(appends.told(number, apart) >= 3 for number in (0, 1)), 20)
        cluster.lab.kill("dc3-m1", "CONT")
        end = ending(cluster, appends, time.monotonic())
        assert logged(cluster, "duty_assigned", "dc3-m1") == before + 1
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


@pytest.mark.parametrize(
    "evaluates",
    [
        pytest.param(False, id="another", marks=pytest.mark.soak),
        pytest.param(True, id="the one that evaluates"),
    ],
)
def test_one_data_centre_is_cut_off(cluster: Cluster, evaluates: bool) -> None:  # noqa: FBT001
    """Each side gives the other up and goes on; the weaker one then gives way, and loses nothing.

    Another one than that which evaluates: in the soak, and in the tests behind this one, without strict reads.
    """
    dc = chosen(cluster, evaluates=evaluates)
    others = [name for name in DCS if name != dc]
    numbers = {name: number for number, name in enumerate(DCS)}
    before = {other: logged(cluster, "duty_assigned", f"{other}-m1") for other in others}
    with appending(cluster) as appends, strictly(appends, numbers[dc]) as reads:
        for other in others:
            cluster.cut(dc, other)
        cut = time.monotonic()
        until(lambda: len(views(cluster)[numbers[dc]][1]) == 1, 2 * LAG_S + 5)
        until(lambda: len(views(cluster)[numbers[others[0]]][1]) == 2, 2 * LAG_S + 5)
        apart = time.monotonic()
        installed = {logged(cluster, "duty_assigned", f"{other}-m1") - before[other] for other in others}
        print(f"two views after {apart - cut:.1f} s: {views(cluster)}")
        until(lambda: all(appends.told(number, apart) >= 3 for number in numbers.values()), 20)
        time.sleep(max(0.0, 2 * LAG_S - (time.monotonic() - cut)))
        healed = time.monotonic()
        cluster.heal()
        end = ending(cluster, appends, healed)
        until(lambda: max(reads.fresh) > healed)
    assert reads.wrong == []
    assert min(reads.fresh) < cut
    assert sum(apart < at < healed for at in reads.refused) > FEW
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert installed == {1}, "who hear each other do not part"
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


@pytest.mark.soak
def test_a_thousand_strict_reads_in_a_split(cluster: Cluster) -> None:
    """From before the cut until after the heal, twice: each is refused, or as new as what was acknowledged before."""
    with appending(cluster) as appends, strictly(appends, 0) as reads:
        for _ in range(2):
            before = reads.count
            for other in ("dc2", "dc3"):
                cluster.cut("dc1", other)
            until(lambda: len(views(cluster)[0][1]) == 1, 2 * LAG_S + 5)
            until(lambda: reads.count - before > MANY)  # noqa: B023 - it is waited for here
            healed = time.monotonic()
            cluster.heal()
            until(lambda: one_view(cluster, members=3), AGAIN_S)
            until(lambda: max(reads.fresh) > healed)  # noqa: B023 - so is this
        end = ending(cluster, appends, time.monotonic())
    assert reads.wrong == []
    assert end.amiss == Amiss()


def test_what_one_cannot_hear(cluster: Cluster) -> None:
    """A cut in one direction: who hears nobody is given up, and comes back."""
    with appending(cluster) as appends:
        for other in ("dc1", "dc2"):
            cluster.cut("dc3", other, one_way=True)
        until(lambda: len(views(cluster)[0][1]) == 2, 2 * LAG_S + 5)
        apart = time.monotonic()
        until(lambda: all(appends.told(number, apart) >= 3 for number in (0, 1)), 20)
        cluster.heal()
        end = ending(cluster, appends, time.monotonic())
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


def test_the_others_part_and_come_together_while_one_is_away(cluster: Cluster) -> None:
    """The topic that it reads when it comes back has a cut behind the fork: one of the others gave way there."""

    def apart(*sides: tuple[str, ...]) -> None:
        wanted = {tuple(f"{dc}-m1" for dc in side) for side in sides}
        until(lambda: {members for _, members in views(cluster)} == wanted, 2 * LAG_S + 5)
        since = time.monotonic()
        until(lambda: all(appends.told(number, since) >= 3 for number in range(3)), 20)

    with appending(cluster) as appends:
        cluster.cut("dc1", "dc3")
        cluster.cut("dc2", "dc3")
        apart(("dc1", "dc2"), ("dc3",))
        cluster.cut("dc1", "dc2")
        apart(("dc1",), ("dc2",), ("dc3",))
        cluster.heal("dc1", "dc2")
        apart(("dc1", "dc2"), ("dc3",))
        assert cluster.status()["split"]["rejoined"]["gave_way"] > 0, "dc1's topic goes back"
        cluster.heal("dc1", "dc3")  # by way of dc1 it hears both, and reads there
        end = ending(cluster, appends, time.monotonic())
    cluster.heal()
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.soak)])
def test_a_link_that_flaps(cluster: Cluster, seconds: int) -> None:
    """It is there for a second, and not for the next one, and so on."""
    with appending(cluster) as appends:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            for other in ("dc1", "dc2"):
                cluster.cut("dc3", other)
            time.sleep(FLAP_S)
            cluster.heal()
            time.sleep(FLAP_S)
        end = ending(cluster, appends, time.monotonic())
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()
