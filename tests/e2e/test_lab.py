"""The lab: what it starts, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from quadlog.kafka.broker_process import is_serving
from tests.support.labs import BOUND, STAND_IN, RunningLab, Shape, quadlog, running_lab, start_lab
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Run a small lab of stand-ins, shared by tests that leave it as they found it."""
    directory = tmp_path_factory.mktemp("lab") / "d"
    with running_lab(directory, dcs=2, workers=1, node_command=STAND_IN) as running:
        yield running


def fails(lab: RunningLab) -> str:
    """Wait for a lab that must not start; return what it said."""
    assert lab.popen.wait(60) == 1
    said = lab.output.read_text()
    assert "Traceback" not in said
    assert not lab.ready.exists()
    return said


def wait_for(condition: str, lab: RunningLab) -> None:
    """Wait until `lab status` shows a piece of text."""
    deadline = time.monotonic() + BOUND
    while condition not in lab.status():
        assert time.monotonic() < deadline, f"no {condition} in {lab.status()}"
        time.sleep(0.1)


# What it starts.


def test_everything_in_the_ready_file_serves(lab: RunningLab) -> None:
    assert lab.data["repository"] == "main"
    assert [dc["name"] for dc in lab.dcs] == ["dc1", "dc2"]
    for dc in lab.dcs:
        assert is_serving(dc["kafka"])
        assert dc["broker_pid"] in lab.pids()
    for node in lab.masters + lab.workers:
        assert node["pid"] in lab.pids()
        assert httpx.get(node["url"] + "/status").status_code == HTTPStatus.OK
    assert [node["id"] for node in lab.masters + lab.workers] == ["dc1-m1", "dc2-m1", "dc1-w1", "dc2-w1"]


def test_a_shared_broker_serves_every_dc(tmp_path: Path) -> None:
    with running_lab(tmp_path / "d", dcs=2, workers=1, shared_broker=True, node_command=STAND_IN) as lab:
        assert len({dc["kafka"] for dc in lab.dcs}) == 1
        assert len({dc["broker_pid"] for dc in lab.dcs}) == 1
        assert lab.data["links"] is None
        failed = quadlog("lab", "cut", "dc1", "dc2", "--dir", str(lab.directory))
    assert failed.returncode == 1
    assert "no links between its data centres: they share one broker" in failed.stderr


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of a lab that does not run any more; `first-run.json` beside it: what its READY file said."""
    directory = tmp_path_factory.mktemp("stopped") / "d"
    with running_lab(directory, dcs=1, workers=1, node_command=STAND_IN) as lab:
        directory.with_name("first-run.json").write_text(json.dumps(lab.data))
    return directory


def ids_and_ports(data: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """Of a READY file."""
    [dc] = data["dcs"]
    return dc["kafka"], [(node["id"], node["url"]) for node in (*dc["masters"], *dc["workers"])]


def test_a_directory_is_continued_with_the_same_ids_and_ports(stopped: Path) -> None:
    identity = json.loads((stopped / "lab.json").read_text())["lab_id"]
    cluster = (stopped / "nodes" / "broker-dc1" / "cluster-id").read_text()
    with running_lab(stopped, node_command=STAND_IN) as lab:
        before = json.loads(stopped.with_name("first-run.json").read_text())
        assert ids_and_ports(lab.data) == ids_and_ports(before)
        assert lab.lab_id == identity
    assert (stopped / "nodes" / "broker-dc1" / "cluster-id").read_text() == cluster


@pytest.fixture(scope="module")
def brokers() -> Iterator[RunningLab]:
    """Those of the run: a lab of brokers, and nothing else."""
    with BROKERS.taken() as running:
        assert [*running.states()] == [f"broker-dc{number}" for number in range(1, BROKERS.DCS + 1)]
        yield running


def test_a_lab_uses_the_brokers_of_another_one_and_leaves_them(brokers: RunningLab, tmp_path: Path) -> None:
    """Its masters and workers are its own, and so are its links: through these its data centres reach the brokers."""
    shape = Shape(dcs=2, workers=1, node_command=STAND_IN, brokers=brokers.ready, repository="of-this-test")
    with running_lab(tmp_path / "d", **shape) as lab:
        assert list(lab.states()) == ["links", "dc1-m1", "dc2-m1", "dc1-w1", "dc2-w1"]
        assert (lab.data["repository"], lab.dcs[0]["broker_pid"]) == ("of-this-test", None)
        assert [dc["kafka"] for dc in lab.dcs] == [dc["kafka"] for dc in brokers.dcs[:2]]
        settings = tomllib.loads((lab.directory / "nodes/dc1-m1/master.toml").read_text())
        assert settings["repository"] == "of-this-test"
        other = settings["peer"]["1"]["kafka"]
        assert other != lab.dcs[1]["kafka"], "a door of the links"
        assert is_serving(other)
        lab.links("cut", "dc1", "dc2")
        assert not is_serving(other)
        said = fails(start_lab(tmp_path / "second", **shape))
        assert "another program listens on its port" in said, "one lab at a time"
    assert is_serving(brokers.dcs[0]["kafka"])
    said = fails(start_lab(tmp_path / "d", repository="another"))
    assert "has the repository of-this-test on" in said
    with running_lab(tmp_path / "d") as again:
        assert [dc["kafka"] for dc in again.dcs] == [dc["kafka"] for dc in brokers.dcs[:2]]
        assert "dc1 - dc2: open" in again.links("link", "dc1", "dc2"), "a new run is healed"


def test_brokers_that_cannot_be_used(brokers: RunningLab, tmp_path: Path) -> None:
    said = fails(start_lab(tmp_path / "a", dcs=BROKERS.DCS + 1, brokers=brokers.ready))
    assert "start its brokers with as many --dcs" in said
    said = fails(start_lab(tmp_path / "b", brokers=tmp_path / "none.json"))
    assert "is not the READY file of a running lab" in said
    failed = quadlog("lab", "up", "--dir", str(tmp_path / "c"), "--masters", "0")
    assert (failed.returncode, "workers need a master: give --workers 0" in failed.stderr) == (1, True)
    assert list(tmp_path.glob("*/nodes")) == []


def test_without_a_directory_nothing_stays(brokers: RunningLab, tmp_path: Path) -> None:
    """With brokers of its own, too: test_testing.py."""
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "quadlog", "lab", "up", "--dcs", "1", "--ready", str(ready)]
    command += ["--brokers", str(brokers.ready), "--repository", "temporary"]
    place = tmp_path / "tmp"
    place.mkdir()
    with subprocess.Popen(
        [*command, "--node-command", STAND_IN],
        env={**os.environ, "TMPDIR": str(place)},
        stderr=subprocess.DEVNULL,
    ) as lab:
        while not ready.exists():
            assert lab.poll() is None
            time.sleep(0.05)
        lab.send_signal(signal.SIGINT)
        assert lab.wait(BOUND) == 0
    assert [path.name for path in place.iterdir() if path.name.startswith("quadlog")] == []


# Commands.


@pytest.mark.parametrize("node_id", ["dc1-m1", "dc2-w1", "broker-dc2", "links"])
def test_kill_and_start(lab: RunningLab, node_id: str) -> None:
    assert "exited(-9)" in quadlog("lab", "kill", node_id, "--dir", str(lab.directory)).stdout
    assert "exited(-9)" in lab.status()
    before = lab.data
    assert "ready in" in quadlog("lab", "start", node_id, "--dir", str(lab.directory)).stdout
    assert lab.data != before, "the READY file has the new pid"
    assert "exited" not in lab.status()


def test_stop_and_continue(lab: RunningLab) -> None:
    signal = ("lab", "kill", "dc1-w1", "--dir", str(lab.directory), "--signal")
    assert "stopped" in quadlog(*signal, "STOP").stdout
    assert "stopped" in lab.status()
    refused = quadlog("lab", "start", "dc1-w1", "--dir", str(lab.directory))
    assert refused.returncode == 1
    assert "--signal CONT" in refused.stderr
    assert "running" in quadlog(*signal, "CONT").stdout


def test_a_process_that_dies_by_itself_stays_down_and_is_reported(lab: RunningLab) -> None:
    [victim] = [node for node in lab.workers if node["id"] == "dc2-w1"]
    os.kill(victim["pid"], signal.SIGSEGV)
    wait_for("exited(-11)", lab)
    assert "dc2-w1" in lab.output.read_text().rpartition("by itself")[0]
    lab.start("dc2-w1")


@pytest.mark.parametrize("command", ["kill", "start"])
def test_an_unknown_id_is_answered_with_those_there_are(lab: RunningLab, command: str) -> None:
    failed = quadlog("lab", command, "dc9-w9", "--dir", str(lab.directory))
    assert failed.returncode == 1
    assert "the lab has no dc9-w9; it has links, broker-dc1, broker-dc2, dc1-m1" in failed.stderr


def test_starting_what_runs_is_refused(lab: RunningLab) -> None:
    failed = quadlog("lab", "start", "dc1-m1", "--dir", str(lab.directory))
    assert failed.returncode == 1
    assert "is there already" in failed.stderr


def test_commands_to_a_lab_that_does_not_run(tmp_path: Path) -> None:
    failed = quadlog("lab", "status", "--dir", str(tmp_path))
    assert failed.returncode == 1
    assert "is no lab's directory" in failed.stderr


# What it refuses.


def test_a_running_labs_directory(lab: RunningLab) -> None:
    said = quadlog("lab", "up", "--dir", str(lab.directory)).stderr
    assert f"in use by a running lab, process {lab.popen.pid}" in said


def test_a_foreign_directory(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    failed = quadlog("lab", "up", "--dir", str(tmp_path))
    assert failed.returncode == 1
    assert "not empty and not a lab's (it has thesis.tex" in failed.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_another_shape_and_a_taken_port(stopped: Path) -> None:
    said = fails(start_lab(stopped, dcs=2, node_command=STAND_IN))
    assert "has the shape --dcs 1 --masters 1 --workers 1, asked for was --dcs 2" in said
    port = json.loads((stopped / "lab.json").read_text())["ports"]["dc1-w1"]
    with socket.create_server(("127.0.0.1", port)):
        said = fails(start_lab(stopped, node_command=STAND_IN))
    assert f"port {port} (of dc1-w1)" in said


def test_a_full_disk(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], check=False).returncode:
        pytest.skip("this machine does not let tests mount a small disk")
    mount = f"mount -t tmpfs -o size=50m none {small}"
    command = f"{mount} && exec {sys.executable} -m quadlog lab up --dir {small}"
    failed = subprocess.run(
        [unshare, "-rm", "sh", "-c", command], capture_output=True, text=True, check=False, timeout=60
    )
    assert failed.returncode == 1, failed.stderr
    assert "MB free, a lab needs 500 MB" in failed.stderr


def test_no_java(tmp_path: Path) -> None:
    said = fails(start_lab(tmp_path / "d", environment={"PATH": str(tmp_path), "JAVA_HOME": ""}))
    assert "install Java 17 or newer" in said


def test_a_process_that_dies_during_start(brokers: RunningLab, tmp_path: Path) -> None:
    lab = start_lab(
        tmp_path / "d",
        dcs=1,
        workers=1,
        node_command=STAND_IN,
        brokers=brokers.ready,
        repository="dying",
        environment={"STAND_IN_DIES": "dc1-w1"},
    )
    said = fails(lab)
    assert "dc1-w1 died during start: exited(1)" in said
    assert "the stand-in was told to die" in said
    assert str(tmp_path / "d" / "logs" / "dc1-w1.log") in said
    assert lab.pids() == []


def test_a_broker_that_dies_during_start(stopped: Path) -> None:
    """It leaves the directory so: this test comes last."""
    (stopped / "nodes" / "broker-dc1" / "data" / "meta.properties").write_text("version=9\n")
    lab = start_lab(stopped, node_command=STAND_IN)
    said = fails(lab)
    assert "broker-dc1 died during start" in said
    assert lab.pids() == []
