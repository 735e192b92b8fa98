"""A broken connection between two of three data centres: what they say to each other goes through the third."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.appends import Amiss, Appends, appending
from tests.support.clusters.cluster import Cluster, name, until
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import RunningLab

NOTICED_S = 3.0
"""Two and a half idle rounds of 1 s without a post, and the looks of the masters."""
ROUND_S = 1.0
"""That no round waits longer, once all of it is known to go through the third."""
SCHEDULING_S = 1.0
"""A dozen processes and six clients on two cores, and the links' process between them."""
EACH = 5
"""Appends at each master while a link is broken, and as many after it."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Three data centres that never give each other up."""
    directory = tmp_path_factory.mktemp("relay") / "lab"
    with BROKERS.lab(directory, dcs=3, workers=1, environment={"QUADLOG_MAX_PEER_LAG": "inf"}) as lab:
        yield lab


@pytest.fixture
def cluster(lab: RunningLab) -> Iterator[Cluster]:
    """With all links; a test that fails leaves none cut."""
    cluster = Cluster(lab)
    until(lambda: noticed(cluster))
    yield cluster
    cluster.heal()


def seen(cluster: Cluster) -> dict[tuple[str, str], str]:
    """How each data centre's master sees each other one."""
    return {
        (status["dc"], peer["dc"]): peer["state"]
        for status in map(cluster.status, range(len(cluster.masters)))
        for peer in status["peers"]
    }


def noticed(cluster: Cluster, *broken: tuple[str, str]) -> bool:
    """Whether just these (reader, read) are heard through the third only."""
    return {pair for pair, state in seen(cluster).items() if state != "connected"} == set(broken) and all(
        seen(cluster)[pair] == "relayed" for pair in broken
    )


def told_more(appends: Appends, since: float) -> None:
    """Until each master has acknowledged some."""
    until(lambda: all(appends.told(number, since) >= EACH for number in range(3)), 30)


# A lab of its own comes first: the one for all others would idle beside it.
def test_whoever_passes_on_dies(tmp_path: Path) -> None:
    """The other master of that data centre passes on then; what was on its way is asked for again."""
    with BROKERS.lab(
        tmp_path / "lab", dcs=3, masters=2, workers=1, environment={"QUADLOG_MAX_PEER_LAG": "inf"}
    ) as lab:
        cluster = Cluster(lab)
        with appending(cluster) as appends:
            cluster.cut("dc1", "dc2")
            masters = range(len(cluster.masters))
            until(lambda: {seen(cluster)[pair] for pair in (("dc1", "dc2"), ("dc2", "dc1"))} == {"relayed"})
            lab.kill("dc3-m1")
            time.sleep(2)  # its fellow takes over when it was silent for two and a half idle rounds
            lab.start("dc3-m1")
            back = time.monotonic()
            until(lambda: all(appends.told(number, back) >= EACH for number in masters), 60)
            print(f"all are told again {time.monotonic() - back:.1f} s after it is back")
            appends.stop()
        cluster.wait_until_equal()
        assert appends.amiss() == Amiss()


@pytest.mark.alone
@pytest.mark.parametrize(
    ("link", "broken"),
    [
        pytest.param("dc1 dc2", [("dc1", "dc2"), ("dc2", "dc1")], id="of the home"),
        pytest.param("dc2 dc3", [("dc2", "dc3"), ("dc3", "dc2")], id="of two others", marks=pytest.mark.soak),
        pytest.param("dc1 dc2 --one-way", [("dc2", "dc1")], id="from the home"),
        pytest.param("dc2 dc1 --one-way", [("dc1", "dc2")], id="to the home", marks=pytest.mark.soak),
    ],
)
def test_a_broken_link_is_not_noticed_by_clients(
    cluster: Cluster, link: str, broken: list[tuple[str, str]]
) -> None:
    """Only who asked before the masters noticed it waits for that; each other link and way in the soak."""
    with appending(cluster) as appends:
        told_more(appends, 0.0)
        before = time.monotonic()
        one, other, *way = link.split()
        cluster.cut(one, other, one_way=bool(way))
        cut = time.monotonic()
        until(lambda: noticed(cluster, *broken), NOTICED_S + ROUND_S + SCHEDULING_S)
        found = time.monotonic()
        told_more(appends, found + ROUND_S)
        while_broken = appends.longest_s(found + ROUND_S)
        print(
            f"noticed {found - cut:.2f} s after the cut; the longest wait until then {appends.longest_s(before):.2f} s,"
            f" from a second later on {while_broken:.2f} s"
        )
        cluster.heal()
        healed = time.monotonic()
        until(lambda: noticed(cluster), 10)
        told_more(appends, time.monotonic())
        print(f"after the heal {appends.longest_s(healed):.2f} s")
        appends.stop()
    cluster.wait_until_equal()
    assert {cluster.status(number)["view"]["epoch"] for number in range(3)} == {1}
    assert not appends.other, "none failed"
    assert appends.amiss() == Amiss()
    assert appends.longest_s(before) < NOTICED_S + ROUND_S + SCHEDULING_S
    assert while_broken < ROUND_S + SCHEDULING_S
    assert appends.longest_s(healed) < ROUND_S + SCHEDULING_S


@pytest.mark.alone
def test_a_master_starts_again_behind_a_broken_link(cluster: Cluster) -> None:
    """It hears through the third what was said, given and decided meanwhile, payloads of many chunks too."""
    before = cluster.wait_until_equal()
    text = "INSERT DATA {{ {} <urn:is> '" + "x" * 3_000_000 + "' }}"
    cluster.cut("dc1", "dc2")
    until(lambda: noticed(cluster, ("dc1", "dc2"), ("dc2", "dc1")))
    assert cluster.update(text.format(name()), master=0).status_code == 204
    cluster.lab.kill("dc2-m1")
    written = [threading.Thread(target=cluster.update, args=(text.format(name()),)) for _ in range(3)]
    for write in written:
        write.start()
    time.sleep(1)
    cluster.lab.start("dc2-m1")
    for write in written:
        write.join()
    assert cluster.update(text.format(name()), master=1).status_code == 204
    index = cluster.wait_until_equal()
    assert index == before + 5
    cluster.heal()
    until(lambda: noticed(cluster))
    assert cluster.update(text.format(name()), master=1).status_code == 204
    assert cluster.wait_until_equal() == index + 1
