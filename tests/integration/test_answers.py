"""503 is definite, and what may be done is 504: at the door of a real node and store; Kafka is a list."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from quadlog.clock import now
from quadlog.core.messages import Submitted
from quadlog.core.model import HardState, Transaction, View, first_view, id_of_key
from quadlog.core.records import WorkerState
from quadlog.master.clients.pending_requests import TxAnswer
from quadlog.master.http.proposals import Proposals
from quadlog.master.http.read_proxy import ReadProxy
from tests.support.masters.beats import beat
from tests.support.masters.doors import SPARQL, VOTING, Door, door, refusal

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.core.model import Payload
    from quadlog.masterstore.store import MasterStore

KEY = {"Idempotency-Key": "again"}
UNKNOWN = r"504 OutcomeUnknown, who knows what was logged: .*/tx/"
STRICT: dict[str, Any] = {"params": {"query": "ASK {}"}, "headers": {"Quadlog-Consistency": "strict"}}
ALONE = HardState(view=View(epoch=2, members=("m1",), parent=first_view(VOTING).id))


@pytest.fixture
def one(store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Door:
    """Of a master without workers: whatever is new there is refused."""
    return door(store, monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("method", "path", "rest"),
    [
        ("POST", "/update", {"content": "CLEAR ALL", "headers": SPARQL}),
        ("POST", "/repositories/main/statements", {"content": "CLEAR ALL", "headers": SPARQL}),
        ("PUT", "/repositories/main/statements", {"content": "", "headers": {"Content-Type": "text/turtle"}}),
        ("DELETE", "/repositories/main/statements", {"headers": {}}),
        ("DELETE", "/controls/typed", {"headers": {}}),
        ("POST", "/cluster/peers", {"json": {"id": "m3", "dc": "dc3"}, "headers": {}}),
        ("DELETE", "/cluster/peers/m2", {"headers": {}}),
    ],
)
def test_nothing_that_is_known_is_told_that_nothing_was_logged(
    one: Door, method: str, path: str, rest: dict[str, Any]
) -> None:
    """Its first sender was told that the outcome is unknown: who tries again takes a 503 for the outcome."""
    rest = rest | {"headers": rest["headers"] | KEY}
    assert re.match(refusal(503, "Unavailable", "no worker"), one.told(one.ask(method, path, **rest)))
    one.node.agreement.step(
        Submitted(transaction=Transaction(id=id_of_key("main", "again"), digest=bytes(32))), now()
    )
    answer = one.ask(method, path, **rest)
    assert re.match(UNKNOWN, one.told(answer))
    assert answer.headers["Location"] == f"/tx/{answer.headers['Quadlog-Tx']}"


def test_who_is_waiting_when_the_server_stops_is_told_that_the_outcome_is_unknown(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server cancels what is still open: not a 500 that says nothing, after all was logged."""
    one = door(store, monkeypatch, tmp_path, request_timeout=60)
    monkeypatch.setattr(one.node, "knows", lambda _: True)
    waits, outcome = asyncio.Event(), Proposals._outcome

    async def waited(proposals: Proposals, payload: Payload) -> TxAnswer:
        waits.set()
        return await outcome(proposals, payload)

    monkeypatch.setattr(Proposals, "_outcome", waited)

    async def stopped() -> httpx.Response:
        transport = httpx.ASGITransport(app=one.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://m1") as client:
            asking = asyncio.ensure_future(client.post("/update", content="CLEAR ALL", headers=SPARQL))
            async with asyncio.timeout(60):
                await waits.wait()
            asking.cancel()
            return await asking

    answer = asyncio.run(stopped())
    assert re.match(UNKNOWN, one.told(answer))
    assert "stops" in answer.json()["message"]
    assert answer.headers["Location"] == f"/tx/{answer.headers['Quadlog-Tx']}"


def test_a_strict_read_without_a_majority_is_refused_at_once(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = door(store, monkeypatch, tmp_path, ALONE)
    answer = of.ask("GET", "/sparql", **STRICT)
    assert (answer.status_code, answer.json()["error"], answer.json()["definite"]) == (
        503,
        "NoMajority",
        True,
    )
    assert int(answer.headers["Retry-After"]) > 0
    assert not of.broker.payloads, "no barrier was offered"


@pytest.mark.parametrize("by_majority", [True, False])
def test_a_barrier_counts_only_if_a_majority_agreed_on_it(
    one: Door, monkeypatch: pytest.MonkeyPatch, *, by_majority: bool
) -> None:
    """The view may lose its majority after the read came, or give way to a side that has the entry."""

    async def agreed(*_: object, **__: object) -> TxAnswer:
        return TxAnswer(index=1, chain=b"", by_majority=by_majority)

    monkeypatch.setattr(Proposals, "_outcome", agreed)
    monkeypatch.setattr("quadlog.master.http.reads.WAIT_S", 0)
    said = one.ask("GET", "/sparql", **STRICT).json()
    assert said["error"] == ("Unavailable" if by_majority else "NoMajority"), said


def test_a_dismissal_that_is_still_to_come_is_no_refusal(one: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's thread has not taken it in yet, and will."""
    monkeypatch.setattr("quadlog.master.http.dismissal.LOOKS", 3)
    one.node.worker_registry.on_heartbeat(beat("w1", state=WorkerState.STARTING), 0)
    answer = one.ask("DELETE", "/cluster/workers/w1")
    assert (answer.status_code, answer.json()["definite"]) == (504, False)
    assert answer.headers["Location"] == "/cluster/status"
    one.node._turn()
    assert one.node.worker_registry.known("w1") is None


@pytest.mark.parametrize(
    ("error", "status", "place"),
    [(httpx.ConnectError("refused"), 503, None), (httpx.ReadError("broke off"), 504, "/queries")],
)
def test_a_query_may_have_been_ended_by_who_did_not_answer(
    one: Door, monkeypatch: pytest.MonkeyPatch, error: httpx.HTTPError, status: int, place: str | None
) -> None:
    async def fails(*_: object) -> httpx.Response:
        raise error

    monkeypatch.setattr(ReadProxy, "call", fails)
    one.node.worker_registry.on_heartbeat(beat("w1"), 0)
    answer = one.ask("DELETE", "/queries/w1-1-1")
    assert (answer.status_code, answer.headers.get("Location")) == (status, place)
    assert answer.json()["definite"] is (status == 503)
