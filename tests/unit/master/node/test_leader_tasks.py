"""Who leads a data centre, and how far it has taken in the peers' payloads."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumers.payloads import PayloadsConsumer
from quadlog import codec
from quadlog.codec.wire import CHUNK
from quadlog.core.model import (
    GENESIS,
    Entry,
    Pair,
    Payload,
    Transaction,
    TransactionKind,
    chain_hash,
    first_view,
)
from quadlog.core.records import Handover
from quadlog.master.log.dc_leader import DcLeader
from quadlog.master.payloads.intake import Intake
from quadlog.ports import Record

FIRST = Handover(index=0, term=GENESIS, dc="dc1")
MASTERS = ["m1", "m2", "m3"]


@given(st.lists(st.tuples(st.sampled_from(MASTERS), st.floats(0, 10_000)), max_size=30), st.floats(0, 20_000))
def test_where_all_hear_the_same_one_leads(heard: list[tuple[str, float]], later: float) -> None:
    """Of masters that hear the same of each other, exactly one leads: the lowest that is heard."""
    heard_at = dict(sorted(heard, key=lambda one: one[1]))
    now = 12_500 + later
    alive = {m for m in MASTERS if now - heard_at.get(m, 0) <= 2500}
    leads = []
    for master in MASTERS:
        lead = DcLeader(master, MASTERS, patience_ms=2500)
        lead.is_mine({}, 0)
        if master in alive and lead.is_mine(heard_at, now):
            leads.append(master)
    assert leads == sorted(alive)[:1]


def entries(count: int) -> list[tuple[Entry, Payload]]:
    """The first entries of a log."""
    found, previous = [], GENESIS
    for index in range(1, count + 1):
        transaction = Transaction(id=bytes([index]) * 16, digest=bytes([index]) * 32)
        chain = chain_hash(previous, transaction, index)
        entry = Entry(
            index=index,
            pair=Pair(index, *transaction.key),
            kind=TransactionKind.TX,
            options={},
            previous=previous,
            chain=chain,
            view=first_view(dict.fromkeys(MASTERS, "dc1")),
        )
        payload = Payload(
            transaction=transaction, origin="m1", origin_dc="dc1", created=0, media_type="t", body=b"b"
        )
        found.append((entry, payload))
        previous = chain
    return found


def record_of(offset: int, payload: Payload, chunk: int = 0, *, writer: str = "m1") -> Record:
    """One chunk of a payload, as it stands in a topic."""
    value = codec.encode_payload(payload)[chunk]
    return Record("payloads", offset, b"", value, [("writer", writer.encode()), ("origin-dc", b"dc1")])


def large(number: int) -> Payload:
    """A payload of two chunks."""
    return replace(entries(number)[-1][1], body=bytes(CHUNK + 1))


def test_a_position_stays_before_what_another_master_is_to_bring() -> None:
    """A restart, or a take-over, reads again from there; twins and late hearing do not hold it for ever."""
    intake = Intake(PayloadsConsumer(), 10)
    one, two, three = large(1), large(2), entries(3)[-1][1]
    assert intake.on_record(record_of(10, one, 0)) is None
    assert intake.on_record(record_of(11, three, writer="m2")) == three
    intake.await_other(three.transaction.key)
    assert intake.on_record(record_of(12, one, 1)) == one
    intake.await_other(one.transaction.key)
    assert (intake.position, intake.awaited) == (10, 10), "before its first chunk"
    intake.arrived(one.transaction.key)
    assert intake.awaited == 10, "what was heard between its chunks"
    intake.synchronised({three.transaction.id}, lambda _: False)
    assert [intake.awaited] == [None]
    assert intake.position == 13
    intake.await_other(one.transaction.key)
    intake.synchronised({one.transaction.id}, lambda _: True)
    intake.synchronised(set(), lambda _: True)
    assert intake.awaited is not None, "its id is agreed with another payload, and that may be cut"
    intake.synchronised(set(), lambda _: False)
    assert [intake.awaited] == [None]
    intake.on_record(record_of(13, two, 0))
    assert intake.position == 13


def test_a_position_stays_before_the_first_chunk_of_what_is_on_its_way() -> None:
    """Two masters of a data centre write at once: their records lie between each other's."""
    intake = Intake(PayloadsConsumer(), 10)
    one, three = large(1), entries(3)[-1][1]
    intake.on_record(record_of(10, one, 0))
    intake.on_record(record_of(11, three, writer="m2"))
    intake.sent()
    intake.on_record(record_of(12, one, 1))
    intake.sent()
    intake.acknowledged(11)
    assert intake.position == 10
    intake.acknowledged(12)
    assert intake.position == 13


def test_what_a_dead_master_left_half_said_is_given_up_when_it_speaks_again() -> None:
    intake = Intake(PayloadsConsumer(), 10)
    intake.on_record(record_of(10, large(1), 0))
    assert intake.position == 10
    assert intake.on_record(record_of(11, entries(2)[-1][1])) is not None
    assert intake.position == 12


def test_a_lone_master_goes_on_with_its_acknowledgements() -> None:
    """It does not hear its own topic: else each start would read all since the one before."""
    intake = Intake(PayloadsConsumer(), 10, is_own=True, alone_from=10)
    for offset in (10, 11, 12):
        intake.sent()
        assert intake.position == min(offset, 10 + (offset - 10))
        intake.acknowledged(offset)
        assert intake.position == offset + 1
    intake.sent()
    intake.sent()
    intake.acknowledged(13)
    assert intake.position == 13, "the other one is not acknowledged"
