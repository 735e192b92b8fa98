"""However a lab ends, it leaves nothing running."""

from __future__ import annotations

import random
import signal
import socket
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.lab import processes
from tests.support.labs import BOUND, STAND_IN, RunningLab, quadlog, running_lab, start_lab
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from pathlib import Path


def nothing_left(lab_id: str) -> bool:
    """Scan /proc until no process carries the lab's id."""
    return processes.wait_until_gone(lab_id, BOUND) == []


@pytest.mark.parametrize(("times", "dcs"), [(2, 1), pytest.param(14, 2, marks=pytest.mark.soak)])
def test_sigterm_at_random_moments(tmp_path: Path, times: int, dcs: int) -> None:
    # The real cluster: a moment in each part of seven seconds of start (some 5 s) and run.  The first tenth of a
    # second is Python's: before the handler is there, SIGTERM just ends it, and nothing has been started.
    # Each time it is a start of all; with links, and a second broker, in the soak.
    moments = random.Random(3)
    for number in range(times):
        lab = start_lab(tmp_path / str(number), dcs=dcs, workers=1)
        time.sleep(moments.uniform(number, number + 1) * 7 / times)
        lab.popen.send_signal(signal.SIGTERM)
        code = lab.popen.wait(BOUND)
        if (lab.directory / "lab.json").exists():
            assert code == 0, lab.output.read_text()
            assert lab.pids() == []
        assert "Traceback" not in lab.output.read_text()
        assert "Exception" not in lab.output.read_text()


@pytest.mark.parametrize(
    "moment", [0.5, *(pytest.param(moment, marks=pytest.mark.soak) for moment in (1.2, 2.0))]
)
def test_sigkill_takes_everything_with_it(tmp_path: Path, moment: float) -> None:
    """While it starts, and when all of the real cluster is there; and it can be continued."""
    lab = start_lab(tmp_path / "d", dcs=1, workers=1)
    time.sleep(moment)
    kill(lab)
    lab = start_lab(tmp_path / "d", dcs=1, workers=1)
    lab.wait_ready()
    assert len(lab.pids()) > 3
    kill(lab)
    with running_lab(tmp_path / "d") as lab:
        for master in lab.masters:
            assert httpx.get(master["url"] + "/healthz/ready").status_code == HTTPStatus.OK


def kill(lab: RunningLab) -> None:
    lab.popen.kill()
    lab.popen.wait()
    if (lab.directory / "lab.json").exists():
        assert nothing_left(lab.lab_id)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stop_while_jars_are_downloaded(tmp_path: Path, number: signal.Signals) -> None:
    cache = tmp_path / "cache"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mirror = f"http://127.0.0.1:{silent.getsockname()[1]}"
        lab = start_lab(tmp_path / "d", environment={"QUADLOG_CACHE": str(cache), "QUADLOG_MAVEN": mirror})
        asking, _ = silent.accept()  # and it gets no answer
        with asking:
            lab.popen.send_signal(number)
            code = lab.popen.wait(BOUND)
    assert code == (0 if number == signal.SIGTERM else -number)
    assert nothing_left(lab.lab_id)
    if number == signal.SIGTERM:
        assert not list(cache.glob("jars-*")), "half a download must not look like one"


def test_without_a_directory_the_log_of_what_died_is_kept(tmp_path: Path) -> None:
    place = {"TMPDIR": str(tmp_path), "STAND_IN_DIES": "dc1-m1"}
    with BROKERS.taken() as brokers:
        own = ("--brokers", str(brokers.ready), "--repository", "temporary")
        failed = quadlog("lab", "up", "--dcs", "1", *own, "--node-command", STAND_IN, environment=place)
    assert failed.returncode == 1
    [kept] = [path for path in tmp_path.iterdir() if path.name.startswith("quadlog")]
    assert str(kept / "dc1-m1.log") in failed.stderr
    assert "told to die" in (kept / "dc1-m1.log").read_text()


def test_a_deaf_and_a_suspended_process_do_not_hold_the_stop_up(tmp_path: Path) -> None:
    lab = start_lab(
        tmp_path / "d", dcs=1, workers=2, node_command=STAND_IN, environment={"STAND_IN_DEAF": "dc1-w1"}
    )
    lab.wait_ready()
    for node_id in ("dc1-w2", "broker-dc1"):
        lab.kill(node_id, "STOP")
    began = time.monotonic()
    assert lab.stop() == 0
    assert time.monotonic() - began < BOUND
    assert lab.pids() == []
