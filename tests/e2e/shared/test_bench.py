"""The bench runs, and what it prints adds up: two seconds of it, so that it does not rot."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.bench.stages import STAGES
from tests.support.clusters.cluster import Cluster
from tests.support.labs import running_lab

if TYPE_CHECKING:
    from pathlib import Path

HISTORY = 500
"""List appends behind the older of two stores."""


@pytest.mark.soak
def test_two_seconds_of_bench(tmp_path: Path) -> None:
    """With brokers of its own, whose CPU is counted."""
    with running_lab(tmp_path / "lab", dcs=3, workers=1) as lab:
        check_two_seconds(Cluster(lab), tmp_path / "figures.json")


def check_two_seconds(cluster: Cluster, figures: Path) -> None:
    before = cluster.wait_until_equal()
    short = (
        "--seconds",
        "2",
        "--runs",
        "1",
        "--clients",
        "1,8",
        "--heat",
        "0",
        "--warm-up",
        "0.5",
        "--traces",
        "6",
        "--history",
        str(HISTORY),
    )
    bench = subprocess.run(
        [sys.executable, "-m", "tests.bench", *short, "--ready", cluster.lab.ready, "--json", figures],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    print(bench.stdout)
    assert bench.returncode == 0, bench.stderr
    told = json.loads(figures.read_text())
    done = 0
    for clients in ("1", "8"):
        [run] = told["runs"][clients]
        done += run["updates"]
        assert run["errors"] == {}
        assert 0 < run["latencies"]["p50"] <= run["latencies"]["p99"] <= run["latencies"]["most"]
        assert {"brokers", "masters", "workers"} <= set(run["cpu_ms"])
        assert all(run["cpu_ms"][kind] > 0 for kind in ("brokers", "masters", "workers"))
        assert run["threads_ms"]["masters: node"] > 0
        assert run["threads_ms"]["workers: replica"] > 0
        assert sum(run["threads_ms"].values()) == pytest.approx(sum(run["cpu_ms"].values()))
        assert run["generator_cpu"] < 0.5
        assert run["rate"] * run["seconds"] == pytest.approx(run["updates"])
    for one in told["applying"]:
        assert set(one["followed"]) == {"1", "10", "100", "1000"}
        assert min(one["plain"], one["evaluated"], *one["followed"].values()) > 0
    assert [one["history"] for one in told["applying"]] == [0] * 5 + [HISTORY] * 5
    # Everything counted was logged, and what was not counted are the warm-up and the traces.
    assert before + done + 6 < cluster.wait_until_equal() < before + 2 * done + 6
    assert set(told["stages"]) == {name for name, _ in STAGES}
    whole = sum(told["traces"][0]["moments"][at + 1] - told["traces"][0]["moments"][at] for at in range(8))
    assert 0 < whole < 5000
    assert [baseline["rate"] > 0 for baseline in told["baselines"]] == [True] * 6


@pytest.mark.soak
def test_a_pair_of_labs_is_compared(cluster: Cluster) -> None:
    """The same one twice: what is printed is near to one, and it is loaded in turns."""
    before = cluster.wait_until_equal()
    short = ("--turns", "2", "--seconds", "1", "--clients", "4", "--heat", "1")
    pair = subprocess.run(
        [sys.executable, "-m", "tests.bench.pair", cluster.lab.ready, cluster.lab.ready, *short],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert pair.returncode == 0, pair.stderr
    *turns, rate, p50, cpu = pair.stdout.splitlines()
    loaded = [int(figure) for turn in turns for figure in turn.split() if figure.isdigit()]
    assert len(loaded) == 4
    assert cluster.wait_until_equal() - before > sum(loaded)
    for line, told in ((rate, "updates/s"), (p50, "p50"), (cpu, "CPU an update")):
        name, ratio = line.removesuffix(" times").split(": ")
        assert name == told
        assert 0.2 < float(ratio) < 5
