"""A master falls silent: what the others are given waits, within bounds, and is agreed when it speaks again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.bench.generator import Connection
from tests.support.clusters.cluster import Cluster, counted, index_of, rss
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITING = 5200
"""More than one post holds."""
CLIENTS = 300
MIB = 1024 * 1024
ENVIRONMENT = {
    "QUADLOG_MAX_WAITING": str(WAITING),
    "QUADLOG_REQUEST_TIMEOUT": "1",
    "QUADLOG_IDLE_ROUND": "20",  # writes wait for a silent master for five of them
    "QUADLOG_MAX_PEER_LAG": "off",
}


@pytest.fixture(scope="module")
def short_of_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three data centres whose masters let no more than WAITING transactions wait."""
    directory = tmp_path_factory.mktemp("silence") / "lab"
    with BROKERS.lab(directory, dcs=3, workers=1, environment=ENVIRONMENT) as lab:
        yield Cluster(lab)


async def give(masters: list[str], numbers: range) -> list[httpx.Response]:
    """One update for each number, many at once, at these masters by turns.

    Each has a key, so that a connection that its server closed just then does no harm.
    """
    left = iter(numbers)
    answers: list[httpx.Response] = []

    async def loop() -> None:
        connections: dict[str, Connection] = {}
        for number in left:
            text, url = (
                f'INSERT DATA {{ <urn:silence:{number}> <urn:is> "{number}" }}',
                masters[number % len(masters)],
            )
            while True:
                try:
                    connections[url] = connections.get(url) or await Connection.to(url)
                    answer = await connections[url].update(text, key=f"silence-{number}")
                    break
                except (OSError, EOFError):
                    if lost := connections.pop(url, None):
                        with suppress(OSError):
                            await lost.close()
            answers.append(httpx.Response(answer.status, headers=answer.headers, content=answer.body))
        for connection in connections.values():
            await connection.close()

    await asyncio.gather(*(loop() for _ in range(min(CLIENTS, len(numbers)))))
    return answers


def kinds(answers: list[httpx.Response]) -> set[tuple[int, str, bool]]:
    """What was answered: status, error, definite."""
    return {(a.status_code, a.json()["error"], a.json()["definite"]) for a in answers}


async def until_incoming(cluster: Cluster, masters: tuple[int, ...], count: int) -> list[dict[str, Any]]:
    """Until that many transactions wait at each of these masters."""
    for _ in range(600):
        found = [cluster.status(number) for number in masters]
        if all(status["incoming"] == count for status in found):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError([status["incoming"] for status in found])


@pytest.mark.long("more than one post holds has to wait")
def test_what_waits_for_a_silent_master_is_bounded_and_agreed_in_the_end(short_of_room: Cluster) -> None:
    cluster = short_of_room
    first, silent, _ = (master["id"] for master in cluster.lab.masters)
    before = cluster.wait_until_equal()
    at_start = {master["id"]: rss(master["pid"]) for master in cluster.lab.masters}
    cluster.lab.kill(silent, "STOP")
    others = [cluster.masters[0], cluster.masters[2]]

    # They are taken, and told that they wait.
    answers = asyncio.run(give(others, range(WAITING)))
    assert kinds(answers) == {(504, "OutcomeUnknown", False)}
    statuses = asyncio.run(until_incoming(cluster, (0, 2), WAITING))
    assert {status["agreed_index"] for status in statuses} == {before}
    assert {status["waiting"] for status in statuses} == {0}, "who was answered is not waited for"
    for master in cluster.lab.masters:
        grown = rss(master["pid"]) - at_start[master["id"]]
        print(f"{master['id']}: {grown / MIB:.0f} MiB more with {WAITING} waiting")
        assert grown < 100 * MIB

    # One more is refused, and says what to do; a known one is not refused.
    refused = asyncio.run(give(others, range(WAITING, WAITING + 50)))
    assert kinds(refused) == {(503, "Unavailable", True)}
    assert {answer.headers["Retry-After"] for answer in refused} == {"5"}
    assert "max-waiting" in refused[0].json()["message"]
    assert {cluster.status(number)["incoming"] for number in (0, 2)} == {WAITING}

    assert kinds(asyncio.run(give(others, range(5)))) == {(504, "OutcomeUnknown", False)}

    # A master that starts again behind such a queue says and hears all of it again.
    cluster.lab.kill(first)
    cluster.lab.start(first)
    asyncio.run(until_incoming(cluster, (0, 2), WAITING))

    cluster.lab.kill(silent, "CONT")
    assert cluster.wait_until_equal(seconds=120) >= before
    asyncio.run(until_incoming(cluster, (0, 1, 2), 0))
    assert cluster.wait_until_equal(seconds=120) == before + WAITING
    for url in cluster.workers.values():
        assert counted(url, "?s <urn:is> ?o") == WAITING

    # What was known is answered with where it is; what was refused is new.
    known = asyncio.run(give(cluster.masters, range(10)))
    assert {answer.status_code for answer in known} == {204}
    assert all(before < index_of(answer) <= before + WAITING for answer in known)
    new = asyncio.run(give(cluster.masters, range(WAITING, WAITING + 10)))
    assert sorted(map(index_of, new)) == [before + WAITING + number for number in range(1, 11)]
