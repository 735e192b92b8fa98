"""Import and export of a whole repository: all workers begin with it, and again, whoever dies on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.seed.quads import Tally, quads_of
from quadlog.seed.sources import files_of
from tests.support.clusters.cluster import HTTP, Cluster, name, records, recount, until
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUADS = 60_000
LARGE = 200_000
"""So that it takes a moment to send."""
SILENT_S = 2
"""For which a command waits here for a worker that does not answer; else 15."""


def written(path: Path, quads: int, kind: str = "thing") -> Path:
    """Quads with all that a store writes in its own way, without blank nodes."""
    with path.open("w") as file:
        for n in range(quads):
            value = (
                f'"{n:04}"^^<http://www.w3.org/2001/XMLSchema#integer>',
                f'"text {n}"@en',
                f'"number {n}"',
            )[n % 3]
            file.write(f"<urn:{kind}:{n // 10}> <urn:p{n % 10}> {value} <urn:g{n % 50}> .\n")
        file.write("# empty graph <urn:nothing>\n")
    return path


def signature_of(file: Path) -> str:
    """What the store of it has to have."""
    tally = Tally()
    for _ in tally.through(quads_of(next(files_of([str(file)])), tally, keep_blank_nodes=True)):
        pass
    lines = [f"# empty graph {graph}" for graph in tally.empty]
    total = tally.total + sum(
        int.from_bytes(blake2b(x.encode(), digest_size=32).digest(), "big") for x in lines
    )
    return f"{total % 2**256:064x}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with BROKERS.lab(
        tmp_path_factory.mktemp("seed") / "lab",
        dcs=3,
        workers=2,
        environment={"QUADLOG_REBUILD_PAUSE": "0", "QUADLOG_SCRUB_PERIOD": "0"},
    ) as running:
        cluster = Cluster(running)
        cluster.wait_until_equal()
        until(lambda: all(len(cluster.status(number)["workers"]) == 2 for number in range(3)))
        yield cluster


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("source") / "all.nq", QUADS)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("large") / "all.nq", LARGE)


def states(cluster: Cluster) -> set[tuple[int, int, str]]:
    """What the workers say that they hold."""
    found = [HTTP.get(f"{url}/status", timeout=10).json() for url in cluster.workers.values()]
    return {(state["applied_index"], state["quads"], state["signature"]) for state in found}


IMPATIENT = f"from quadlog.cli import main; from quadlog.seed import ship; ship.SILENT_S = {SILENT_S}; main()"


def begun(file: Path, cluster: Cluster, master: int = 1) -> subprocess.Popen[str]:
    return started("-m", "quadlog", "import", str(file), "--into", cluster.masters[master])


def started(*command: str) -> subprocess.Popen[str]:
    """A command of Python."""
    return subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def parts(cluster: Cluster) -> list[Path]:
    """Seeds that come in at workers."""
    return list(cluster.lab.directory.glob("nodes/*/data/seeds/*.part"))


# --- a lab of its own comes first: the one for all others would idle beside it (a log that holds something:
# test_statements.py) ---


@pytest.mark.long("imports at two masters, and commands that compare")
def test_two_imports_at_once_a_control_another_home_and_the_commands_that_compare(tmp_path: Path) -> None:
    """One of the two is the log's beginning, and all goes on from it; neither went through a master that leads."""
    files = {kind: written(tmp_path / f"{kind}.nq", 3_000, kind) for kind in ("a", "b")}
    with BROKERS.lab(tmp_path / "lab", dcs=2, workers=1, masters=2) as running:
        cluster = Cluster(running)
        cluster.wait_until_equal()
        masters = list(range(len(cluster.masters)))
        until(lambda: all(len(cluster.status(number)["workers"]) == 1 for number in masters))
        both = [begun(file, cluster, master) for file, master in zip(files.values(), (1, 3), strict=True)]
        said = [one.communicate(timeout=90)[0] for one in both]
        codes = [one.returncode for one in both]
        assert sorted(codes) == [0, 1], said
        assert "NotEmpty" in said[codes.index(1)]
        kind = [*files][codes.index(0)]
        expected = signature_of(files[kind])
        assert states(cluster) == {(0, 3_000, expected)}
        until(lambda: all((cluster.status(number)["seed"] or {}).get("quads") == 3_000 for number in masters))
        assert [HTTP.get(f"{url}/status").json()["seeds"] for url in cluster.workers.values()] == [
            [expected]
        ] * 2

        verifying = [
            started("-m", "quadlog", "verify", worker, "--master", cluster.masters[0])
            for worker in cluster.workers.values()
        ]
        for one in verifying:
            told, _ = one.communicate(timeout=60)
            assert one.returncode == 0, told
        compared = quadlog("diff", cluster.workers["dc1-w1"], cluster.workers["dc2-w1"])
        assert compared.returncode == 0, compared.stdout + compared.stderr

        # A control on what came with the seed; it is index 1.
        control, subject = f"{cluster.masters[1]}/controls/bounded", f"<urn:{kind}:0>"
        text = f"ASK {{ FILTER NOT EXISTS {{ GRAPH ?g {{ {subject} <urn:forbidden> ?o }} }} }}"
        media_type = {"Content-Type": "application/sparql-query"}
        assert HTTP.put(control, content=text, headers=media_type).status_code == 204
        refused = cluster.update(f"INSERT DATA {{ GRAPH <urn:g1> {{ {subject} <urn:forbidden> 1 }} }}")
        assert refused.status_code == 409, refused.text
        assert cluster.update(f"INSERT DATA {{ {subject} <urn:p> 1 }}", master=2).status_code == 204

        # Its home dies; the other one evaluates.
        cluster.lab.kill("dc1-w1")
        assert cluster.update(f"INSERT DATA {{ {subject} <urn:p> 2 }}", master=3).status_code == 204
        cluster.lab.start("dc1-w1")
        cluster.wait_until_equal()
        assert {quads for _, quads, _ in states(cluster)} == {3_002}
        assert recount(cluster.workers["dc2-w1"])[0] == next(iter(states(cluster)))[2]


# --- one lab for all others ---


@pytest.mark.parametrize("victim", ["client", "dc2-m1", "dc1-m1"])
def test_whoever_dies_while_it_is_sent_leaves_the_empty_repository(
    lab: Cluster, large: Path, victim: str
) -> None:
    """What the first one built the others send."""
    to = ("--into", lab.masters[1], "--work", str(large.parent / "work"))
    importing = started("-c", IMPATIENT, "import", str(large), *to)
    until(lambda: importing.poll() is not None or bool(parts(lab)))
    if victim == "client":
        importing.kill()
    else:
        [pid] = [master["pid"] for master in lab.lab.masters if master["id"] == victim]
        os.kill(pid, signal.SIGKILL)
    said, _ = importing.communicate(timeout=60)
    assert importing.returncode != 0, said
    assert "Traceback" not in said
    if victim != "client":
        assert "nothing was changed" in said
        lab.lab.start(victim)
    until(lambda: not parts(lab))
    assert states(lab) == {(0, 0, f"{0:064x}")}
    until(lambda: all(HTTP.get(f"{master}/healthz/ready").status_code == 200 for master in lab.masters))


def test_import(lab: Cluster, source: Path) -> None:
    began = time.monotonic()
    done = quadlog("import", str(source), "--into", lab.masters[2])
    assert done.returncode == 0, done.stderr
    print(done.stdout, f"{time.monotonic() - began:.1f} s")
    expected = signature_of(source)
    assert expected in done.stdout
    assert states(lab) == {(0, QUADS, expected)}
    for number in range(3):
        assert lab.status(number)["seed"] == {"signature": expected, "quads": QUADS}
        assert {worker["state"] for worker in lab.status(number)["workers"]} == {"serving"}
        assert lab.status(number)["alarms"] == []
    assert recount(lab.workers["dc3-w2"])[0] == expected


def test_updates_go_on_from_it(lab: Cluster, source: Path) -> None:
    for master in range(3):
        answer = lab.update(f"INSERT DATA {{ {name()} <urn:is> {master} }}", master=master)
        assert answer.status_code == 204, answer.text
    gone = lab.update("DELETE WHERE { GRAPH <urn:g7> { <urn:thing:70> ?p ?o } }", master=1)
    assert gone.status_code == 204, gone.text
    assert lab.wait_until_equal() == 4
    [(index, quads, signature)] = states(lab)
    assert (index, quads) == (4, QUADS + 3 - 1)
    assert recount(lab.workers["dc2-w1"])[0] == signature != signature_of(source)


def test_another_import_is_refused(lab: Cluster, source: Path, tmp_path: Path) -> None:
    before = states(lab)
    for file in (source, written(tmp_path / "other.nq", 10)):
        done = quadlog("import", str(file), "--into", lab.masters[0])
        assert done.returncode == 1
        assert "NotEmpty: the log begins with a seed already" in done.stderr
        assert "nothing was changed" in done.stderr
    assert states(lab) == before


def test_workers_that_are_started_again(lab: Cluster) -> None:
    before, workers = states(lab), ["dc1-w1", "dc3-w2"]
    for worker in workers:
        lab.lab.kill(worker)
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(lab.lab.start, workers))
    lab.wait_until_equal()
    assert states(lab) == before


def test_workers_that_are_rebuilt_begin_with_the_seed_again(lab: Cluster) -> None:
    """Of their data centre's that keep the seed."""
    before, workers = states(lab), ["dc1-w2", "dc2-w1"]
    stores = {worker: HTTP.get(f"{lab.workers[worker]}/status").json()["store"] for worker in workers}
    for worker, store in stores.items():
        asked = {"store": store, "reason": "a test"}
        answer = HTTP.post(f"{lab.workers[worker]}/rebuild", json=asked)
        assert answer.status_code == 202, answer.text

    def are_new() -> bool:
        with suppress(Exception):
            said = {worker: HTTP.get(f"{lab.workers[worker]}/status").json() for worker in workers}
            return all(one["store"] != stores[w] and one["applied_index"] == 4 for w, one in said.items())
        return False

    until(are_new)
    assert states(lab) == before


def test_all_workers_of_a_data_centre_that_lost_their_directories(lab: Cluster) -> None:
    """The seed comes from another data centre, and then from each other."""
    before = states(lab)
    workers = ["dc3-w1", "dc3-w2"]
    for worker in workers:
        lab.lab.kill(worker)
        shutil.rmtree(lab.lab.directory / "nodes" / worker / "data")
    for worker in workers:
        lab.lab.start(worker)

    def is_as_before() -> bool:
        with suppress(httpx.HTTPError):  # who takes it up is away for a moment
            return states(lab) == before
        return False

    until(is_as_before)
    until(lambda: lab.status(2)["alarms"] == [])
    kept = [HTTP.get(f"{lab.workers[worker]}/status").json()["seeds"] for worker in workers]
    assert [len(one) for one in kept] == [1, 1]


def test_a_master_that_is_started_again_knows_the_seed(lab: Cluster) -> None:
    seed = lab.status(0)["seed"]
    for master in ("dc1-m1", "dc2-m1"):
        lab.lab.kill(master)
        lab.lab.start(master)
    assert [lab.status(number)["seed"] for number in range(3)] == [seed] * 3


def test_export_is_what_the_workers_hold(lab: Cluster, tmp_path: Path) -> None:
    target = tmp_path / "all.nq"
    done = quadlog("export", str(target), "--at", lab.masters[2])
    assert done.returncode == 0, done.stderr
    [(index, quads, signature)] = states(lab)
    said = " ".join(done.stderr.split())
    assert f"index {index}, chain" in said
    assert f"{quads} quads, signature {signature}" in said
    assert sorted(target.read_text().splitlines()) == sorted(recount(lab.workers["dc1-w1"])[1])
    assert "# empty graph <urn:nothing>" in target.read_text()
    assert signature_of(target) == signature, "whoever imports it begins with the same state"
    assert list(tmp_path.iterdir()) == [target]


def test_the_seed_stands_once_in_each_data_centre(lab: Cluster) -> None:
    for dc in lab.lab.dcs:
        keys = [record.key() for record in records(dc["kafka"], lab.lab.topic(dc["name"], "effects"))]
        assert keys.count(b"seed") == 1
