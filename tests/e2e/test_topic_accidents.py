"""What operators do to topics while clients write: nothing acknowledged is lost, and each is told what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from quadlog.broker import Admin, first_hole
from quadlog.kafka.ports import free_ports
from quadlog.topics import Topics
from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import AGAIN_S, ending, one_view, views
from tests.support.clusters.rebuilding import nodes_of, rebuild
from tests.support.clusters.retention import alarms, begin_to_start, insert
from tests.support.clusters.second_broker import Topic, leave, replicated
from tests.support.clusters.trouble import logged, printed
from tests.support.labs import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.soak

TOLD_S = 15.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_lab(tmp_path_factory.mktemp("accidents") / "lab", dcs=3, workers=2) as lab:
        yield Cluster(lab)


def pids(cluster: Cluster, *but: str) -> dict[str, int]:
    processes = [*cluster.lab.masters, *cluster.lab.workers]
    return {one["id"]: one["pid"] for one in processes if not one["id"].startswith(but or ("none",))}


def told(cluster: Cluster, setting: str, master: int) -> list[dict[str, Any]]:
    return [one for one in cluster.status(master)["alarms"] if one["setting"] == setting]


def test_min_insync_replicas_above_what_is_alive(lab: Cluster) -> None:
    """One of two replicas is gone: writes wait, nobody ends, and set back all goes on."""
    before = pids(lab)
    topic, nodes = Topic(lab, 1, "payloads"), lab.lab.directory / "nodes"
    with (
        replicated(topic, lab.lab.directory / "second", nodes / "broker-dc2") as broker,
        appending(lab) as appends,
    ):
        until(lambda: all(appends.told(number, 0) >= 5 for number in range(3)))
        topic.configure("min.insync.replicas", "2")
        leave(broker, topic)
        began = time.monotonic()
        [alarm] = until(lambda: told(lab, "min.insync.replicas", 1), TOLD_S)
        print(f"told after {time.monotonic() - began:.1f} s: {alarm['reason']}: {alarm['what_to_do']}")
        time.sleep(5)
        topic.configure("min.insync.replicas", "1")
        began = time.monotonic()
        until(lambda: all(appends.told(number, began) >= 5 for number in range(3)))
        print(f"goes on after {time.monotonic() - began:.1f} s")
        end = ending(lab, appends, began)
    assert end.amiss == Amiss()
    assert pids(lab) == before, "nobody ended"


def test_max_message_bytes_below_a_record(lab: Cluster) -> None:
    """The master of that data centre ends, and says which topic and which value; set back, all is there."""
    before = pids(lab, "dc2-m1")
    topic = Topic(lab, 1, "payloads")
    topic.configure("max.message.bytes", "20000")
    until(lambda: told(lab, "max.message.bytes", 1), TOLD_S)
    large = "x" * 100_000
    answer = lab.update(f'INSERT DATA {{ <urn:large> <urn:is> "{large}" }}', master=1)
    print(answer.status_code, answer.text[:300])
    until(lambda: lab.lab.states()["dc2-m1"] != "running" or answer.status_code == 503)
    assert printed(lab, "max.message.bytes is 20000", "dc2-m1")
    topic.configure("max.message.bytes", "1048588")
    if lab.lab.states()["dc2-m1"] != "running":
        lab.lab.start("dc2-m1")
    insert(lab, 3, master=1)
    lab.wait_until_equal()
    assert pids(lab, "dc2-m1") == before


def test_partitions_are_added(lab: Cluster) -> None:
    for what in ("payloads", "rounds", "agreed", "effects"):
        topic = Topic(lab, 0, what)
        client: Any = topic.client
        for future in client.create_partitions([NewPartitions(topic.name, 3)]).values():
            future.result(timeout=20)
    with appending(lab) as appends:
        until(lambda: len(told(lab, "partitions", 0)) == 4, TOLD_S)
        for node in ("dc1-m1", "dc1-w1"):
            lab.lab.kill(node)
            lab.lab.start(node)
        began = time.monotonic()
        until(lambda: all(appends.told(number, began) >= 5 for number in range(3)))
        end = ending(lab, appends, began)
    assert end.amiss == Amiss()


def test_another_cluster_with_the_same_repository_on_one_broker(lab: Cluster, tmp_path: Path) -> None:
    """It is refused, and the one that is there notices nothing."""
    before = pids(lab)
    [port] = free_ports(1)
    for node in ("other-m1", "dc1-m1"):
        settings = {
            "node-id": node,
            "dc": "dc1",
            "repository": "main",
            "data-dir": str(tmp_path / node),
            "port": port,
            "kafka": lab.lab.dcs[0]["kafka"],
            "master-url": f"http://127.0.0.1:{port}",
        }
        config = tmp_path / f"{node}.toml"
        config.write_text("\n".join(f"{key} = {value!r}" for key, value in settings.items()))
        done = subprocess.run(
            [sys.executable, "-m", "quadlog", "master", "--config", str(config)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=dict(os.environ),
        )
        print(done.returncode, done.stderr[-500:])
        assert done.returncode == 1
        assert "main.dc1.rounds" in done.stderr + done.stdout
        assert "'repository'" in done.stderr + done.stdout
    insert(lab, 3)
    lab.wait_until_equal()
    assert pids(lab) == before


def test_a_compacted_log_is_not_applied(lab: Cluster) -> None:
    """Chunks of large entries have one key: all but the last go.  A worker that meets the hole copies its mate."""
    topic = Topic(lab, 2, "agreed")
    large = "x" * 3_000_000
    for number in range(4):
        assert lab.update(f'INSERT DATA {{ <urn:l{number}> <urn:is> "{large}" }}').status_code == 204
    for name, value in (
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("segment.ms", "1000"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("max.compaction.lag.ms", "1000"),
    ):
        topic.configure(name, value)
    until(lambda: told(lab, "cleanup.policy", 2), TOLD_S)

    def is_holed() -> bool:
        insert(lab, 2)
        time.sleep(1)
        return first_hole(topic.kafka, topic.name) is not None

    until(is_holed, 120)
    lab.lab.kill("dc3-w1")
    lab.lab.kill("dc3-w2")
    data = lab.lab.directory / "nodes" / "dc3-w1" / "data"
    data.rename(data.with_name("away"))
    begin_to_start(lab, "dc3-w1")
    until(lambda: logged(lab, "log_has_a_hole", "dc3-w1"))
    until(lambda: logged(lab, "full_replication_failed", "dc3-w1"))
    until(
        lambda: "has no records at offsets" in lab.update("INSERT DATA { <urn:a> <urn:b> 1 }", master=2).text
    )
    lab.lab.start("dc3-w2")
    lab.wait_until_equal()
    assert logged(lab, "copy_taken", "dc3-w1")
    topic.configure("cleanup.policy", "delete")


def test_topics_are_deleted_and_created_anew_under_load(lab: Cluster) -> None:
    """By a tool, with its own settings: that data centre stops, the others do not, and it is rebuilt."""
    before, own = pids(lab, "dc2"), Topics("main", "dc2")
    kafka = lab.lab.dcs[1]["kafka"]
    with appending(lab) as appends:
        until(lambda: all(appends.told(number, 0) >= 5 for number in range(3)))
        Admin(kafka).delete(own.followed)
        client: Any = AdminClient({"bootstrap.servers": kafka})
        for future in client.create_topics([NewTopic(topic, 1, 1) for topic in own.followed]).values():
            future.result(timeout=20)
        until(lambda: all(lab.lab.states()[node] != "running" for node in nodes_of(lab.lab, "dc2")))
        assert printed(lab, "run `quadlog dc rebuild", "dc2-m1")
        until(lambda: rebuild(lab.lab, "dc2", "--yes")[0] == 0, 30)
        for node in reversed(nodes_of(lab.lab, "dc2")):
            lab.lab.start(node)
        began = time.monotonic()
        until(lambda: views(lab)[0][0] > 1 and one_view(lab, members=3), AGAIN_S)
        end = ending(lab, appends, began)
    assert end.amiss == Amiss()
    assert pids(lab, "dc2") == before
    assert not alarms(lab, "log-records-deleted")
