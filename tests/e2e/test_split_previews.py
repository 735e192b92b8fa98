"""Splits on a lab, foreseen while they last and reported when they are over: update by update, with one plan hash.

`TEST_SPLITS` is the number of splits, `TEST_SEED` the first seed.  Each has a drawn strategy, a data centre that is cut
off, updates on both sides that often concern the same quads, and masters that are killed meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from quadlog.core.cluster_settings import SplitRecovery
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import AGAIN_S, in_turn, one_view
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import RunningLab

pytestmark = pytest.mark.soak

SPLITS: Final = int(os.environ.get("TEST_SPLITS", "20"))
SEED: Final = int(os.environ.get("TEST_SEED", "1"))
LAG: Final = 3
SUBJECTS: Final = 6
DCS: Final = ("dc1", "dc2", "dc3")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with BROKERS.lab(
        tmp_path_factory.mktemp("previews") / "lab", dcs=3, workers=1, settings=[f"max-peer-lag={LAG}"]
    ) as running:
        yield running


def text(random: Random) -> str:
    """An update about one of a few subjects: two sides often concern the same quads."""
    one, other = (f"<urn:s{random.randrange(SUBJECTS)}>" for _ in range(2))
    value = random.randrange(4)
    return random.choice(
        [
            f"INSERT DATA {{ {one} <urn:p> {value} }}",
            f"DELETE DATA {{ {one} <urn:p> {value} }}",
            f"DELETE {{ {one} <urn:p> ?o }} INSERT {{ {one} <urn:p> {value} }} WHERE {{ {one} <urn:p> ?o }}",
            f"INSERT {{ {one} <urn:p> ?o }} WHERE {{ {other} <urn:p> ?o }}",
            f"INSERT {{ {one} <urn:count> ?n }} WHERE {{ SELECT (COUNT(*) AS ?n) {{ ?s <urn:p> ?o }} }}",
            f"DELETE WHERE {{ {one} <urn:p> ?o }}",
            f"CREATE SILENT GRAPH <urn:g{value}>",
            f"DROP SILENT GRAPH <urn:g{value}>",
            f"INSERT DATA {{ GRAPH <urn:g{value}> {{ {one} <urn:p> [] }} }}",
        ]
    )


def write(cluster: Cluster, random: Random, master: int, count: int) -> None:
    """Every update is known; some are lost to a master that is killed, and some keys are used on both sides."""
    for _ in range(count):
        key = {"Idempotency-Key": f"both-{random.randrange(40)}"} if random.random() < 0.1 else {}
        cluster.update(text(random), master=master, **key)


def made(cluster: Cluster, directory: Path, command: str, dcs: tuple[str, ...]) -> dict[str, Any]:
    """What the command makes."""
    kafkas = {dc["name"]: dc["kafka"] for dc in cluster.lab.dcs}
    given = [word for dc in dcs for word in ("--kafka", f"{dc}={kafkas[dc]}")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "quadlog",
            "split",
            command,
            str(directory),
            *given,
            "--repository",
            cluster.lab.repository,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return report


def is_quiet(cluster: Cluster, masters: tuple[int, ...]) -> bool:
    """Every agreed entry of these masters' sides is applied by a worker."""
    for master in masters:
        status = cluster.status(master)
        applied = [worker["applied_index"] for worker in status["workers"] if worker["state"] != "DOWN"]
        if not applied or max(applied) < status["agreed_index"]:
            return False
    return True


def facts(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (branch["name"], one["id"], one["class"], one["outcome"], one["deleted"], one["inserted"])
        for branch in report["branches"]
        for one in branch["transactions"]
    ]


@pytest.mark.long("splits, one after the other, each with three jobs of Spark")
@pytest.mark.parametrize("seed", range(SEED, SEED + SPLITS))
def test_what_was_foreseen_happens(lab: RunningLab, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    strategy = random.choice([*SplitRecovery])
    alone = random.randrange(3)
    others = tuple(number for number in range(3) if number != alone)
    killed = random.choice([None, None, *range(3)])
    with in_turn(lab) as cluster:
        sets = ("config", "set", "split-recovery", strategy, "--at", cluster.masters[0])
        until(lambda: quadlog(*sets).returncode == 0)
        cluster.wait_until_equal()
        write(cluster, random, random.randrange(3), random.randrange(3, 8))
        cluster.wait_until_equal()
        for other in others:
            cluster.cut(DCS[alone], DCS[other])
        until(lambda: len(cluster.status(alone)["view"]["members"]) == 1, 2 * LAG + 20)
        until(lambda: len(cluster.status(others[0])["view"]["members"]) == 2, 2 * LAG + 20)
        write(cluster, random, others[0], random.randrange(4, 20))
        if strategy is not SplitRecovery.QUORUM:
            write(cluster, random, alone, random.randrange(4, 20))
        if killed is not None:
            lab.kill(f"{DCS[killed]}-m1")
            lab.start(f"{DCS[killed]}-m1")
            until(lambda: len(cluster.status(killed)["view"]["members"]) == (1 if killed == alone else 2), 60)
        write(cluster, random, others[1], random.randrange(1, 8))
        until(lambda: is_quiet(cluster, (alone, *others)), 60)
        previews = [
            made(cluster, tmp_path / "one", "preview", DCS),
            made(cluster, tmp_path / "other", "preview", DCS[::-1]),
        ]
        assert previews[0]["plan"] == previews[1]["plan"]
        branches = previews[0]["branches"]
        print(
            f"{seed}: {strategy}, {DCS[alone]} alone, killed {killed}: {[one['classes'] for one in branches]}"
        )
        cluster.heal()
        until(lambda: one_view(cluster, members=3), AGAIN_S)
        if strategy is SplitRecovery.NONE:
            again = ("worker", "rebuild", f"{DCS[alone]}-w1", "--at", cluster.masters[alone])
            until(lambda: quadlog(*again).returncode == 0)
        if not branches:
            assert strategy is SplitRecovery.QUORUM or not cluster.status(alone)["split"].get("rejoined")
            cluster.wait_until_equal()
            return
        cluster.wait_until_equal()
        name = branches[0]["name"]
        report = made(cluster, tmp_path / "report", "report", DCS)
        assert facts(report) == facts(previews[0])
        assert report["plan"] == previews[0]["plan"]
        assert report["branches"][0]["name"] == name
