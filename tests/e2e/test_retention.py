"""Night 4: retention or compaction set by mistake on the topics of a data centre."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from quadlog.broker import Admin, end_of
from quadlog.topics import Topics
from tests.support.clusters.cluster import TOPICS, Cluster, ask, name, objects, until
from tests.support.clusters.rebuilding import nodes_of, rebuild
from tests.support.clusters.retention import alarms, begin_to_start, insert
from tests.support.clusters.second_broker import Topic
from tests.support.clusters.trouble import logged
from tests.support.labs import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.soak

TOLD_S = 15.0
OWN = Topics("main", "dc1")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_lab(tmp_path_factory.mktemp("retention") / "lab", dcs=3, workers=2) as lab:
        yield Cluster(lab)


def empty(cluster: Cluster, *topics: str) -> None:
    """What retention does to a topic that nobody writes to for a while."""
    kafka = cluster.lab.dcs[0]["kafka"]
    Admin(kafka).delete_before({topic: end_of(kafka, topic, count=0)[0] for topic in topics})


def test_retention_by_mistake(lab: Cluster) -> None:
    """Told at once; what it took is copied from a mate; and with no mate the data centre is rebuilt from a peer."""
    subjects = insert(lab, 20)
    began = time.monotonic()
    for topic in TOPICS:
        Topic(lab, 0, topic).configure("retention.ms", "1000")
    until(lambda: len(alarms(lab, "topic-misconfigured")) == 5, TOLD_S)
    print(f"told after {time.monotonic() - began:.1f} s")
    [alarm] = [one for one in alarms(lab, "topic-misconfigured") if one["topic"] == OWN.agreed]
    assert (alarm["setting"], alarm["value"]) == ("retention.ms", "1000")
    assert alarm["what_to_do"].endswith(f"--entity-name {OWN.agreed} --add-config retention.ms=-1")
    assert logged(lab, "alarm_raised", "dc1-m1", setting="retention.ms", value="1000")
    empty(lab, *OWN.followed)
    until(lambda: alarms(lab, "log-records-deleted"), TOLD_S)
    for topic in TOPICS:
        Topic(lab, 0, topic).configure("retention.ms", "3600000" if topic == "status" else "-1")
    until(lambda: not alarms(lab, "topic-misconfigured"), TOLD_S)
    subjects += insert(lab, 5)
    for node in ("dc1-m1", "dc1-w1"):  # with what they have they go on
        lab.lab.kill(node)
        lab.lab.start(node)
    subjects += insert(lab, 5)
    data = lab.lab.directory / "nodes"
    lab.lab.kill("dc1-w1")
    shutil.rmtree(data / "dc1-w1" / "data")
    lab.lab.start("dc1-w1")
    lab.wait_until_equal()
    assert logged(lab, "copy_taken", "dc1-w1")
    for worker in ("dc1-w1", "dc1-w2"):
        lab.lab.kill(worker)
        shutil.rmtree(data / worker / "data")
    begin_to_start(lab, "dc1-w1", "dc1-w2")
    refused = until(
        lambda: [a for a in [lab.update("INSERT DATA { <urn:a> <urn:b> 1 }")] if OWN.agreed in a.text]
    )[0]
    print(refused.text)
    assert refused.status_code == 503
    for said in (
        f"{OWN.agreed} begins at offset",
        "needs it from offset 0 on",
        "quadlog dc rebuild",
        "quadlog backup",
    ):
        assert said in refused.text
    read = ask(lab.masters[0], "SELECT * { ?s ?p ?o }")
    assert (read.status_code, "quadlog dc rebuild" in read.text) == (503, True)
    for node in nodes_of(lab.lab, "dc1"):
        lab.lab.kill(node)
    until(lambda: rebuild(lab.lab, "dc1", "--yes")[0] == 0, 30)
    for node in reversed(nodes_of(lab.lab, "dc1")):
        lab.lab.start(node)
    until(lambda: lab.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}").status_code == 204)
    lab.wait_until_equal()
    for subject in subjects:
        assert objects(lab.masters[0], subject) == ["there"]


def test_a_peer_that_lacks_what_was_deleted_goes_on(lab: Cluster) -> None:
    """Payloads and posts of dc1 that dc2 has not read are deleted while dc2 is cut off: dc2 does not end."""
    lab.wait_until_equal()
    pids = {master["id"]: master["pid"] for master in lab.lab.masters}
    lab.lab.links("cut", "dc1", "dc2")
    time.sleep(4)
    subjects = insert(lab, 20)
    empty(lab, OWN.payloads, OWN.rounds)
    lab.lab.links("heal")
    subjects += insert(lab, 5, master=1)
    lab.wait_until_equal()
    assert pids == {master["id"]: master["pid"] for master in lab.lab.masters}
    until(lambda: logged(lab, "records_deleted", "dc2-m1", topic=OWN.payloads))
    for subject in subjects:
        assert objects(lab.masters[1], subject) == ["there"]
