"""Time, chance, new blank nodes and "any three of them": decided once, whoever decides and however often it dies."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.book import Book, check_exactly_once, one_log, resolve, write
from tests.support.clusters.cluster import Cluster, ask, evaluating, recount
from tests.support.labs import NEW_PROCESSES
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = 6

FORMS = (
    """INSERT { SELF <urn:at> ?t ; <urn:is> ?u, ?v, ?r }
    WHERE { BIND(NOW() AS ?t) BIND(UUID() AS ?u) BIND(STRUUID() AS ?v) BIND(RAND() AS ?r) }""",
    "INSERT DATA { SELF <urn:has> _:x, [ <urn:of> _:x ] . _:x <urn:is> 1 }",
    "INSERT { ?s <urn:chosen> SELF } WHERE { SELECT ?s { ?s <urn:at> ?t } LIMIT 3 }",
    "INSERT { [] <urn:from> ?s ; <urn:with> _:b . _:b <urn:for> SELF } WHERE { SELECT ?s { ?s <urn:is> ?o } LIMIT 2 }",
    """DELETE { ?s <urn:chosen> ?o } INSERT { SELF <urn:freed> ?b }
    WHERE { { SELECT ?s ?o { ?s <urn:chosen> ?o } LIMIT 2 } BIND(BNODE() AS ?b) }""",
    """INSERT { SELF <urn:sample> ?x } WHERE { SELECT (SAMPLE(?o) AS ?x) { ?s <urn:is> ?o } } ;
    DELETE { ?s <urn:has> ?o } WHERE { { SELECT ?s ?o { ?s <urn:has> ?o } LIMIT 1 } FILTER(RAND() < 0.5) }""",
)


def text_of(number: int) -> str:
    return FORMS[number % len(FORMS)].replace("SELF", f"<urn:chance:{number}>")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("seconds", "kills"), [(8, 2), pytest.param(60, 5, marks=pytest.mark.soak)])
def test_all_three_data_centres_decide_the_same_while_evaluators_die(
    tmp_path: Path, seconds: int, kills: int
) -> None:
    texts = {f"chance-{number}": text_of(number) for number in range(100_000)}
    with BROKERS.lab(tmp_path / "lab", dcs=3, workers=2, node_command=NEW_PROCESSES) as lab:
        cluster, book, killed = Cluster(lab), Book(texts=texts), list[str]()
        enough = 200 * seconds / 60

        async def kill() -> None:
            loop = asyncio.get_running_loop()
            for _ in range(kills):
                await asyncio.sleep(seconds / (kills + 2))
                victim = await loop.run_in_executor(None, evaluating, cluster)
                await loop.run_in_executor(None, lab.kill, victim)
                killed.append(victim)
                await asyncio.sleep(1)
                await loop.run_in_executor(None, lab.start, victim)

        async def everything() -> None:
            end = time.monotonic() + seconds

            def going_on() -> bool:
                return time.monotonic() < end or len(book.acknowledged) <= enough

            writes = write(book, cluster.masters, clients=CLIENTS, going_on=going_on)
            await asyncio.gather(writes, kill())

        asyncio.run(everything())
        states = resolve(book, cluster)
        index = cluster.wait_until_equal()
        check_exactly_once(cluster, book, states, one_log(cluster))
        recounted = {recount(url)[0] for url in cluster.workers.values()}
        assert recounted == {worker["signature"] for n in range(3) for worker in cluster.status(n)["workers"]}
        assert len(recounted) == 1
        print(f"{index} entries, {len(book.acknowledged)} acknowledged; killed: {', '.join(killed)}")
        assert len(killed) == kills
        assert index > enough
        made = ask(
            cluster.masters[0], "SELECT DISTINCT ?o { <urn:chance:0> <urn:at>|<urn:is> ?o }", "text/csv"
        ).text
        assert len(made.split()) == 5, "a time and three by chance, below a line that names them"
