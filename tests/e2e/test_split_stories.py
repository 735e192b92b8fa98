"""The UK and the US lose sight of each other under load: what each strategy does, told row by row.

Each side is given many updates at once; some of them are about the same quads. `-s` prints the story.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest

from quadlog.core.cluster_settings import SplitRecovery
from tests.bench.generator import Connection
from tests.support.clusters.cluster import HTTP, Cluster, ask, until
from tests.support.clusters.ending import AGAIN_S, in_turn, one_view
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.labs import RunningLab

LAG = 3
"""`max-peer-lag`."""
UK, US = 0, 2
"""Masters."""
CLIENTS = 16


class Told(NamedTuple):
    """What the clients of one side were told."""

    done: list[str]
    """Keys of acknowledged updates."""
    refused: list[str]
    """Keys of those that were definitely not logged."""
    unknown: list[str]


class Story(NamedTuple):
    """How much each side is given."""

    of: str
    """Its name, in all keys and IRIs."""
    each: int
    """Updates of each side."""
    same: int
    """How many of these are about quads that the other side sets, too."""

    def updates(self, side: str) -> Iterator[tuple[str, str]]:
        """Key and text of each update of a side; the first ones set quads that the other side sets, too."""
        for number in range(self.each):
            subject, pattern = f"<urn:{self.of}:{side}:{number}>", ""
            if number < self.same:
                subject = f"<urn:{self.of}:same:{number}>"
                pattern = f"DELETE {{ {subject} <urn:by> ?o }} "
            where = f" WHERE {{ OPTIONAL {{ {subject} <urn:by> ?o }} }}" if pattern else ""
            does = "INSERT" if pattern else "INSERT DATA"
            yield f"{self.of}-{side}-{number}", f"{pattern}{does} {{ {subject} <urn:by> '{side}' }}{where}"


def give(cluster: Cluster, master: int, side: str, story: Story) -> Told:
    """Give a side its updates, many at once."""
    told, left = Told([], [], []), story.updates(side)

    async def client() -> None:
        connection = await Connection.to(cluster.masters[master])
        for key, text in left:
            answer = await connection.update(text, key=key)
            {204: told.done, 503: told.refused}.get(answer.status, told.unknown).append(key)
        await connection.close()

    async def all_clients() -> None:
        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    asyncio.run(all_clients())
    return told


def states(cluster: Cluster, keys: list[str]) -> Counter[str]:
    """What `/tx` says of these at the first master."""
    return Counter(HTTP.get(f"{cluster.masters[0]}/tx/{key}").json()["state"] for key in keys)


def counted(url: str, of: str, side: str) -> int:
    """How many quads a side's updates of a story have made, as a master or a worker shows."""
    query = (
        f"SELECT (COUNT(*) AS ?n) {{ ?s <urn:by> '{side}' FILTER(STRSTARTS(STR(?s), 'urn:{of}:{side}:')) }}"
    )
    return int(ask(url, query).json()["results"]["bindings"][0]["n"]["value"])


def both_were_given(url: str, of: str) -> dict[str, int]:
    """Of the quads that both sides were given, how many say which side."""
    query = (
        "SELECT ?by (COUNT(*) AS ?n) { ?s <urn:by> ?by"
        f" FILTER(STRSTARTS(STR(?s), 'urn:{of}:same:')) }} GROUP BY ?by"
    )
    rows = ask(url, query).json()["results"]["bindings"]
    return {row["by"]["value"]: int(row["n"]["value"]) for row in rows}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """The UK has two data centres, and so the majority."""
    with BROKERS.lab(
        tmp_path_factory.mktemp("stories") / "lab", dcs=3, workers=1, settings=[f"max-peer-lag={LAG}"]
    ) as running:
        yield running


@pytest.mark.long("many updates on each side while they are apart")
@pytest.mark.parametrize("recovery", SplitRecovery)
@pytest.mark.parametrize(
    ("count", "same"), [(100, 10), pytest.param(1000, 100, marks=pytest.mark.soak)], ids=["100", "1000"]
)
def test_the_story(lab: RunningLab, recovery: SplitRecovery, count: int, same: int) -> None:
    story = Story(of := f"{recovery}-{count}".lower(), count, same)
    with in_turn(lab) as cluster:
        sets = ("config", "set", "split-recovery", recovery, "--at", cluster.masters[US])
        until(lambda: quadlog(*sets).returncode == 0)  # once all hear each other
        cluster.wait_until_equal()
        stores = {name: worker_status(cluster, name)["store"] for name in cluster.workers}
        cluster.cut("dc3", "dc1")
        cluster.cut("dc3", "dc2")
        until(lambda: len(cluster.status(US)["view"]["members"]) == 1, 2 * LAG + 5)
        until(lambda: len(cluster.status(UK)["view"]["members"]) == 2, 2 * LAG + 5)
        print(
            f"\n{recovery}: the US is apart; each side is given {count} updates, {same} about the same quads"
        )
        uk, us = (give(cluster, master, side, story) for master, side in ((UK, "uk"), (US, "us")))
        split = cluster.status(US)["split"]
        print(
            f"  the UK has done {len(uk.done)}; the US {len(us.done)}, and refused {len(us.refused)}: {split['side']}"
        )
        assert (len(uk.done), len(uk.unknown), len(us.unknown)) == (count, 0, 0)
        waits, keeps = recovery is SplitRecovery.QUORUM, recovery is SplitRecovery.NONE
        assert (len(us.done), len(us.refused)) == ((0, count) if waits else (count, 0))
        assert counted(cluster.masters[US], of, "us") == (0 if waits else count - same)

        ends = "" if waits else ends_with_the_branch(cluster, of)
        cluster.heal()
        until(lambda: one_view(cluster, members=3), AGAIN_S)
        until(lambda: not any(cluster.status(number)["incoming"] for number in range(3)), AGAIN_S)
        if keeps:
            the_us_keeps_its_branch(cluster, story)
        others = (
            {"dc3-w1"} if keeps else {"dc1-w1", "dc2-w1"} if recovery is SplitRecovery.SIMPLE else set[str]()
        )
        until(lambda: others <= changed(cluster, stores), AGAIN_S)
        cluster.wait_until_equal(seconds=AGAIN_S)
        told = {"gave_way": 0} if waits else {"gave_way": count + 1, "ended": 1}
        until(lambda: all(told.items() <= (one or {}).items() for one in who_gave_way(cluster)))
        print(
            f"  together again: the US gave way with {who_gave_way(cluster)[0]}; {states(cluster, us.done)}"
        )
        assert waits or HTTP.get(f"{cluster.masters[US]}/tx/{ends}").json()["state"] == "superseded"
        assert states(cluster, uk.done) == {"applied": count}, "what a majority acknowledged stays"
        assert states(cluster, us.done) == ({} if waits else {"applied": count}), "it was agreed again"
        assert states(cluster, us.refused) == ({"unknown": count} if waits else {}), "a refusal is definite"
        for url in cluster.masters:
            sides = counted(url, of, "uk"), counted(url, of, "us")
            assert sides == (count - same, 0 if waits else count - same)
        print(f"  the quads that both were given: {both_were_given(cluster.masters[UK], of)}")
        assert both_were_given(cluster.masters[UK], of) == {"uk" if waits else "us": same}
        signatures = {worker_status(cluster, name)["signature"] for name in cluster.workers}
        assert (len(signatures), len(cluster.chains())) == (1, 1)
        there = changed(cluster, stores)
        print(f"  workers with another store than before: {', '.join(sorted(there)) or 'none'}")
        # With Simple a worker of the US may have gone back by the rewind, before it was asked to.
        assert there - {"dc3-w1"} == others - {"dc3-w1"}
        assert ("dc3-w1" in there) == keeps or recovery is SplitRecovery.SIMPLE


def ends_with_the_branch(cluster: Cluster, of: str) -> str:
    """Key of a change of a setting that only the US agrees on."""
    key = f"{of}-setting"
    answer = HTTP.put(
        f"{cluster.masters[US]}/cluster/settings/max-peer-lag",
        content=f"{LAG + 1}",
        headers={"Content-Type": "text/plain", "Idempotency-Key": key},
    )
    assert answer.status_code == 200, answer.text
    return key


def who_gave_way(cluster: Cluster) -> list[dict[str, Any] | None]:
    """What the US gave up last, as each master shows it."""
    peers = (cluster.status(number)["peers"] for number in (0, 1))
    others = [one["rejoined"] for listed in peers for one in listed if one["id"] == "dc3-m1"]
    return [*others, cluster.status(US)["split"]["rejoined"]]


def worker_status(cluster: Cluster, name: str) -> dict[str, Any]:
    """A worker's `/status`; empty while it starts again."""
    try:
        found: dict[str, Any] = HTTP.get(f"{cluster.workers[name]}/status").json()
    except httpx.TransportError:
        return {}
    return found


def changed(cluster: Cluster, stores: dict[str, str]) -> set[str]:
    """Which workers serve another store than before."""
    return {
        name for name, store in stores.items() if worker_status(cluster, name).get("store", store) != store
    }


def the_us_keeps_its_branch(cluster: Cluster, story: Story) -> None:
    """Until its worker is rebuilt: it serves its branch, takes no part, and what differs is listed quad by quad."""
    worker, master = cluster.workers["dc3-w1"], cluster.masters[US]
    of, count, same = story
    until(lambda: cluster.status(US)["workers"][0]["state"] == "diverged", AGAIN_S)
    [alarm] = until(lambda: [one for one in cluster.status(US)["alarms"] if one["name"] == "worker-diverged"])
    print(f"  {alarm['reason']}: {alarm['what_to_do']}")
    assert counted(worker, of, "us") == count - same, "it serves what it was told"
    assert counted(worker, of, "uk") == 0
    assert ask(master, "ASK {}").status_code == 503, "it is no state of the log"
    assert cluster.update("INSERT DATA { <urn:a> <urn:b> 1 }", master=US).status_code == 503
    until(lambda: cluster.status(UK)["workers"][0]["applied_index"] == cluster.status(UK)["agreed_index"])
    listed = quadlog("diff", worker, cluster.workers["dc1-w1"], "--shown", "5000").stdout.splitlines()
    lines = {line for line in listed if line.startswith("only at")}
    other = cluster.workers["dc1-w1"]
    lacks = {f'only at {other}: <urn:{of}:uk:{n}> <urn:by> "uk" .' for n in range(same, count)}
    print(f"  {listed[-1]}")
    assert lines == lacks, "the UK's updates, and those of both ended as the US had them"
    lab_start(cluster, "dc3-w1")
    assert counted(worker, of, "us") == count - same, "also after a restart"
    done = quadlog("worker", "rebuild", "dc3-w1", "--at", master)
    assert done.returncode == 0, done
    said = done.stdout.splitlines()[-1]
    print(f"  {said}")
    index = cluster.status(UK)["agreed_index"]
    assert re.fullmatch(rf"dc3-w1 serves \d+ quads at index {index}", said)


def lab_start(cluster: Cluster, name: str) -> None:
    """Kill a worker, and start it again."""
    cluster.lab.kill(name)
    cluster.lab.start(name)
