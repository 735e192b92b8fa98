"""What a witness refuses before it is logged, and what it tells.  A real store and app; Kafka is a list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from producers.effects import EffectsMirror
from quadlog.core.model import HardState, first_view
from quadlog.master.http.app import make_app
from quadlog.master.seeds.seeding import Seeding
from quadlog.snapshots.store_archive import ArchiveManifest
from tests.support.masters.doors import NAMED, SPARQL, VOTING, Door, door, refusal

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.masterstore.store import MasterStore

REFUSED = "m1 of dc1 is read-only"


@pytest.fixture
def witness(store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Door:
    of = door(store, monkeypatch, tmp_path, roles={"m1": "read-only"})
    seeding = Seeding(of.node, of.settings, EffectsMirror(of.broker, "effects", "m1"))
    of.app = make_app(of.node, of.settings, peers=NAMED, seeding=seeding)
    return of


def test_whatever_would_be_logged_is_refused(witness: Door) -> None:
    """With the addresses of those that take it, the peers among them."""
    update, ask = "INSERT DATA { <urn:a> a 1 }", {"Content-Type": "application/sparql-query"}
    seed = {"signature": "11" * 32, "quads": 1, "digest": "22" * 32, "sources": ["a.nq"]}
    label = ArchiveManifest(signature="11" * 32, quads=1, digest="22" * 32, size=1)
    strict = {"Quadlog-Consistency": "strict"}
    for answer in (
        witness.ask("POST", "/update", content=update, headers=SPARQL),
        witness.ask("PUT", "/controls/a", content="ASK {}", headers=ask),
        witness.ask("DELETE", "/repositories/main/statements"),
        witness.ask("DELETE", "/cluster/peers/m2"),
        witness.add("m3", "dc3"),
        witness.ask("POST", "/cluster/seed", json=seed),
        witness.ask("PUT", "/cluster/seed/files", content=b"x", headers=label.headers()),
        witness.ask("GET", "/sparql", params={"query": "ASK {}"}, headers=strict),
    ):
        assert re.match(refusal(503, "ReadOnly", REFUSED), witness.told(answer))
        assert "send it to http://m2, with" in answer.json()["message"]
        assert int(answer.headers["Retry-After"]) > 0


def test_also_what_is_known_by_its_key(witness: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be done, so no 503; and it has no worker that shows it, so who tells is another one."""
    monkeypatch.setattr(witness.node.pending_requests, "is_known", lambda _: True)
    answer = witness.ask(
        "POST", "/update", content="CLEAR ALL", headers=SPARQL | {"Idempotency-Key": "again"}
    )
    assert re.match(r"504 OutcomeUnknown.* m1 is read-only", witness.told(answer))
    assert answer.json()["definite"] is False
    assert answer.headers["Location"] == f"http://m2/tx/{answer.headers['Quadlog-Tx']}"


def test_a_witness_tells_what_it_is(witness: Door) -> None:
    """And is never ready: whoever asks that sends clients there."""
    peers = witness.ask("GET", "/cluster/peers").json()
    assert (peers["role"], [peer["role"] for peer in peers["peers"]]) == (
        "read-only",
        ["read-only", "read-write", "read-write"],
    )
    status = witness.ask("GET", "/cluster/status").json()
    assert (status["role"], [peer["role"] for peer in status["peers"]]) == ("read-only", ["read-write"] * 2)
    ready = witness.ask("GET", "/healthz/ready")
    assert (ready.status_code, ready.text.split(",")[0]) == (503, "read-only")
    assert [witness.ask("GET", f"/healthz/{door}").status_code for door in ("alive", "started")] == [200, 200]
    assert witness.ask("GET", "/cluster/seed?here").json()["dcs"]["dc1"]["role"] == "read-only"


def test_outside_it_says_that(store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of = door(
        store,
        monkeypatch,
        tmp_path,
        HardState(view=first_view(VOTING), outside=True),
        roles={"m1": "read-only"},
    )
    assert of.ask("GET", "/cluster/status").json()["role"] == "outside"


def test_the_last_one_that_takes_writes_stays(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = door(store, monkeypatch, tmp_path, roles={"m2": "read-only"})
    assert re.match(
        refusal(409, "PeersStay", "the only peer that takes writes"),
        of.told(of.ask("DELETE", "/cluster/peers/m1")),
    )
    answer = of.ask("DELETE", "/cluster/peers/m2")
    assert re.match(refusal(503, "Unavailable", "no worker"), of.told(answer)), "the witness may go"
