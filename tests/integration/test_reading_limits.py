"""A read ends at its limits, by hand, or with its client, and nothing else notices."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from quadlog.settings.units import MIB
from tests.support.workers.served import ENDLESS, gone, lives, served

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


GREEDY = (
    'SELECT (GROUP_CONCAT(?x; separator="") AS ?all) { SELECT (CONCAT(STR(?c), STR(?f), STR(?i), "'
    + "x" * 1000
    + '") AS ?x) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } }'
)


STREAM = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
"""Eight million rows."""


async def test_a_cross_join_ends_at_its_time_limit(tmp_path: Path) -> None:
    async with served(tmp_path, query_timeout=60) as here:  # of its own: others have theirs on a busy machine
        await here.ready()
        asked, ended = time.monotonic(), list[float]()
        asking = asyncio.create_task(here.ask(ENDLESS, timeout="3"))
        asking.add_done_callback(lambda _: ended.append(time.monotonic()))
        read = await here.one_begun()
        begun = time.monotonic()
        assert (read["text"], read["worker"], read["sent"]) == (ENDLESS, "w1", 0)
        assert lives(read["pid"])
        here.update("INSERT DATA { <urn:new> <urn:p> 1 }")  # applying goes on, and so do reads
        assert (await here.ask("ASK { <urn:new> <urn:p> 1 }")).json()["boolean"] is True
        answer = await asking
        assert ended[0] - asked > 3
        assert ended[0] - begun < 7.4
        assert (answer.status_code, answer.headers["quadlog-final"]) == (503, "true")
        assert (answer.json()["error"], answer.json()["definite"]) == ("QueryStopped", True)
        assert "its time limit, 3 s" in answer.json()["message"]
        await gone(read["pid"])
        assert await here.listed() == []
        assert (await here.ask("ASK {}")).status_code == 200


RING = " ".join(f"<urn:n{n}> <urn:next> <urn:n{(n + 1) % 40}> ." for n in range(40))
NESTED = "SELECT (COUNT(*) AS ?n) { ?a ((((<urn:next>+)+)+)+)+ ?b }"
"""On a ring of 40 nodes: 1.3 s with three of these plus signs, at least 40 times that with each more."""


async def test_nested_paths_end_at_their_time_limit(tmp_path: Path) -> None:
    async with served(tmp_path, query_timeout=3) as here:
        await here.ready()
        here.update(f"INSERT DATA {{ {RING} }}")
        asking = asyncio.create_task(here.ask(NESTED))
        read = await here.one_begun()
        answer = await asking
        assert (answer.status_code, answer.json()["error"]) == (503, "QueryStopped")
        await gone(read["pid"])


async def test_a_request_may_ask_for_less_time_and_not_for_more(tmp_path: Path) -> None:
    async with served(tmp_path, query_timeout=0.9) as here:
        for asked, limit in (("0.3", "0.3 s"), ("60", "0.9 s"), ("0", "0.9 s")):
            assert limit in (await here.ask(ENDLESS, timeout=asked)).json()["message"]
        assert (await here.ask(ENDLESS, timeout="soon")).status_code == 400


async def test_a_deleted_query_is_gone(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        asking = asyncio.create_task(here.ask(ENDLESS))
        read = await here.one_begun()
        assert (await here.client.delete(f"/queries/{read['id']}")).status_code == 204
        answer = await asking
        assert (answer.status_code, answer.json()["error"]) == (503, "QueryStopped")
        assert "deleted" in answer.json()["message"]
        await gone(read["pid"])
        again = await here.client.delete(f"/queries/{read['id']}")
        assert (again.status_code, again.json()["error"]) == (404, "NoSuchQuery")


async def test_a_client_that_leaves_ends_its_query(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        asking = asyncio.create_task(here.ask(ENDLESS))
        read = await here.one_begun()
        asking.cancel()
        await gone(read["pid"])
        assert await here.listed() == []


async def test_a_query_that_eats_memory_dies_alone(tmp_path: Path) -> None:
    async with served(tmp_path, query_memory=400 * MIB, query_timeout=280) as here:
        asking = asyncio.create_task(here.ask(GREEDY))
        read = await here.one_begun()
        most, others = 0, 0
        while not asking.done():
            most = max([most, *(found["memory"] for found in await here.listed())])
            here.update(f"INSERT DATA {{ <urn:new> <urn:p> {others} }}")
            assert (await here.ask(f"ASK {{ <urn:new> <urn:p> {others} }}")).json()["boolean"] is True
            others += 1
        answer = await asking
        print(f"at most {most / MIB:.0f} MiB were seen; {others} other reads meanwhile")
        assert (answer.status_code, answer.json()["error"]) == (503, "QueryStopped")
        assert "query-memory allows 419430400" in answer.json()["message"]
        assert most < 550 * MIB
        await gone(read["pid"])


@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("SELECT * { ?a ?b ?c . ?d ?e ?f } LIMIT %d", "application/sparql-results+json"),
        ("SELECT * { ?a ?b ?c . ?d ?e ?f } LIMIT %d", "text/csv"),
        ("CONSTRUCT { ?a ?b ?f } WHERE { ?a ?b ?c . ?d ?e ?f } LIMIT %d", "text/turtle"),
    ],
)
async def test_rows_are_limited(tmp_path: Path, query: str, accept: str) -> None:
    async with served(tmp_path, query_rows=20) as here:
        here.client.headers["accept"] = accept
        assert (await here.ask(query % 20)).status_code == 200
        answer = await here.ask(query % 21)
        assert (answer.status_code, answer.json()["error"]) == (503, "QueryStopped")
        assert "query-rows allows (20)" in answer.json()["message"]


async def test_after_the_first_byte_the_transfer_is_broken_off(tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with served(tmp_path, query_timeout=6) as here:
        await here.ready()
        receive = asyncio.Event()
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/sparql",
            "headers": [],
            "query_string": urlencode({"query": STREAM}).encode(),
        }
        await here.app(scope, receive.wait, send)  # type: ignore[arg-type]
        assert sent[0]["status"] == 200
        assert sum(len(message["body"]) for message in sent[1:]) > MIB
        assert all(message["more_body"] for message in sent[1:]), "its end never comes"
        assert await here.listed() == []
