"""A split that is over is reported without an operator, as the command reports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.clusters.cluster import HTTP, Cluster, until
from tests.support.clusters.ending import AGAIN_S, in_turn, one_view
from tests.support.clusters.trouble import logged
from tests.support.labs import QUICK_JAVA
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import RunningLab

LAG = 2
DCS = ("dc1", "dc2", "dc3")
REPORTED = {"QUADLOG_SPLIT_REPORTS": "20"}
SPARK_S = 180.0
"""Within which a report is made on a machine that is busy with other things; otherwise it takes 10 s."""
ALONE, OTHER = 2, 0
"""Masters."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with BROKERS.lab(
        tmp_path_factory.mktemp("reports") / "lab",
        dcs=3,
        workers=1,
        settings=[f"max-peer-lag={LAG}", "split-recovery=Smart"],
        environment=REPORTED | QUICK_JAVA,
    ) as running:
        yield running


def split_and_heal(cluster: Cluster) -> None:
    """Two sides write about the same quads, and meet again."""
    cluster.update("INSERT DATA { <urn:a> <urn:p> 1 }")
    cluster.wait_until_equal()
    for dc in DCS[:2]:
        cluster.cut(DCS[ALONE], dc)
    until(lambda: len(cluster.status(ALONE)["view"]["members"]) == 1, 2 * LAG + 20)
    until(lambda: len(cluster.status(OTHER)["view"]["members"]) == 2, 2 * LAG + 20)
    for master, value in ((OTHER, 2), (ALONE, 3)):
        change = f"DELETE {{ <urn:a> <urn:p> ?o }} INSERT {{ <urn:a> <urn:p> {value} }} WHERE {{ <urn:a> <urn:p> ?o }}"
        assert cluster.update(change, master=master).status_code == 204
        assert cluster.update(f"INSERT DATA {{ <urn:b> <urn:p> {value} }}", master=master).status_code == 204
    cluster.heal()
    until(lambda: one_view(cluster, members=3), AGAIN_S)
    cluster.wait_until_equal()


def splits(cluster: Cluster, master: int, name: str = "", accept: str = "*/*") -> httpx.Response:
    return HTTP.get(f"{cluster.masters[master]}/cluster/splits{name}", headers={"Accept": accept})


def reporter(cluster: Cluster) -> int:
    """The master that makes the reports."""
    [found] = until(lambda: reporters(cluster))
    return found


def reporters(cluster: Cluster) -> list[int]:
    return [one for one in range(len(DCS)) if splits(cluster, one).json()["is_reporter"]]


def by_hand(cluster: Cluster, directory: Path) -> subprocess.Popen[str]:
    given = [word for dc in cluster.lab.dcs for word in ("--kafka", f"{dc['name']}={dc['kafka']}")]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "quadlog", "split", "report", str(directory), *given),
            *("--repository", cluster.lab.repository),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **QUICK_JAVA},
    )


@pytest.mark.soak
@pytest.mark.long(
    "a split of three data centres, and two jobs of Spark; without masters in test_unattended_reports.py"
)
def test_the_report_appears_and_is_that_of_the_command(lab: RunningLab, tmp_path: Path) -> None:
    with in_turn(lab) as cluster:
        split_and_heal(cluster)
        command = by_hand(cluster, tmp_path / "report")  # at the same time
        at = reporter(cluster)
        assert cluster.status(at)["view"]["home"] == DCS[at]
        until(lambda: splits(cluster, at).json()["making"])
        assert cluster.update("INSERT DATA { <urn:c> <urn:p> 1 }", master=at).status_code == 204
        listed = until(lambda: splits(cluster, at).json()["reports"], SPARK_S)
        _, errors = command.communicate(timeout=SPARK_S)
        assert command.returncode == 0, errors
        expected: dict[str, Any] = json.loads((tmp_path / "report" / "report.json").read_text())

        [one] = listed
        [branch] = expected["branches"]
        assert (one["name"], one["plan"]) == (branch["name"], expected["plan"])
        assert (one["kind"], one["dcs"], one["classes"]) == ("report", [DCS[ALONE]], branch["classes"])
        assert (one["fork"], one["entries"]) == (branch["fork"]["index"], branch["entries"])
        for media_type, url in one["links"].items():
            answer = HTTP.get(f"{cluster.masters[at]}{url}", headers={"Accept": media_type})
            assert answer.headers["content-type"].partition(";")[0] == media_type
            assert one["plan"] in answer.text
        document = splits(cluster, at, f"/{one['name']}").json()
        assert {**document, "made_at": ""} | {"workers": []} == {**expected, "made_at": ""} | {"workers": []}
        assert splits(cluster, at, "/1-000000000000").status_code == 404

        status = cluster.status(at)["split_reports"]
        assert status == {"made": 1, "newest": one["name"], "making": False, "failed": None}
        others = [number for number in range(len(DCS)) if number != at]
        assert [splits(cluster, number).json()["reports"] for number in others] == [[], []]
        directory = lab.node(f"{DCS[at]}-m1") / "data" / "splits"
        until(lambda: sorted(path.name for path in directory.iterdir()) == [".state.json", one["name"]])
        assert logged(cluster, "split_report_made", f"{DCS[at]}-m1") == 1


@pytest.mark.long("a split of three data centres, after a restart of all masters")
def test_without_spark_the_reason_is_shown_and_nothing_stops(lab: RunningLab) -> None:
    with in_turn(lab) as cluster:
        before = {number: splits(cluster, number).json()["reports"] for number in range(len(DCS))}
        masters = [master["id"] for master in lab.masters]
        for master in masters:
            lab.kill(master)
        for master in masters:
            lab.start(master, QUADLOG_SPARK_MASTER="nowhere")
        until(lambda: is_one(cluster))
        split_and_heal(cluster)
        at = reporter(cluster)
        reason = until(lambda: cluster.status(at)["split_reports"]["failed"], SPARK_S)
        assert reason.startswith("SetupError: Spark did not start with the master nowhere")
        said = splits(cluster, at).json()
        assert [(one["dc"], one["reason"]) for one in said["waiting"]] == [(DCS[ALONE], reason)]
        assert logged(cluster, "split_report_failed", f"{DCS[at]}-m1") == 1
        assert {number: splits(cluster, number).json()["reports"] for number in range(len(DCS))} == before
        assert cluster.update("INSERT DATA { <urn:d> <urn:p> 1 }", master=at).status_code == 204
        cluster.wait_until_equal()


def is_one(cluster: Cluster) -> bool:
    """Whether all masters serve again, in one view."""
    try:
        return one_view(cluster, members=len(DCS)) and bool(reporters(cluster))
    except httpx.TransportError:
        return False
