"""Two data centres and a muted one: it has all that they agree on, takes nothing, and holds nobody up."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import SetupError
from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, index_of, name, until
from tests.support.clusters.trouble import logged
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import Shape

LAG_S = 3.0
"""`max-peer-lag` here."""
QUADS = 2_000

SOON_S = 5.0
"""An update at a read-write master is acknowledged by then, whatever became of the muted one."""
SHAPE: Shape = {
    "dcs": 3,
    "workers": 1,
    "muted": 1,
    "environment": {"QUADLOG_MAX_PEER_LAG": str(LAG_S), "QUADLOG_SPLIT_RECOVERY": "Smart"},
}
"""dc1 and dc2 agree, and dc3 follows dc1."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The first test finds nothing in its log; each leaves it as it was, the last one without the worker of dc3."""
    with BROKERS.lab(tmp_path_factory.mktemp("muted") / "lab", **SHAPE) as lab:
        yield Cluster(lab)


def write(cluster: Cluster) -> int:
    """At both, soon; the last index."""
    began, indexes = time.monotonic(), list[int]()
    for master in (0, 1):
        answer = cluster.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", master=master)
        assert answer.status_code == 204
        indexes.append(index_of(answer))
    assert time.monotonic() - began < 2 * SOON_S
    return max(indexes)


def is_there(cluster: Cluster, index: int) -> bool:
    """Its worker has applied up to an index, and is equal to the others there."""
    workers = {w["id"]: w for number in range(3) for w in cluster.status(number)["workers"]}
    found = {(w["applied_index"], w["signature"]) for w in workers.values()}
    return len(workers) == 3 and len(found) == 1 and found.pop()[0] >= index


@pytest.mark.long("an import, a lost Kafka, a rebuild")
def test_it_has_the_seed_and_is_rebuilt(lab: Cluster, tmp_path: Path) -> None:
    """Its worker is brought what the log begins with; its lost Kafka, or another source, is another beginning."""
    file = tmp_path / "seed.nq"
    file.write_text("".join(f'<urn:seed:{n}> <urn:p> "{n}" .\n' for n in range(QUADS)))
    until(lambda: all(len(lab.status(number)["view"]["members"]) == 2 for number in (0, 1)))
    done = quadlog("import", str(file), "--into", lab.masters[0])
    assert done.returncode == 0, done.stdout + done.stderr
    until(partial(is_there, lab, 0))
    assert {w["quads"] for number in range(3) for w in lab.status(number)["workers"]} == {QUADS}
    index = write(lab)
    until(partial(is_there, lab, index))

    running, nodes = lab.lab, lab.lab.directory / "nodes"
    for one in ("broker-dc3", "dc3-m1", "dc3-w1"):
        running.kill(one)
    shutil.rmtree(running.node("broker-dc3") / "data")
    running.start("broker-dc3")
    settings = nodes / "dc3-m1" / "master.toml"
    of_the_lab = settings.read_text()
    with pytest.raises(SetupError, match=r"TopicLost.*quadlog dc rebuild"):
        running.start("dc3-m1")
    refused = quadlog("dc", "rebuild", "--config", str(settings))
    assert (refused.returncode, "Say --yes" in refused.stderr) == (1, True)
    settings.write_text('follow = "dc2"\n' + of_the_lab)
    assert quadlog("dc", "rebuild", "--config", str(settings), "--yes").returncode == 0
    _begin_again(lab, write(lab))
    assert lab.status(2)["follows"]["dc"] == "dc2"

    for one in ("dc3-w1", "dc3-m1"):
        running.kill(one)
    settings.write_text(of_the_lab)
    with pytest.raises(SetupError, match="copied from dc2, and follow is dc1"):
        running.start("dc3-m1")
    shutil.rmtree(nodes / "dc3-w1" / "data")
    until(
        lambda: quadlog("dc", "rebuild", "--config", str(settings), "--yes").returncode == 0
    )  # it was heard lately
    _begin_again(lab, write(lab))
    assert lab.status(2)["follows"]["dc"] == "dc1"


def _begin_again(cluster: Cluster, index: int) -> None:
    cluster.lab.start("dc3-w1")  # a master without any worker is not ready
    cluster.lab.start("dc3-m1")
    until(partial(is_there, cluster, index))


def test_it_goes_back_with_whom_it_follows(lab: Cluster) -> None:
    """dc1 gives way to dc2 after a split, and what it had acknowledged alone stands in the one log once."""
    write(lab)
    lab.cut("dc1", "dc2")
    until(lambda: all(len(lab.status(number)["view"]["members"]) == 1 for number in (0, 1)), 2 * LAG_S + 5)
    lone = [name() for _ in range(5)]
    for one in lone:
        assert lab.update(f"INSERT DATA {{ {one} <urn:lone> 1 }}", master=0).status_code == 204
    assert lab.update(f"INSERT DATA {{ {name()} <urn:is> 2 }}", master=1).status_code == 204
    [alone] = {worker["applied_chain"] for worker in lab.status(0)["workers"]}
    until(lambda: lab.status(2)["workers"][0]["applied_chain"] == alone)
    lab.heal()
    healed = time.monotonic()
    until(lambda: len(lab.status(0)["view"]["members"]) == 2, 40)
    # Until its worker has gone back, a master that gave way refuses writes (503).
    until(lambda: lab.update(f"INSERT DATA {{ {name()} <urn:is> 3 }}", master=0).status_code == 204)
    index = write(lab)
    until(partial(is_there, lab, index))
    print(f"equal {time.monotonic() - healed:.1f} s after the heal")
    [worker] = lab.status(2)["workers"]
    found = HTTP.get(
        f"{lab.masters[2]}/sparql",
        params={"query": "SELECT ?s { ?s <urn:lone> 1 }"},
        headers={"Accept": "text/csv"},
    )
    assert sorted(found.text.split()[1:]) == sorted(one.strip("<>") for one in lone)
    assert logged(lab, "rewind_started", "dc3-w1") + logged(lab, "log_cut", "dc3-w1") >= 1
    assert worker["applied_chain"] != alone


def test_a_muted_data_centre_follows_refuses_and_holds_nobody_up(lab: Cluster) -> None:
    running, url = lab.lab, lab.masters[2]
    until(lambda: len(lab.status(0)["view"]["members"]) == 2)
    index = write(lab)
    until(lambda: is_there(lab, index))
    status = lab.status(2)
    assert (status["role"], status["follows"]["dc"]) == ("muted", "dc1")
    assert lab.status(0)["view"]["members"] == ["dc1-m1", "dc2-m1"]
    for answer in (
        lab.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", master=2),
        HTTP.post(f"{url}/repositories/{lab.lab.repository}/statements", content=b"", headers=UPDATE),
        HTTP.get(f"{url}/tx/any"),
        HTTP.get(f"{url}/sparql", params={"query": "ASK { }"}, headers={"Quadlog-Consistency": "strict"}),
    ):
        assert (answer.status_code, answer.json()["error"], answer.json()["definite"]) == (
            503,
            "ReadOnly",
            True,
        )
    asked = HTTP.get(
        f"{url}/sparql", params={"query": "ASK { ?s <urn:is> 1 }"}, headers={"Quadlog-Min-Index": str(index)}
    )
    assert (asked.status_code, "true" in asked.text) == (200, True)
    for one in ("dc3-m1", "broker-dc3"):
        running.kill(one)
        index = write(lab)
        running.start(one)
        back = time.monotonic()
        until(partial(is_there, lab, index))
        print(f"{one} was killed: equal {time.monotonic() - back:.1f} s after it was started")
    assert HTTP.delete(f"{url}/cluster/workers/dc3-w1").status_code == 409, "it serves"
    running.kill("dc3-w1")
    until(lambda: HTTP.delete(f"{url}/cluster/workers/dc3-w1").status_code == 204)
    assert lab.status(2)["workers"] == []
