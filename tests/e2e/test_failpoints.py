"""Every process dies at every named point that it passes, and is started again: nothing lost, doubled, different.

| failpoint | evaluating data centre's master | another's master | evaluating worker | following worker |
| --- | --- | --- | --- | --- |
| after-payload | dies | dies | . | . |
| after-persist | dies | dies | . | . |
| half-agreed | dies | dies | . | . |
| before-post | dies | dies | . | . |
| after-post | dies | dies | . | . |
| half-mirror | dies (payloads) | dies (payloads, effects) | . | . |
| before-handover | in `test_duty.py` | . | . | . |
| phases of leaving a view and of being let in | in `test_phases.py` | in `test_phases.py` | . | . |
| decision-saved | in `test_synchronous.py` | . | . | . |
| decision-posted | in `test_synchronous.py` | . | . | . |
| decision-agreed | in `test_synchronous.py` | . | . | . |
| after-evaluate | . | . | dies | . |
| after-publish | . | . | dies | . |
| within-apply | . | . | dies | dies; in `test_killed_commits.py` again and again |
| after-apply | . | . | dies | dies |

A point: that process never comes by there.  Brokers have no code of ours in them: they are killed at
random moments by `test_writes.py`, as is everything else.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import SetupError
from quadlog.failpoints import Failpoint
from tests.support.clusters.book import (
    Book,
    check_durable_is_ordered,
    check_exactly_once,
    one_log,
    resolve,
    write,
)
from tests.support.clusters.cluster import HTTP, Cluster, recount, until
from tests.support.clusters.phases import PHASES
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

MASTER = (
    Failpoint.AFTER_PAYLOAD,
    Failpoint.AFTER_PERSIST,
    Failpoint.HALF_AGREED,
    Failpoint.BEFORE_POST,
    Failpoint.AFTER_POST,
    Failpoint.HALF_MIRROR,
)
SHORT = (
    ("evaluating DC's master", MASTER),
    ("evaluating worker", (Failpoint.AFTER_EVALUATE,)),
    ("evaluating worker", (Failpoint.AFTER_PUBLISH,)),
    ("following worker", (Failpoint.WITHIN_APPLY, Failpoint.AFTER_APPLY)),
)
LONG = (
    ("another master", MASTER),
    # Each of these is a case of its own, since who evaluates does no longer once it has died: `make test` has these
    # points with the one that follows.
    ("evaluating worker", (Failpoint.WITHIN_APPLY,)),
    ("evaluating worker", (Failpoint.AFTER_APPLY,)),
)
CASES = (*SHORT, *LONG)
"""Who dies, and where, one after the other while writes go on.  Who evaluates does no longer once it has died."""
VISIT = 15
"""Not one of the first visits, which a process may make before it serves."""
FEWER = {Failpoint.AFTER_APPLY: 6, Failpoint.WITHIN_APPLY: 6}
"""Many effects are applied at once."""
WRITES = 60
"""More come after the last death."""
CLIENTS = 16


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with BROKERS.lab(tmp_path_factory.mktemp("failpoints") / "lab", dcs=2, workers=2) as lab:
        yield Cluster(lab)


def test_every_failpoint_is_in_the_table_and_every_entry_of_it_is_tried() -> None:
    rows = re.findall(r"^\| ([a-z]+-[a-z]+) \| (.*) \|$", __doc__ or "", re.MULTILINE)
    columns = ("evaluating DC's master", "another master", "evaluating worker", "following worker")
    dies = {
        (Failpoint(name), column)
        for name, cells in rows
        for column, cell in zip(columns, cells.split(" | "), strict=True)
        if cell.startswith("dies")
    }
    assert {name for name, _ in rows} == set(Failpoint) - PHASES | {Failpoint.BEFORE_HANDOVER}
    assert dies == {(point, role) for role, points in CASES for point in points}
    assert {point for point, _ in dies} == {point for _, points in SHORT for point in points}


def victim_of(cluster: Cluster, role: str) -> str:
    if role.endswith("master"):
        return "dc1-m1" if role.startswith("evaluating") else "dc2-m1"
    workers = cluster.status()["workers"]
    return next(str(w["id"]) for w in workers if w["evaluating"] is role.startswith("evaluating"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("role", "points"),
    [*SHORT, *(pytest.param(*case, marks=pytest.mark.soak) for case in LONG)],
    ids=[f"{role}: {', '.join(points)}" for role, points in CASES],
)
def test_death_at_failpoints(dying: Cluster, role: str, points: tuple[Failpoint, ...]) -> None:
    cluster = dying
    begin = cluster.wait_until_equal()
    victim = victim_of(cluster, role)
    cluster.lab.kill(victim)
    cluster.lab.start(victim, QUADLOG_FAILPOINT=at(points[0]))
    make_it(cluster, victim, role)
    tag = f"{role}/{points[0]}".replace(" ", "-").replace("'", "")
    book = Book(texts={f"{tag}/{n}": text_of(tag, n) for n in range(100_000)})

    async def everything() -> None:
        enough = float("inf")
        loop = asyncio.get_running_loop()
        writes = asyncio.create_task(
            write(book, cluster.masters, clients=CLIENTS, going_on=lambda: book.done < enough)
        )
        for number, point in enumerate(points, 1):
            await loop.run_in_executor(None, until, lambda: cluster.lab.exited(victim))
            print(f"{victim} died {point}, {book.done} writes done")
            await loop.run_in_executor(None, start_again, cluster, victim, points[number:])
        enough = book.done + WRITES
        await writes

    asyncio.run(asyncio.wait_for(everything(), 500))
    states = resolve(book, cluster)
    cluster.wait_until_equal()
    log = one_log(cluster)
    check_exactly_once(cluster, book, states, log[begin:])
    check_durable_is_ordered(cluster, log)
    elements = sum("urn:length" in entry.text for entry in log)
    for url in cluster.workers.values():
        signature, lines = recount(url)
        assert HTTP.get(f"{url}/status").json()["signature"] == signature
        assert len([line for line in lines if "<urn:element>" in line]) == elements
        lengths = [line for line in lines if "<urn:length>" in line]
        assert lengths == [
            f'<urn:list> <urn:length> "{elements}"^^<http://www.w3.org/2001/XMLSchema#integer> .'
        ]


def text_of(tag: str, number: int) -> str:
    """An element goes into the list, and the list's length one up: a second run or a loss shows."""
    return (
        "DELETE { ?k <urn:length> ?n } INSERT { ?k <urn:length> ?m ; <urn:element> ?e }"
        f" WHERE {{ VALUES (?k ?e) {{ (<urn:list> '{tag}/{number}') }}"
        " OPTIONAL { ?k <urn:length> ?n } BIND(COALESCE(?n, 0) + 1 AS ?m) }"
    )


def make_it(cluster: Cluster, victim: str, role: str) -> None:
    """A worker that was started again follows: to have it evaluate, its fellow is killed for a while."""
    if role != "evaluating worker":
        return
    fellow = next(w["id"] for w in cluster.status()["workers"] if w["id"] != victim)
    cluster.lab.kill(fellow)
    until(lambda: any(w["id"] == victim and w["evaluating"] for w in cluster.status()["workers"]))
    cluster.lab.start(fellow)


def at(point: Failpoint) -> str:
    """What QUADLOG_FAILPOINT has to be."""
    return f"{point}:{FEWER.get(point, VISIT)}"


def start_again(cluster: Cluster, victim: str, points: tuple[Failpoint, ...]) -> None:
    """To die at the next point; writes go on, and it may come by there often enough before it is ready."""
    if points:
        with suppress(SetupError):
            cluster.lab.start(victim, QUADLOG_FAILPOINT=at(points[0]))
    else:
        assert "serves" in cluster.lab.start(victim)
