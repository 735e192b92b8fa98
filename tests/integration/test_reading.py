"""Reads in processes of their own: up to date, ended by limits and by hand, harming nobody else."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx
import pytest

from quadlog.settings import MIB
from quadlog.worker import reader as reader_module
from quadlog.worker import readers as readers_module
from quadlog.worker.app import make_app
from quadlog.worker.dryrun import DryRuns
from quadlog.worker.feed import Feed
from quadlog.worker.mend import Mender
from quadlog.worker.readers import Readers
from quadlog.worker.reads import Reads
from quadlog.worker.seed_door import SeedDoor
from quadlog.worker.seedbed import Seedbed
from tests.integration.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

pytestmark = pytest.mark.anyio

ENDLESS = "SELECT (COUNT(*) AS ?n) {" + "".join(f" ?a{n} ?b{n} ?c{n} ." for n in range(9)) + " }"
"""200 to the power of 9."""
GREEDY = (
    'SELECT (GROUP_CONCAT(?x; separator="") AS ?all) { SELECT (CONCAT(STR(?c), STR(?f), STR(?i), "'
    + "x" * 1000
    + '") AS ?x) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } }'
)
STREAM = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
"""Eight million rows."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Served:
    """A worker without Kafka, and its door."""

    def __init__(self, worker: Worker, readers: Readers, app: ASGIApp) -> None:
        self.worker, self.readers, self.app = worker, readers, app
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://w1", timeout=60
        )

    async def ask(self, text: str, **parameters: str) -> httpx.Response:
        return await self.client.get("/sparql", params={"query": text, **parameters})

    async def listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.client.get("/queries")).json()["queries"]
        return found

    async def one_listed(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while not (found := await self.listed()):
                await asyncio.sleep(0.01)
        return found[0]

    def update(self, text: str) -> None:
        self.worker.log.agree(text)
        self.worker.catch_up()


@asynccontextmanager
async def served(
    path: Path,
    *,
    quads: int = 200,
    most: int = 4,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[Served]:
    worker = Worker(path, Log(), "w1")
    worker.take_over()
    data = " ".join(f"<urn:s{n}> <urn:p> 'value {n}' ." for n in range(quads))
    worker.log.agree(f"INSERT DATA {{ {data} }}")
    worker.catch_up()
    readers = Readers(worker.store, worker.feed, path / "copies", most=most, turn_s=30)
    reads = Reads(readers, "w1")
    limits = worker.settings.model_copy(update=settings)
    beside = [asyncio.create_task(readers.run()), asyncio.create_task(reads.run())]
    try:
        mender = Mender(limits, TOPICS, worker.store.name, worker.replica.health, lambda: None)
        here = Served(
            worker,
            readers,
            make_app(
                worker.replica,
                reads,
                mender,
                DryRuns(worker.store, limits),
                limits,
                seeds=SeedDoor(Seedbed(path, worker.store, worker.replica.health, lambda: None)),
            ),
        )
        async with here.client:
            yield here
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        worker.close()
        assert not [path for path in (path / "copies").glob("*") if path.is_dir()]


def lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def gone(pid: int) -> None:
    """Its CPU and its memory are free."""
    deadline = time.monotonic() + 10
    while lives(pid):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_cross_join_ends_at_its_time_limit(tmp_path: Path) -> None:
    async with served(tmp_path, query_timeout=0.6) as here:
        asking = asyncio.create_task(here.ask(ENDLESS))
        began = time.monotonic()
        read = await here.one_listed()
        assert (read["text"], read["worker"], read["sent"]) == (ENDLESS, "w1", 0)
        assert lives(read["pid"])
        here.update("INSERT DATA { <urn:new> <urn:p> 1 }")  # applying goes on, and so do reads
        assert (await here.ask("ASK { <urn:new> <urn:p> 1 }")).json()["boolean"] is True
        answer = await asking
        assert 0.3 < time.monotonic() - began < 5
        assert (answer.status_code, answer.headers["quadlog-final"]) == (503, "true")
        assert (answer.json()["error"], answer.json()["definite"]) == ("QueryStopped", True)
        assert "0.6 s" in answer.json()["message"]
        await gone(read["pid"])
        assert await here.listed() == []
        assert (await here.ask("ASK {}")).status_code == 200


async def test_a_request_may_ask_for_less_time_and_not_for_more(tmp_path: Path) -> None:
    async with served(tmp_path, query_timeout=0.9) as here:
        for asked, limit in (("0.3", "0.3 s"), ("60", "0.9 s"), ("0", "0.9 s")):
            assert limit in (await here.ask(ENDLESS, timeout=asked)).json()["message"]
        assert (await here.ask(ENDLESS, timeout="soon")).status_code == 400


async def test_a_deleted_query_is_gone(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        asking = asyncio.create_task(here.ask(ENDLESS))
        read = await here.one_listed()
        assert (await here.client.delete(f"/queries/{read['id']}")).status_code == 204
        answer = await asking
        assert (answer.status_code, answer.json()["error"]) == (503, "QueryStopped")
        assert "deleted" in answer.json()["message"]
        await gone(read["pid"])
        again = await here.client.delete(f"/queries/{read['id']}")
        assert (again.status_code, again.json()["error"]) == (404, "NoSuchQuery")


async def test_a_query_that_eats_memory_dies_alone(tmp_path: Path) -> None:
    async with served(tmp_path, query_memory=400 * MIB) as here:
        asking = asyncio.create_task(here.ask(GREEDY))
        read = await here.one_listed()
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

    async with served(tmp_path, query_timeout=0.8) as here:
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


async def test_a_client_that_leaves_ends_its_query(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        asking = asyncio.create_task(here.ask(ENDLESS))
        read = await here.one_listed()
        asking.cancel()
        await gone(read["pid"])
        assert await here.listed() == []


async def test_what_was_applied_is_read_while_fifty_updates_a_second_come(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        for number in range(100):
            here.update(
                f"DELETE {{ ?x <urn:n> ?n }} INSERT {{ <urn:x> <urn:n> {number} }}"
                " WHERE { OPTIONAL { ?x <urn:n> ?n } }"
            )
            answers = await asyncio.gather(*(here.ask("SELECT ?n { <urn:x> <urn:n> ?n }") for _ in range(3)))
            for answer in answers:
                assert [row["n"]["value"] for row in answer.json()["results"]["bindings"]] == [str(number)]
                assert int(answer.headers["quadlog-index"].split(":")[0]) == number + 2
            await asyncio.sleep(0.02)


async def test_a_copy_is_the_store_in_every_quad(tmp_path: Path) -> None:
    """Blank nodes, empty graphs, graphs that come and go: after hundreds of effects as after none."""
    async with served(tmp_path) as here:
        await here.ask("ASK {}")
        here.update(
            "INSERT DATA { GRAPH <urn:g> { _:a <urn:p> [ <urn:q> '01'^^<urn:t> ] }"
            " GRAPH <urn:h> { <urn:a> <urn:b> 01 } }"
        )
        here.update("DELETE WHERE { GRAPH <urn:h> { ?s ?p ?o } } ; CREATE GRAPH <urn:i>")
        here.update("WITH <urn:g> DELETE { ?s <urn:p> ?o } INSERT { _:n <urn:p> ?o } WHERE { ?s <urn:p> ?o }")
        here.update("DROP GRAPH <urn:i> ; DROP SILENT GRAPH <urn:none>")
        answer = await here.client.get("/statements")
        assert sorted(answer.text.splitlines()) == sorted(here.worker.store.lines())


async def test_what_is_anticipated_is_in_no_answer_and_no_read_waits_for_it(tmp_path: Path) -> None:
    async with served(tmp_path, most=2) as here:
        log, worker = here.worker.log, here.worker
        log.agree("INSERT DATA { <urn:early> <urn:p> 1 }")
        log.agree("INSERT { <urn:early> <urn:q> ?o } WHERE { <urn:early> <urn:p> ?o }")
        worker.hear("main.dc1.agreed")
        worker.turn()
        assert worker.store._ahead
        # Both processes: a copy that was made before, and one that is made of a store that is ahead.
        for reader in list(here.readers._idle):
            here.readers._idle.remove(reader)
            here.readers._discard(reader)
        answer = await here.ask("ASK { <urn:early> ?p ?o }")
        assert answer.json()["boolean"] is False
        worker.catch_up()
        assert not worker.store._ahead
        answer = await here.ask("SELECT * { <urn:early> ?p ?o }")
        assert len(answer.json()["results"]["bindings"]) == 2


async def test_a_process_that_lacks_more_than_is_kept_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "TELL_S", 3600)
    async with served(tmp_path, most=1) as here:
        feed = Feed(here.worker.store.applied.index, kept=1000)
        here.worker.replica._feed = here.readers._feed = feed
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers._idle
        for number in range(10):
            here.update(f"INSERT DATA {{ <urn:x> <urn:n> {number} }}")
        answer = await here.ask("SELECT * { <urn:x> <urn:n> ?n }")
        assert len(answer.json()["results"]["bindings"]) == 10
        await gone(first.pid)


async def test_what_a_process_had_before_is_not_the_querys_and_a_fat_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each effect that it follows leaves memory behind; under load it is never seen idle."""
    monkeypatch.setattr(readers_module, "TELL_S", 3600)
    monkeypatch.setattr(reader_module, "WORN_AFTER_MS", 0)
    monkeypatch.setattr(reader_module, "WORN_MEMORY", 40 * MIB)
    long = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    async with served(tmp_path, quads=90, most=1, query_memory=25 * MIB) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers._idle
        grown, number = first.memory() + 30 * MIB, 0
        while first.memory() < grown:
            rows = " ".join(f"<urn:{number}> <urn:n> '{'x' * 500}{n}' ." for n in range(1000))
            here.update(f"INSERT DATA {{ GRAPH <urn:g> {{ {rows} }} }}")
            assert (await here.ask("ASK {}")).status_code == 200
            number += 1
        assert here.readers._idle == [first]
        assert (await here.ask(long)).status_code == 200
        while here.readers._idle == [first]:
            here.update(f"INSERT DATA {{ GRAPH <urn:g> {{ <urn:x> <urn:n> '{'x' * 500_000}{number}' }} }}")
            assert (await here.ask("ASK {}")).status_code == 200
            number += 1
            assert number < 100
        await gone(first.pid)


async def test_where_nobody_reads_no_process_follows_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To follow costs CPU in every worker.  Without writes the process stays, and with a read there is one again."""
    monkeypatch.setattr(readers_module, "IDLE_MS", 300)
    async with served(tmp_path, most=2) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        await asyncio.sleep(1)
        [first] = here.readers._idle
        here.update("INSERT DATA { <urn:x> <urn:n> 1 }")
        await gone(first.pid)
        here.update("INSERT DATA { <urn:x> <urn:n> 2 }")
        assert here.worker.feed.behind(1) is None, "nothing is kept for nobody"
        assert not here.readers._idle
        answer = await here.ask("SELECT * { <urn:x> <urn:n> ?n }")
        assert len(answer.json()["results"]["bindings"]) == 2
        here.update("INSERT DATA { <urn:x> <urn:n> 3 }")
        answer = await here.ask("SELECT * { <urn:x> <urn:n> ?n }")
        assert len(answer.json()["results"]["bindings"]) == 3


async def test_during_a_large_commit_reads_show_what_was_before_and_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, most=1) as here:
        store, commit = here.worker.store, here.worker.store.apply
        here.worker.replica._feed = here.readers._feed = Feed(store.applied.index, kept=1000)
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers._idle
        commits: list[Any] = []
        monkeypatch.setattr(store, "apply", lambda *args, **named: commits.append((args, named)))
        here.update("INSERT DATA {" + " ".join(f"<urn:x> <urn:n> {n} ." for n in range(100)) + "}")
        assert (await here.ask("ASK { <urn:x> ?p ?o }")).json()["boolean"] is False
        assert here.readers._idle == [first]
        [(args, named)] = commits
        commit(*args, **named)
        assert (await here.ask("ASK { <urn:x> ?p ?o }")).json()["boolean"] is True
        await gone(first.pid)


async def test_an_idle_process_that_died_is_not_asked(tmp_path: Path) -> None:
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers._idle
        first.kill()
        await asyncio.to_thread(first._process.wait)
        assert (await here.ask("ASK {}")).status_code == 200


async def test_when_all_are_busy_a_read_is_told_to_go_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path, most=2) as here:
        asking = [asyncio.create_task(here.ask(ENDLESS)) for _ in range(2)]
        while len(await here.listed()) < 2:
            await asyncio.sleep(0.01)
        here.readers._turn_s = 2
        answer = await here.ask("ASK {}")
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert "free for 2 s: 2 of 2 are busy" in answer.json()["message"]
        assert "quadlog-final" not in answer.headers
        for read in await here.listed():
            await here.client.delete(f"/queries/{read['id']}")
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {503}


async def test_errors_and_answers_side_by_side_share_processes(tmp_path: Path) -> None:
    """A process that answered one read may be another one's at once: nobody ends it for the first."""
    async with served(tmp_path, most=2) as here:
        await here.ask("ASK {}")
        texts = ("ASK {}", "SELECT", "SELECT * { ?s ?p ?o }", "SELECT * { ?s ?p ?o FILTER(1/0) }") * 25
        answers = await asyncio.gather(*map(here.ask, texts))
        assert [answer.status_code for answer in answers] == [200, 400, 200, 200] * 25
        assert next(here.readers._numbers) == 3, "two were started, and none anew"


@pytest.mark.alone
async def test_without_room_for_a_copy_a_read_is_told_why_at_once(tmp_path: Path) -> None:
    (tmp_path / "copies").touch()
    async with served(tmp_path) as here:
        began = time.monotonic()
        answer = await here.ask("ASK {}")
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert "no reading process could be started" in answer.json()["message"]
        assert time.monotonic() - began < 1.9, "not its whole turn"
        (tmp_path / "copies").unlink()
        await asyncio.sleep(2.3)
        assert (await here.ask("ASK {}")).status_code == 200


async def test_what_is_wrong_with_a_query_is_said_as_ever(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        wrong = {
            "SELECT": "SyntaxRefused",
            "DELETE WHERE { ?s ?p ?o }": "Forbidden",
            "SELECT * { SERVICE <urn:x> {} }": "Unsupported",
        }
        for text, error in wrong.items():
            assert (await here.ask(text)).json()["error"] == error
        assert len({reader.pid for reader in here.readers._idle}) == len(here.readers._idle)


async def test_all_statements_are_not_given_to_who_asked_for_some(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        for asked in ({"context": "<urn:g>"}, {"subj": "<urn:s1>"}, {"timeout": "-1", "infer": "false"}):
            answer = await here.client.get("/statements", params=asked)
            assert (answer.status_code, answer.json()["error"]) == (400, "UserError")
        answer = await here.client.get("/statements", params={"infer": "false"})
        assert (answer.status_code, answer.text.count("\n")) == (200, 200)


@pytest.mark.parametrize("handover", ["-1e999", "NaN", '"x"', "[]", "null"])
async def test_what_is_no_request_to_evaluate_is_said_so(tmp_path: Path, handover: str) -> None:
    async with served(tmp_path) as here:
        body = f'{{"dc": "dc1", "term": "{"00" * 32}", "handover": {handover}}}'
        answer = await here.client.post("/evaluate", content=body)
        assert (answer.status_code, answer.json()["error"]) == (400, "UserError")
