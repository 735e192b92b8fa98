"""`split-approval` manual on a lab: both sides serve until an operator approves what was foreseen; then it happens."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import httpx
import pytest

from quadlog.codec.envelope import text_id
from quadlog.core.model import id_of_key
from quadlog.failpoints import Failpoint
from tests.support import plain_splits
from tests.support.clusters.cluster import Cluster, ask, until
from tests.support.clusters.ending import AGAIN_S, in_turn, one_view
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.support.labs import RunningLab

LAG: Final = 3
DCS: Final = ("dc1", "dc2", "dc3")
ALONE: Final = 2
STEPS: Final = {
    0: (Failpoint.AFTER_PAYLOAD, Failpoint.HALF_AGREED),
    ALONE: (
        *(Failpoint.AFTER_PAYLOAD, Failpoint.HALF_AGREED),
        *(Failpoint.JOINING, Failpoint.BESIDE_BEGUN, Failpoint.HALF_BESIDE),
        *(Failpoint.VOTE_SAVED, Failpoint.VOTE_POSTED, Failpoint.INSTALLED, Failpoint.ADOPTED),
        *(Failpoint.CUT_SAID, Failpoint.HALF_BEHIND_CUT, Failpoint.REWIND_SAID, Failpoint.HALF_BEHIND_REWIND),
    ),
}
"""Where the master of the winner, and that of the weaker side, dies: from the request to the end of the way back."""
KILLS: Final = int(os.environ.get("TEST_KILLS", "12"))
SEED: Final = int(os.environ.get("TEST_SEED", "1"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    settings = [f"max-peer-lag={LAG}", "split-recovery=Smart", "split-approval=manual"]
    directory = tmp_path_factory.mktemp("approval") / "lab"
    with BROKERS.lab(directory, dcs=3, workers=1, settings=settings) as running:
        yield running


def split(cluster: Cluster, *words: str) -> CompletedProcess[str]:
    """`quadlog split` with the Kafkas of the lab."""
    given = [word for dc in cluster.lab.dcs for word in ("--kafka", f"{dc['name']}={dc['kafka']}")]
    return quadlog("split", *words, *given, "--repository", cluster.lab.repository)


def preview(cluster: Cluster, directory: Path, *words: str) -> dict[str, Any]:
    done = split(cluster, "preview", str(directory), *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return found


def approve(cluster: Cluster, plan: str, *words: str) -> CompletedProcess[str]:
    masters = [word for master in (ALONE, 0) for word in ("--master", cluster.masters[master])]
    return split(cluster, "approve", plan, *masters, *words)


def insert(cluster: Cluster, *, master: int) -> str:
    """Insert a triple about the id of the update, and return that id."""
    key = str(uuid4())
    done = cluster.update(
        f"INSERT DATA {{ <urn:{text_id(id_of_key(cluster.lab.repository, key))}> <urn:p> 1 }}",
        master=master,
        Idempotency_Key=key,
    )
    assert done.status_code == HTTPStatus.NO_CONTENT, done.text
    return done.headers["Quadlog-Tx"]


def part(cluster: Cluster) -> list[str]:
    """Cut a data centre off, write on both sides, and heal: the sides stay apart.  Return the ids of its updates."""
    cluster.wait_until_equal()
    for other in (0, 1):
        cluster.cut(DCS[ALONE], DCS[other])
    until(lambda: len(cluster.status(ALONE)["view"]["members"]) == 1, 2 * LAG + 20)
    until(lambda: len(cluster.status(0)["view"]["members"]) == 2, 2 * LAG + 20)
    insert(cluster, master=0)
    ids = [insert(cluster, master=ALONE) for _ in range(3)]
    cluster.heal()
    until(lambda: cluster.status(ALONE)["split"]["state"] == "unapproved", 30)
    return ids


def state(cluster: Cluster, master: int, transaction_id: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{cluster.masters[master]}/tx/{transaction_id}").json()
    return found


def applied(cluster: Cluster) -> None:
    """All that was agreed on each side is applied there."""

    def is_quiet(master: int) -> bool:
        status = cluster.status(master)
        return bool(status["workers"]) and status["workers"][0]["applied_index"] == status["agreed_index"]

    until(lambda: is_quiet(0) and is_quiet(ALONE), 30)


def approved(
    cluster: Cluster, master: int, drop: list[str], *, after: dict[str, Any] | None = None
) -> httpx.Response:
    """Approve at a master, as `quadlog split approve` does it for its side: behind its last entry."""
    status = cluster.status(master)
    end = {"index": status["agreed_index"], "chain": status["agreed_chain"]} if after is None else after
    body = {"plan": "ab" * 32, "drop": [one.replace("-", "") for one in drop], **end}
    return httpx.post(f"{cluster.masters[master]}/cluster/splits/approve", json=body, timeout=60)


def came_together(cluster: Cluster, ids: list[str], dropped: set[int]) -> None:
    """All masters are in one view, and what was dropped is applied nowhere, and says so."""
    until(lambda: one_view(cluster, members=3), AGAIN_S)
    cluster.wait_until_equal()
    for master in range(3):
        rows = ask(cluster.masters[master], "SELECT ?s { ?s <urn:p> 1 }").json()["results"]["bindings"]
        subjects = {row["s"]["value"] for row in rows}
        for number, one in enumerate(ids):
            found = state(cluster, master, one)
            assert found["state"] == ("rejected" if number in dropped else "applied"), found
            assert ("dropped" in (found.get("reason") or "")) == (number in dropped)
            assert (f"urn:{one}" in subjects) == (number not in dropped)


def test_both_sides_serve_until_one_is_approved(lab: RunningLab) -> None:
    with in_turn(lab) as cluster:
        alone = approved(cluster, 0, [])
        assert alone.status_code == HTTPStatus.CONFLICT
        assert "no split to end" in alone.text
        ids = part(cluster)
        time.sleep(2 * LAG)  # longer than any wait of a master
        status = cluster.status(ALONE)
        assert status["split"]["state"] == "unapproved"
        assert "split-unapproved" in {alarm["name"] for alarm in status["alarms"]}
        before = {"index": status["agreed_index"], "chain": status["agreed_chain"]}
        ids.append(insert(cluster, master=ALONE))
        insert(cluster, master=0)
        late = approved(cluster, ALONE, [], after=before)
        assert late.status_code == HTTPStatus.CONFLICT
        assert "it has moved on" in late.text
        assert cluster.status(ALONE)["split"]["state"] == "unapproved"
        for body in ({}, {"plan": "00", **before}, {"plan": "ab" * 32, **before, "drop": ["x"]}):
            wrong = httpx.post(f"{cluster.masters[ALONE]}/cluster/splits/approve", json=body)
            assert wrong.status_code == HTTPStatus.BAD_REQUEST, wrong.text
        for master, drop in ((0, []), (ALONE, [ids[1], ids[3]])):
            done = approved(cluster, master, drop)
            assert done.status_code == HTTPStatus.OK, done.text
        came_together(cluster, ids, {1, 3})


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))
def test_a_master_is_killed_while_it_is_approved(lab: RunningLab, seed: int) -> None:
    """It goes on, or is back where it was, and can be approved again."""
    random = Random(seed)
    with in_turn(lab) as cluster:
        ids = part(cluster)
        dropped = set(random.sample(range(len(ids)), random.randrange(2)))
        drop = [ids[number] for number in dropped]
        approved(cluster, 0, [])
        killed = random.choice((0, ALONE))
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(lambda: approved(cluster, ALONE, drop))
            time.sleep(random.random() * random.choice((0.05, 0.5, 3.0)))
            lab.kill(f"{DCS[killed]}-m1")
            lab.start(f"{DCS[killed]}-m1")
            with suppress(httpx.HTTPError):
                asked.result()

        approve_until_over(cluster, drop)
        came_together(cluster, ids, dropped)


def approve_until_over(cluster: Cluster, drop: list[str]) -> None:
    """It goes on, or is back where it was, and is approved again."""

    def is_over() -> bool:
        if one_view(cluster, members=3):
            return True
        if cluster.status(ALONE)["split"]["state"] == "unapproved":
            approved(cluster, ALONE, drop)
        return False

    until(is_over, 90)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("master", "point"), [(master, point) for master, points in STEPS.items() for point in points]
)
def test_the_approving_master_dies_between_two_steps(lab: RunningLab, master: int, point: Failpoint) -> None:
    with in_turn(lab) as cluster:
        ids = part(cluster)
        victim = f"{DCS[master]}-m1"
        lab.kill(victim)
        lab.start(victim, QUADLOG_FAILPOINT=point)
        until(lambda: cluster.status(ALONE)["split"]["state"] == "unapproved", 30)
        assert not one_view(cluster, members=3)
        for side, drop in ((0, []), (ALONE, ids[:1])):
            with suppress(httpx.HTTPError):
                approved(cluster, side, drop)
        until(lambda: lab.exited(victim), 60)
        lab.start(victim)
        approve_until_over(cluster, ids[:1])
        came_together(cluster, ids, {0})


@pytest.mark.soak
@pytest.mark.long("a split with five jobs of Spark")
def test_what_was_approved_happens(lab: RunningLab, tmp_path: Path) -> None:
    with in_turn(lab) as cluster:
        ids = part(cluster)
        applied(cluster)
        foreseen = preview(cluster, tmp_path / "one")
        assert foreseen["branches"][0]["classes"] == {"commutes": 3}
        insert(cluster, master=0)
        applied(cluster)
        old = approve(cluster, foreseen["plan"], "--preview", str(tmp_path / "one"))
        assert old.returncode == 1
        last = foreseen["sides"][0]["last"]["index"]
        assert f"dc1, dc2 has moved on from entry {last} to {last + 1}" in old.stderr
        assert cluster.status(ALONE)["split"]["state"] == "unapproved"
        drop = ("--drop", ids[1])
        foreseen = preview(cluster, tmp_path / "two", *drop)
        assert foreseen["branches"][0]["classes"] == {"commutes": 2, "dropped": 1}
        done = approve(cluster, foreseen["plan"], *drop)
        assert done.returncode == 0, done.stderr
        came_together(cluster, ids, {1})
        done = split(cluster, "report", str(tmp_path / "report"))
        assert done.returncode == 0, done.stderr
        report = json.loads((tmp_path / "report" / "report.json").read_text())
        assert report["branches"][0]["classes"] == {"commutes": 2, "dropped": 1}
        assert report["plan"] == foreseen["plan"]
        name = report["branches"][0]["name"]
        shown = split(cluster, "show", name, "SELECT ?s { ?s <urn:p> 1 } ORDER BY ?s")
        assert shown.returncode == 0, shown.stderr
        assert {f"<urn:{one}>" for one in ids} <= {*shown.stdout.splitlines()}, (
            "also the one that was dropped"
        )
        refused = split(cluster, "show", name, "DROP ALL")
        assert (refused.returncode, "Forbidden" in refused.stderr) == (1, True), refused.stderr
        plain = plain_splits.report(cluster.lab.repository, plain_topics(cluster))
        assert plain.hash == foreseen["plan"]


def plain_topics(cluster: Cluster) -> dict[str, Any]:
    kafkas = {dc["name"]: dc["kafka"] for dc in cluster.lab.dcs}
    return plain_splits.read_topics(cluster.lab.repository, kafkas)
