"""The whole demo as a visitor runs it, without a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from pyoxigraph import RdfFormat, serialize

from quadlog.demo.ontology import FILE, PACKAGE, find_brick, read_turtle
from quadlog.demo.report import VERDICT
from quadlog.lab import processes

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT = 300.0
BOUND = 10.0
"""Seconds after which nothing of a demo that has ended may be left."""


def part_of_brick(directory: Path, triples: int) -> str:
    """Install a package that has the beginning of the ontology only; return what Python's path has to be."""
    package = directory / FILE
    package.parent.mkdir(parents=True)
    serialize(read_turtle(find_brick().read_bytes())[:triples], package, format=RdfFormat.TURTLE)
    about = directory / f"{PACKAGE}-0.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0\n")
    return str(directory)


def start_demo(directory: Path, **environment: str) -> subprocess.Popen[str]:
    """Run the demo with its data in `directory`."""
    return subprocess.Popen(
        [sys.executable, "-m", "quadlog", "demo", "--dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(directory.parent), **environment},
    )


def left_running(directory: Path) -> list[int]:
    """Return the pids of the demo's cluster that are still there."""
    lab_id: str = json.loads((directory / "lab.json").read_text())["lab_id"]
    return processes.wait_until_gone(lab_id, BOUND)


def left_on_disk(directory: Path) -> list[str]:
    """Return the demo's temporary files."""
    return [path.name for path in directory.parent.glob("quadlog-*")]


@pytest.mark.long("the demo as a user sees it, brokers included")
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("triples", [3_000, pytest.param(None, marks=pytest.mark.soak, id="all")])
def test_every_worker_ends_with_the_file(tmp_path: Path, triples: int | None) -> None:
    directory = tmp_path / "demo"
    package = {"PYTHONPATH": part_of_brick(tmp_path / "package", triples)} if triples else {}
    with start_demo(directory, **package) as demo:
        said, _ = demo.communicate(timeout=TIMEOUT - BOUND)
    assert demo.returncode == 0, said
    assert f"Verdict: {VERDICT}" in said
    assert "was sent KILL: exited(-9)" in said
    assert "dc3-m1 refuses a write: 503 NoMajority, fork=" in said
    assert "dc3-m1 takes writes again after" in said
    rows = re.findall(rf"(dc\d-w\d) +│ (\d+) +│ {triples or 62_083:,} │ (\w{{16}}) │ same +│ yes", said)
    assert [worker for worker, _, _ in rows] == [f"dc{dc}-w{w}" for dc in (1, 2, 3) for w in (1, 2)]
    assert len({(index, signature) for _, index, signature in rows}) == 1
    assert re.search(r"[\d.]+ updates/s", said)
    assert left_running(directory) == []
    assert left_on_disk(directory) == []


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("broker-dc1 serves", signal.SIGINT),  # the cluster starts
        # The load is under way, a worker is down.
        pytest.param("was sent KILL", signal.SIGTERM, marks=pytest.mark.soak),
    ],
)
def test_a_signal_in_the_middle_leaves_nothing(tmp_path: Path, moment: str, number: signal.Signals) -> None:
    directory = tmp_path / "demo"
    with start_demo(directory) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if moment in line:
                break
        asked = time.monotonic()
        demo.send_signal(number)
        said, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, said
    assert "Traceback" not in said
    assert time.monotonic() - asked < 30
    assert left_running(directory) == []
    assert left_on_disk(directory) == []
