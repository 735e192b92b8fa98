"""Reads in processes of their own: what they show, and what is no read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.worker.reads.feed import Feed
from tests.support.workers.served import gone, served

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


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
        for reader in list(here.readers.idle):
            here.readers.discard(reader)
        answer = await here.ask("ASK { <urn:early> ?p ?o }")
        assert answer.json()["boolean"] is False
        worker.catch_up()
        assert not worker.store._ahead
        answer = await here.ask("SELECT * { <urn:early> ?p ?o }")
        assert len(answer.json()["results"]["bindings"]) == 2


async def test_during_a_large_commit_reads_show_what_was_before_and_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, most=1) as here:
        store, commit = here.worker.store, here.worker.store.apply_updates
        here.worker.replica._following._feed = here.readers._feed = here.scheduler._feed = Feed(
            store.applied.index, kept=1000
        )
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers.idle
        commits: list[Any] = []
        monkeypatch.setattr(store, "apply_updates", lambda *args, **named: commits.append((args, named)))
        here.update("INSERT DATA {" + " ".join(f"<urn:x> <urn:n> {n} ." for n in range(100)) + "}")
        assert (await here.ask("ASK { <urn:x> ?p ?o }")).json()["boolean"] is False
        assert here.readers.idle == [first]
        [(args, named)] = commits
        commit(*args, **named)
        assert (await here.ask("ASK { <urn:x> ?p ?o }")).json()["boolean"] is True
        await gone(first.pid)


async def test_what_is_wrong_with_a_query_is_said_as_ever(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        wrong = {
            "SELECT": "SyntaxRefused",
            "DELETE WHERE { ?s ?p ?o }": "Forbidden",
            "SELECT * { SERVICE <urn:x> {} }": "Unsupported",
        }
        for text, error in wrong.items():
            assert (await here.ask(text)).json()["error"] == error
        assert len({reader.pid for reader in here.readers.idle}) == len(here.readers.idle)


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
