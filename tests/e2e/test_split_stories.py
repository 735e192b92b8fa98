"""The UK and the US lose sight of each other under load: what each strategy does, told row by row.

Each side is given many updates at once; some of them are about the same quads. `-s` prints the story.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from quadlog.core.cluster_settings import SplitRecovery
from tests.bench.generator import Connection
from tests.support.clusters.cluster import HTTP, Cluster, ask, until
from tests.support.clusters.ending import AGAIN_S, one_view
from tests.support.labs import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAG = 3
"""`max-peer-lag`."""
UK, US = 0, 2
"""Masters: the UK has two data centres, and so the majority."""
CLIENTS = 16


class Told(NamedTuple):
    """What the clients of one side were told."""

    done: list[str]
    """Keys of acknowledged updates."""
    refused: list[str]
    """Keys of those that were definitely not logged."""
    unknown: list[str]


def updates(side: str, count: int, same: int) -> Iterator[tuple[str, str]]:
    """Key and text of each update of a side; the first ones set quads that the other side sets, too."""
    for number in range(count):
        key = f"{side}-{number}"
        if number < same:
            yield (
                key,
                (
                    f"DELETE {{ <urn:same:{number}> <urn:by> ?o }} INSERT {{ <urn:same:{number}> <urn:by> '{side}' }}"
                    f" WHERE {{ OPTIONAL {{ <urn:same:{number}> <urn:by> ?o }} }}"
                ),
            )
        else:
            yield key, f"INSERT DATA {{ <urn:{side}:{number}> <urn:by> '{side}' }}"


def give(cluster: Cluster, master: int, side: str, count: int, same: int) -> Told:
    """Give a side its updates, many at once."""
    told, left = Told([], [], []), updates(side, count, same)

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


def counted(cluster: Cluster, side: str, master: int) -> int:
    """How many quads a side's updates have made, as a master shows."""
    query = f"SELECT (COUNT(*) AS ?n) {{ ?s <urn:by> '{side}' FILTER(!STRSTARTS(STR(?s), 'urn:same:')) }}"
    return int(ask(cluster.masters[master], query).json()["results"]["bindings"][0]["n"]["value"])


@pytest.mark.long("two clusters' worth of updates while apart")
@pytest.mark.parametrize("recovery", SplitRecovery)
@pytest.mark.parametrize(
    ("count", "same"), [(100, 10), pytest.param(1000, 100, marks=pytest.mark.soak)], ids=["100", "1000"]
)
def test_the_story(tmp_path: Path, recovery: SplitRecovery, count: int, same: int) -> None:
    asked = [f"max-peer-lag={LAG}", f"split-recovery={recovery.lower()}"]
    with BROKERS.lab(tmp_path / "lab", dcs=3, workers=1, settings=asked) as lab:
        cluster = Cluster(lab)
        until(lambda: one_view(cluster, members=3))
        cluster.cut("dc3", "dc1")
        cluster.cut("dc3", "dc2")
        until(lambda: len(cluster.status(US)["view"]["members"]) == 1, 2 * LAG + 5)
        until(lambda: len(cluster.status(UK)["view"]["members"]) == 2, 2 * LAG + 5)
        print(
            f"\n{recovery}: the US is apart, and each side is given {count} updates, {same} about the same quads"
        )
        uk, us = (give(cluster, master, side, count, same) for master, side in ((UK, "uk"), (US, "us")))
        split = cluster.status(US)["split"]
        print(
            f"  the UK has done {len(uk.done)}; the US {len(us.done)}, and refused {len(us.refused)}: {split['side']}"
        )
        assert (len(uk.done), len(uk.unknown), len(us.unknown)) == (count, 0, 0)
        waits = recovery is SplitRecovery.QUORUM
        assert (len(us.done), len(us.refused)) == ((0, count) if waits else (count, 0))
        assert counted(cluster, "us", US) == (0 if waits else count - same)

        cluster.heal()
        until(lambda: one_view(cluster, members=3), AGAIN_S)
        until(lambda: not any(cluster.status(number)["incoming"] for number in range(3)), AGAIN_S)
        cluster.wait_until_equal(seconds=AGAIN_S)
        gave_way = [
            (cluster.status(number)["split"]["rejoined"] or {}).get("gave_way") for number in range(3)
        ]
        print(f"  together again: the US gave way with {gave_way[US]} entries; {states(cluster, us.done)}")
        assert gave_way == [None, None, 0 if waits else count]
        assert states(cluster, uk.done) == {"applied": count}, "what a majority acknowledged stays"
        assert states(cluster, us.done) == ({} if waits else {"applied": count}), "it was agreed again"
        assert states(cluster, us.refused) == ({"unknown": count} if waits else {}), "a refusal is definite"
        for master in range(3):
            sides = counted(cluster, "uk", master), counted(cluster, "us", master)
            assert sides == (count - same, 0 if waits else count - same)
        query = "SELECT ?by (COUNT(*) AS ?n) { ?s <urn:by> ?by FILTER(STRSTARTS(STR(?s), 'urn:same:')) } GROUP BY ?by"
        by = ask(cluster.masters[0], query)
        same_by = {row["by"]["value"]: int(row["n"]["value"]) for row in by.json()["results"]["bindings"]}
        print(f"  the quads that both were given: {same_by}")
        assert same_by == {"uk" if waits else "us": same}
        signatures = {HTTP.get(f"{url}/status").json()["signature"] for url in cluster.workers.values()}
        assert (len(signatures), len(cluster.chains())) == (1, 1)
