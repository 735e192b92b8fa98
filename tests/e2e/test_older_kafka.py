"""The Kafka of one data centre comes back as an older copy: only that data centre is affected."""

from __future__ import annotations

import shutil
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from quadlog.errors import SetupError
from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import ending, one_view
from tests.support.clusters.rebuilding import nodes_of, rebuild
from tests.support.clusters.trouble import logged, printed
from tests.support.labs import RunningLab, running_lab

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters.appends import Appends

pytestmark = pytest.mark.soak

BACK_S = 120.0
"""Within which all is one again."""
GROWN = 3_000
"""Records that are written to each topic before anybody looks: more than it lost."""


def copy_of(lab: RunningLab, node: str, to: Path) -> None:
    shutil.copytree(lab.directory / "nodes" / node / "data", to / node)


def put_back(lab: RunningLab, node: str, of: Path) -> None:
    data = lab.directory / "nodes" / node / "data"
    shutil.rmtree(data)
    shutil.copytree(of / node, data)


def grow(lab: RunningLab) -> None:
    """Other records than those that were lost."""
    producer = Producer({"bootstrap.servers": lab.dcs[0]["kafka"]})
    for topic in ("payloads", "rounds", "agreed", "effects"):
        for number in range(GROWN):
            producer.produce(f"main.dc1.{topic}", value=f"{number} of another history".encode(), partition=0)
        producer.flush(30)


def works(appends: Appends, *masters: int) -> None:
    began = time.monotonic()
    until(lambda: all(appends.told(number, began) >= 10 for number in masters), BACK_S)


def back_alarms(cluster: Cluster, master: int) -> list[dict[str, Any]]:
    return [one for one in cluster.status(master)["alarms"] if one["name"] == "peer-topic-went-back"]


def go_back(lab: RunningLab, directories: str, copies: Path, *, is_grown: bool) -> None:
    if is_grown:
        lab.links("cut", "dc1", "dc2")
        lab.links("cut", "dc1", "dc3")
    nodes = nodes_of(lab, "dc1")
    if directories != "kept":
        for node in nodes:
            lab.kill(node)
    lab.kill("broker-dc1")
    put_back(lab, "broker-dc1", copies)
    for node in nodes:
        if directories == "old":
            put_back(lab, node, copies)
        elif directories == "empty":
            shutil.rmtree(lab.directory / "nodes" / node / "data")
    lab.start("broker-dc1")
    if is_grown:
        grow(lab)
        lab.links("heal")


def come_back(cluster: Cluster, directories: str) -> None:
    """What an operator does in that data centre, as the errors there tell."""
    lab = cluster.lab
    nodes = nodes_of(lab, "dc1")
    if directories == "kept":
        until(lambda: all(lab.states()[node] == "exited(1)" for node in nodes), BACK_S)
        for node in nodes:
            # A master may hear of it from a peer before it has read its own topics.
            assert any(printed(cluster, text, node) for text in ("quadlog dc rebuild", "rebuilt first")), node
        with pytest.raises(SetupError, match="TopicLost: "):  # the last lines of its log, their ends cut
            lab.start("dc1-m1")
        code, said = rebuild(lab, "dc1", "--yes")
        assert (code, "main.dc1.payloads: kept as it is" in said) == (0, True)
    for node in reversed(nodes):
        with suppress(SetupError) if directories == "old" else nullcontext():  # it may end before it is ready
            lab.start(node)
    if directories == "old":
        until(lambda: lab.states()["dc1-m1"] == "exited(1)", BACK_S)
        told = ("begins as one that lost its disk", "comes back as one without its disk")
        assert any(printed(cluster, text, "dc1-m1") for text in told)
        lab.start("dc1-m1")


@pytest.mark.parametrize("is_grown", [False, True], ids=["shorter", "grown"])
@pytest.mark.parametrize("directories", ["kept", "empty", "old"])
def test_an_older_copy(tmp_path: Path, directories: str, is_grown: bool) -> None:  # noqa: FBT001
    copies = tmp_path / "copies"
    with running_lab(tmp_path / "lab", dcs=3, workers=1) as lab:
        cluster = Cluster(lab)
        with appending(cluster) as appends:
            works(appends, 0, 1, 2)
            nodes = ["broker-dc1", *nodes_of(lab, "dc1")]
            for node in nodes:
                lab.kill(node)
                copy_of(lab, node, copies)
            for node in (nodes[0], *reversed(nodes[1:])):
                lab.start(node)
            works(appends, 0, 1, 2)
            time.sleep(5)
            go_back(lab, directories, copies, is_grown=is_grown)
            began = time.monotonic()
            until(lambda: all(back_alarms(cluster, master) for master in (1, 2)), BACK_S)
            print(f"told {time.monotonic() - began:.1f} s after the broker was back")
            [alarm] = back_alarms(cluster, 1)
            assert "main.dc1.rounds went back: it was read up to offset" in alarm["reason"]
            works(appends, 1, 2)
            print(f"writes go on {time.monotonic() - began:.1f} s after the broker was back")
            come_back(cluster, directories)
            began = time.monotonic()
            until(lambda: one_view(cluster, members=3), BACK_S)
            end = ending(cluster, appends, time.monotonic())
            print(f"all is one {time.monotonic() - began:.1f} s after the last start")
            until(lambda: not any(back_alarms(cluster, master) for master in (1, 2)), BACK_S)
        assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
        assert end.amiss == Amiss()
        for node in ("dc2-m1", "dc3-m1", "dc2-w1", "dc3-w1"):
            assert lab.states()[node] == "running"
            assert not logged(cluster, "process_failed", node)
