"""Who the peers are, and what is refused before it is logged.  A real store and app; Kafka is a list."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from producers.effects import EffectsMirror
from quadlog.core.model import HardState, Peer, RejoinedMember, View, first_view
from quadlog.master.http.app import make_app
from quadlog.master.seeds.seeding import Seeding
from quadlog.snapshots.store_archive import ArchiveManifest
from tests.support.masters.doors import NAMED, SPARQL, VOTING, Door, door, refusal, saying

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.masterstore.store import MasterStore


@pytest.fixture
def one(store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Door:
    """Of a master that is a peer."""
    return door(store, monkeypatch, tmp_path)


def test_all_that_the_settings_name_are_listed(one: Door) -> None:
    said = one.ask("GET", "/cluster/peers").json()
    assert (said["node"], said["dc"], said["role"]) == ("m1", "dc1", "read-write")
    listed = [(p["id"], p["dc"], p["url"], p["peer"], p["decided"], p["reachable"]) for p in said["peers"]]
    assert listed == [
        ("m1", "dc1", "http://m1", True, True, True),
        ("m2", "dc2", "http://m2", True, True, False),
        ("m3", "dc3", "http://m3", False, True, False),
    ]
    status = one.ask("GET", "/cluster/status").json()
    assert status["role"] == "read-write"
    assert [(peer["id"], peer["state"]) for peer in status["peers"]] == [("m2", "silent"), ("m3", "outside")]


def test_what_is_agreed_and_not_decided_is_told(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """m2 is removed by the view, m3 added by an entry that no view names yet."""
    m1, m2, m3 = Peer("m1", "dc1"), Peer("m2", "dc2"), Peer("m3", "dc3")
    view = View(epoch=2, members=("m1", "m2"), peers=(m1,), before=(m1, m2))
    of = door(store, monkeypatch, tmp_path, HardState(view=view, changes=((m1, m3),)))
    peers = of.ask("GET", "/cluster/peers").json()["peers"]
    assert [(peer["id"], peer["peer"], peer["decided"]) for peer in peers] == [
        ("m1", True, True),
        ("m2", False, False),
        ("m3", True, False),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"m3",
        b"[]",
        b'{"id": "m3"}',
        b'{"id": 3, "dc": "dc3"}',
        b'{"id": "m3", "dc": ""}',
        b'{"id": "m3", "dc": "dc3", "force": true}',
    ],
)
def test_a_body_that_is_not_understood(one: Door, body: bytes) -> None:
    assert re.match(
        refusal(400, "UserError", '{"id": "…", "dc": "…"}'),
        one.told(one.ask("POST", "/cluster/peers", content=body)),
    )


def test_who_cannot_be_added(one: Door) -> None:
    assert re.match(refusal(404, "NoSuchPeer", "do not name m4"), one.told(one.add("m4", "dc4")))
    assert re.match(refusal(400, "UserError", "m3 is in dc3 by the settings"), one.told(one.add("m3", "dc2")))
    assert re.match(refusal(409, "PeersStay", "m2 is a peer already"), one.told(one.add("m2", "dc2")))


def test_who_is_muted_is_not_added(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = door(store, monkeypatch, tmp_path, roles={"m3": "muted"})
    assert re.match(refusal(409, "PeersStay", "m3 is muted by the settings of m1"), of.told(of.add()))


@pytest.mark.parametrize(
    ("other", "said", "status", "words"),
    [
        ("m2", None, 503, "m2 has to say whom it knows, and does not at http://m2"),
        ("m3", None, 503, "m3 has to say"),
        ("m3", saying("m4"), 503, "m4 answers there"),
        ("m2", {"node": "m2"}, 503, "validation error"),
        (
            "m2",
            saying("m2", peers=[p for p in saying("m2")["peers"] if p["id"] != "m3"]),
            409,
            "m2 do not name m3",
        ),
        (
            "m2",
            saying("m2", peers=[p | {"dc": "dc9"} for p in saying("m2")["peers"]]),
            409,
            "m2 do not name m3",
        ),
        (
            "m3",
            saying("m3", peers=[p for p in saying("m3")["peers"] if p["id"] != "m2"]),
            409,
            "m3 do not name m2",
        ),
        (
            "m2",
            saying("m2", peers=[p | {"voting": True} for p in saying("m2")["peers"]]),
            409,
            "voting has to",
        ),
        (
            "m2",
            saying("m2", peers=[p | {"role": "read-only"} for p in saying("m2")["peers"]]),
            409,
            "m2 and m1 do not say the same of the role of m1, m2, m3",
        ),
        ("m3", saying("m3", role="read-write"), 409, "m3 says that it is read-write"),
    ],
    ids=[
        "a peer is away",
        "it is away itself",
        "it is another one",
        "no word of peers",
        "not named there",
        "elsewhere there",
        "it does not know a peer",
        "another beginning",
        "other roles",
        "it takes writes",
    ],
)
def test_all_have_to_know_who_is_added(
    one: Door, other: str, said: dict[str, Any] | None, status: int, words: str
) -> None:
    one.others[other] = said
    assert re.match(
        refusal(status, {409: "PeersStay", 503: "Unavailable"}[status], words), one.told(one.add())
    )


def test_who_cannot_be_removed(one: Door) -> None:
    assert re.match(
        refusal(404, "NoSuchPeer", "m3 is not a peer"), one.told(one.ask("DELETE", "/cluster/peers/m3"))
    )
    assert re.match(
        refusal(404, "NoSuchPeer", "m4 is not a peer"), one.told(one.ask("DELETE", "/cluster/peers/m4"))
    )
    assert re.match(
        refusal(400, "UserError", "no body"), one.told(one.ask("DELETE", "/cluster/peers/m2", content=b"now"))
    )


def test_the_last_one_stays(store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    view = View(epoch=2, members=("m1",), peers=(Peer("m1", "dc1"),))
    of = door(store, monkeypatch, tmp_path, HardState(view=view))
    assert re.match(
        refusal(409, "PeersStay", "the only peer"), of.told(of.ask("DELETE", "/cluster/peers/m1"))
    )


def test_one_of_several_of_a_data_centre_is_stopped_first(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view = View(epoch=2, members=("m1", "m2"), peers=(Peer("m1", "dc1"), Peer("m2", "dc1")))
    of = door(store, monkeypatch, tmp_path, HardState(view=view))
    monkeypatch.setattr("quadlog.master.http.peers.is_silent", lambda *_: False)
    assert re.match(
        refusal(409, "PeersStay", "stop it first"), of.told(of.ask("DELETE", "/cluster/peers/m2"))
    )


@pytest.mark.parametrize("path", ["/cluster/peers", "/cluster/peers/m2"])
def test_a_minority_changes_nothing(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    of = door(store, monkeypatch, tmp_path, HardState(view=View(epoch=2, members=("m1",))))
    answer = of.add() if path.endswith("peers") else of.ask("DELETE", path)
    assert re.match(refusal(503, "Unavailable", "(m1) is no majority"), of.told(answer))


LEFT = "/cluster/peers/m2?survivor=m1"
HALF = View(epoch=2, members=("m1",))
BLANK = replace(HALF, returned=(RejoinedMember("m1", bytes(16), blank=True),))


@pytest.mark.parametrize(
    ("view", "path", "error", "words"),
    [
        (HALF, f"{LEFT}&dry-run=true", "400 UserError", "dry-run"),
        (HALF, "/cluster/peers/m4?survivor=m1", "404 NoSuchPeer", "m4: no peer"),
        (HALF, "/cluster/peers/m2?survivor=m1&survivor=m3", "404 NoSuchPeer", "m3: no peer"),
        (HALF, "/cluster/peers/m1?survivor=m1", "409 PeersStay", "name all that are, and no others"),
        (HALF, "/cluster/peers/m1?survivor=m2", "409 PeersStay", "name all that are, and no others"),
        (BLANK, LEFT, "409 PeersStay", "one that lost its disk does not count"),
        (replace(HALF, members=("m1", "m2")), LEFT, "409 PeersStay", "is a majority: remove m2 without"),
        (HALF, LEFT, "503 Unavailable", "no worker"),
    ],
    ids=[
        "a parameter",
        "no peer",
        "a survivor is no peer",
        "itself",
        "another one",
        "blank",
        "a majority",
        "in order",
    ],
)
def test_who_is_left_is_named_where_no_majority_is(
    store: MasterStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    view: View,
    path: str,
    error: str,
    words: str,
) -> None:
    of = door(store, monkeypatch, tmp_path, HardState(view=view))
    status, name = error.split()
    assert re.match(refusal(int(status), name, words), of.told(of.ask("DELETE", path)))


def test_who_is_heard_is_not_gone(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = door(store, monkeypatch, tmp_path, HardState(view=HALF))
    monkeypatch.setattr("quadlog.master.http.peers.is_silent", lambda *_: False)
    assert re.match(
        refusal(409, "PeersStay", "m2 is heard, so it is not gone"), of.told(of.ask("DELETE", LEFT))
    )


def test_what_is_in_order_is_given_to_the_log(one: Door) -> None:
    """Nobody agrees here, and no worker is in service: that is as far as it comes."""
    assert re.match(refusal(503, "Unavailable", "no worker"), one.told(one.add()))
    assert re.match(
        refusal(503, "Unavailable", "no worker"), one.told(one.ask("DELETE", "/cluster/peers/m2"))
    )


def test_outside_nothing_is_written(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And it is told where else; what the stronger side says of the peers counts."""
    m1, m2, m3 = Peer("m1", "dc1"), Peer("m2", "dc2"), Peer("m3", "dc3")
    beyond = View(epoch=7, members=("m2", "m3"), peers=(m2, m3))
    decided = View(epoch=6, members=("m1", "m2", "m3"), peers=(m2, m3), before=(m1, m2, m3))
    outside = HardState(view=decided, changes=((m1, m3),), joining=beyond, outside=True)
    of = door(store, monkeypatch, tmp_path, outside)
    update = "INSERT DATA { <urn:a> a 1 }"
    for answer in (
        of.ask("POST", "/update", content=update, headers=SPARQL),
        of.ask("PUT", "/controls/a", content="ASK {}", headers={"Content-Type": "application/sparql-query"}),
        of.ask("DELETE", "/repositories/main/statements"),
        of.ask("DELETE", "/cluster/peers/m2"),
        of.add("m3", "dc3"),
    ):
        assert re.match(refusal(503, "NotAPeer", "write at http://m2, http://m3,"), of.told(answer))
    said = of.ask("GET", "/cluster/peers").json()
    assert (said["role"], [peer["peer"] for peer in said["peers"]]) == ("outside", [False, True, True])
    assert all(peer["decided"] for peer in said["peers"])
    assert of.ask("GET", "/cluster/status").json()["role"] == "outside"
    strict = {"query": "ASK {}"}
    answer = of.ask("GET", "/sparql", params=strict, headers={"Quadlog-Consistency": "strict"})
    assert re.match(refusal(503, "NotAPeer", "write at"), of.told(answer))


def test_outside_nothing_is_imported(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = door(store, monkeypatch, tmp_path, HardState(view=first_view(VOTING), outside=True))
    seeding = Seeding(of.node, of.settings, EffectsMirror(of.broker, "effects", "m1"))
    of.app = make_app(of.node, of.settings, peers=NAMED, seeding=seeding)
    seed = {"signature": "11" * 32, "quads": 1, "digest": "22" * 32, "sources": ["a.nq"]}
    assert re.match(
        refusal(503, "NotAPeer", "write at http://m2,"), of.told(of.ask("POST", "/cluster/seed", json=seed))
    )
    label = ArchiveManifest(signature="11" * 32, quads=1, digest="22" * 32, size=1)
    answer = of.ask("PUT", "/cluster/seed/files", content=b"x", headers=label.headers())
    assert re.match(refusal(503, "NotAPeer", "write at http://m2,"), of.told(answer))
