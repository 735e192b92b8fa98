"""Records of a cluster without synchronous transactions, byte for byte as builds before these wrote them."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from quadlog import codec
from quadlog.core.model import (
    AgreedSetting,
    LogPosition,
    Pair,
    Payload,
    Post,
    Rank,
    Transaction,
    TransactionKind,
    View,
)
from quadlog.core.records import (
    Cut,
    Effect,
    Fence,
    Handover,
    Heartbeat,
    LoggedEntry,
    Outcome,
    Rewind,
    WorkerState,
)

ID, HASH, OTHER = bytes(range(16)), bytes(range(32)), bytes(range(32, 64))
POINT = LogPosition(7, OTHER)
VIEW = View(epoch=3, members=("m1", "m2"), parent=HASH, home="dc1")
TX = Transaction(id=ID, digest=HASH, options={"using-graph": "urn:g"})
EFFECT = Effect(
    index=7,
    id=ID,
    entry_chain=OTHER,
    term=HASH,
    attempt=2,
    outcome=Outcome.APPLIED,
    inserted=("<urn:a> <urn:p> <urn:b> .",),
    quads=1,
    signature_before=HASH,
    signature_after=OTHER,
    chain=HASH,
)
RECORDS = {
    "payload": codec.encode_payload(
        Payload(
            transaction=TX, origin="m1", origin_dc="dc1", created=1_795_000_000_000, media_type="t", body=b"x"
        )
    )[0],
    "entry": codec.encode_entry(
        LoggedEntry(
            index=7,
            kind=TransactionKind.TX,
            id=ID,
            timestamp=1_795_000_000_000 << 16,
            digest=HASH,
            options={},
            previous=HASH,
            chain=OTHER,
            epoch=3,
            lineage=HASH,
            origin="m1",
            created=1_795_000_000_000,
            media_type="t",
            body=b"x",
        )
    )[0],
    "post": codec.encode(
        Post(
            node="m1",
            incarnation=ID,
            sequence=9,
            base_sequence=8,
            view=VIEW,
            base=POINT,
            counter=77,
            queue=(Pair(70, ID, HASH),),
            added=(Pair(60, ID, OTHER),),
            rank=Rank(epoch=3, decided=True, members=2, ids=("m1", "m2")),
            settings=(AgreedSetting("max-peer-lag", "5", 4, 1_795_000_000_000, "ada"),),
        )
    ),
    "effect": codec.encode_effect(EFFECT)[0],
    "rejection": codec.encode_effect(
        Effect(
            index=8,
            id=ID,
            entry_chain=OTHER,
            term=HASH,
            attempt=2,
            outcome=Outcome.REJECTED,
            reason="no",
            quads=1,
            signature_before=OTHER,
            signature_after=OTHER,
            chain=HASH,
        )
    )[0],
    "fence": codec.encode(Fence(term=HASH, attempt=2, worker="w1")),
    "handover": codec.encode(Handover(index=5, term=HASH, dc="dc2", epoch=3)),
    "heartbeat": codec.encode(
        Heartbeat(
            worker="w1",
            dc="dc1",
            url="http://h:1",
            state=WorkerState.SERVING,
            evaluating=True,
            attempt=2,
            applied=POINT,
            signature=HASH,
            quads=1,
            sent=1_795_000_000_000,
            store="s",
        )
    ),
    "cut": codec.encode(Cut(epoch=3, lineage=HASH, index=7, chain=OTHER)),
    "rewind": codec.encode(Rewind(epoch=3, index=7, term=HASH, attempt=2, cut=3)),
}
GOLDEN: dict[str, str] = {
    "payload": "26 94 830a3e243b2ad31fab7fa9e479be8a2c",
    "entry": "28 178 a99688e4942c36551ae9c14f86bf89e3",
    "post": "41 295 5df80a18c7619ca3d3e382e151a4184c",
    "effect": "29 221 cc83b84b63cc2fae9d20057741f760f0",
    "rejection": "29 197 363486028ad5c64aab415f1ba180fd7b",
    "fence": "30 41 73c9c98cd356b8bb269cff60f7c62f51",
    "handover": "32 45 9d6dd40a8ed99d2f1056d82432cdeb2d",
    "heartbeat": "38 108 600886c97028a0a9d4e09cc80adb3af2",
    "cut": "34 71 20278ee74c591c01075508c76cd65c72",
    "rewind": "39 42 e5a6c15d9c40a28d7fe34e800919da2d",
}
"""Schema id, length and blake2b hash of each, by the build before synchronous transactions."""


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_as_it_was(name: str) -> None:
    value = RECORDS[name]
    seen = f"{int.from_bytes(value[1:5], 'big')} {len(value)} {blake2b(value, digest_size=16).hexdigest()}"
    assert seen == GOLDEN[name]


@pytest.mark.parametrize("outcome", [Outcome.ROLLED_BACK, Outcome.SUSPENDED])
def test_only_new_outcomes_have_the_new_version(outcome: Outcome) -> None:
    changed = {"outcome": outcome, "inserted": (), "reason": "why"}
    fields = {name: getattr(EFFECT, name) for name in EFFECT.__dataclass_fields__}
    effect = Effect(**(fields | changed))
    [value] = codec.encode_effect(effect)
    assert int.from_bytes(value[1:5], "big") == 42
    assert codec.decode(value) == effect
