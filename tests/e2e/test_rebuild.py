"""The whole Kafka of a data centre is lost; `quadlog dc rebuild` makes its topics anew out of a peer's."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.errors import SetupError
from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import Cluster, counted, until
from tests.support.clusters.ending import AGAIN_S, ending, in_turn, one_view, views
from tests.support.clusters.rebuilding import nodes_of, rebuild
from tests.support.clusters.trouble import printed
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import RunningLab


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with BROKERS.lab(tmp_path_factory.mktemp("rebuild") / "lab", dcs=3, workers=1) as running:
        yield running


@pytest.fixture
def cluster(running: RunningLab) -> Iterator[Cluster]:
    """Three data centres that are one, also those that were rebuilt before."""
    with in_turn(running) as cluster:
        yield cluster


GONE_S = 20.0
"""Within which a worker believes that its topics are not there any more."""


def lose_kafka(lab: RunningLab, dc: str) -> None:
    """End all nodes of a data centre and its broker; the broker comes back without anything that it had."""
    lab.kill(f"broker-{dc}")
    for node in nodes_of(lab, dc):
        lab.kill(node)
    shutil.rmtree(lab.node(f"broker-{dc}") / "data")
    lab.start(f"broker-{dc}")


def start_at_once(lab: RunningLab, dc: str) -> None:
    """A master is not ready without a worker."""
    nodes = nodes_of(lab, dc)
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lab.start, nodes))


# --- labs of their own come first: one for all others would idle beside them ---


@pytest.mark.soak
def test_two_masters_of_one_of_two_data_centres(tmp_path: Path) -> None:
    """One command for both; a peer that was down meanwhile hears of it, too.

    What waits is agreed by the data centre that is left: with Quorum it may wait for good (docs/operating.md).
    """
    with BROKERS.lab(tmp_path / "lab", dcs=2, masters=2, workers=1, settings=["split-recovery=Smart"]) as lab:
        cluster = Cluster(lab)
        with appending(cluster) as appends:
            lose_kafka(lab, "dc1")
            lab.kill("dc2-m2")
            assert rebuild(lab, "dc1", "--yes")[0] == 0
            lab.start("dc2-m2")
            start_at_once(lab, "dc1")
            began = time.monotonic()
            until(lambda: views(cluster)[0][0] > 1 and one_view(cluster, members=4), AGAIN_S)
            end = ending(cluster, appends, began)
        assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
        assert end.seconds < AGAIN_S
        assert end.amiss == Amiss()


@pytest.mark.long("a lab of two data centres of its own")
def test_what_waited_is_taken_back_from_the_copy_of_the_other_data_centre(tmp_path: Path) -> None:
    """Its payload is nowhere else, and the other one, which is no majority, agrees on nothing alone."""
    with BROKERS.lab(tmp_path / "lab", dcs=2, masters=2, workers=1) as lab:
        cluster = Cluster(lab)
        until(lambda: one_view(cluster, members=4))
        assert cluster.update("INSERT DATA { <urn:rebuild> <urn:is> 0 }").status_code == 204
        lab.kill("dc1-m2", "STOP")
        text, key = "INSERT DATA { <urn:rebuild> <urn:is> 1 }", "waits"
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(lambda: cluster.update(text, Idempotency_Key=key))
            until(lambda: all(cluster.status(number)["incoming"] == 1 for number in (0, 2, 3)))
            lose_kafka(lab, "dc1")
            with pytest.raises(httpx.HTTPError):
                waits.result()
        assert rebuild(lab, "dc1", "--yes")[0] == 0
        start_at_once(lab, "dc1")
        until(lambda: views(cluster)[0][0] > 1 and one_view(cluster, members=4), AGAIN_S)
        again = cluster.update(text, Idempotency_Key=key)
        assert again.status_code == 204, again.text
        cluster.wait_until_equal()
        for url in cluster.workers.values():
            assert counted(url, "<urn:rebuild> <urn:is> ?o") == 2


# --- one lab for all others ---


@pytest.mark.long("a worker takes 10 s to believe that its topics are gone")
@pytest.mark.parametrize(
    ("dc", "keeps_disk"),
    [
        pytest.param("dc3", True, id="another, its master kept its disk", marks=pytest.mark.soak),
        pytest.param("dc1", False, id="the one that evaluates, and its master's disk"),
        pytest.param("dc3", False, id="another, and its master's disk", marks=pytest.mark.soak),
        pytest.param(
            "dc1", True, id="the one that evaluates, its master kept its disk", marks=pytest.mark.soak
        ),
    ],
)
def test_a_data_centre_that_lost_its_kafka(cluster: Cluster, dc: str, keeps_disk: bool) -> None:  # noqa: FBT001
    """Nobody there starts until it is rebuilt; then all is one again, without a word to anybody elsewhere."""
    lab, master, worker = cluster.lab, f"{dc}-m1", f"{dc}-w1"
    [(epoch, _)] = set(views(cluster))
    gone = printed(cluster, "is gone. Have that Kafka back", worker)
    with appending(cluster) as appends:
        began = time.monotonic()
        until(lambda: all(appends.told(number, began) >= 3 for number in range(3)))
        lose_kafka(lab, dc)
        with pytest.raises(SetupError, match=r"TopicLost.*quadlog dc rebuild"):
            lab.start(master)
        lab.start(worker)
        until(lambda: lab.states()[worker] == "exited(1)", GONE_S)
        assert printed(cluster, "is gone. Have that Kafka back", worker) > gone
        if not keeps_disk:
            shutil.rmtree(lab.directory / "nodes" / master / "data" / "rocksdb")
        code, said = rebuild(lab, dc)
        assert code == 1
        assert "Say --yes if that is meant" in said
        assert rebuild(lab, dc, "--yes")[0] == 0
        rebuilt = time.monotonic()
        start_at_once(lab, dc)
        began = time.monotonic()
        print(f"started {began - rebuilt:.1f} s after the rebuild")
        until(lambda: views(cluster)[0][0] > epoch and one_view(cluster, members=3), AGAIN_S)
        end = ending(cluster, appends, began)
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()
    code, said = rebuild(lab, dc, "--yes")
    assert code == 1
    assert f"master {master} is there" in said
