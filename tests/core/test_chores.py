"""Who leads a data centre, and what the one that takes over says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.effects import EffectsLedger
from consumers.payloads import PayloadsConsumer
from producers.effects import EffectsMirror
from quadlog import codec
from quadlog.codec.chunks import CHUNK
from quadlog.core.model import (
    GENESIS,
    Entry,
    Handover,
    Kind,
    Pair,
    Payload,
    Transaction,
    chain_hash,
    first_view,
)
from quadlog.master.chores import Chores, Reach
from quadlog.master.copies import Copies
from quadlog.master.crew import Crew
from quadlog.master.duty import Duty
from quadlog.master.intake import Intake
from quadlog.master.lead import Lead
from quadlog.master.scribe import Scribe
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.model import LoggedEntry
    from quadlog.ports import Acked, Headers

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
        lead = Lead(master, MASTERS, patience_ms=2500)
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
            kind=Kind.TX,
            options={},
            previous=previous,
            chain=chain,
            view=first_view(MASTERS),
        )
        payload = Payload(
            transaction=transaction, origin="m1", origin_dc="dc1", created=0, media_type="t", body=b"b"
        )
        found.append((entry, payload))
        previous = chain
    return found


class Topic:
    """Takes what is said; acknowledges when asked."""

    def __init__(self, log: list[tuple[Entry, Payload]]) -> None:
        payloads = {payload.transaction.key: payload for _, payload in log}
        self.said: list[int] = []
        self.written: list[int] = []
        self.acked: list[Acked] = []
        self.scribe = Scribe(say=self.say, payload=payloads.__getitem__, written=self.written.append)

    def say(self, entry: LoggedEntry, acked: Acked) -> None:
        self.said.append(entry.index)
        self.acked.append(acked)


def test_who_stands_by_says_nothing_and_keeps_what_the_topic_may_lack() -> None:
    log = entries(5)
    topic = Topic(log)
    for entry, _ in log:
        topic.scribe.write(entry)
    assert topic.said == []
    assert topic.scribe.holds(3) == [entry.pair.key for entry, _ in log[:3]]
    topic.scribe.lead(mine=True)
    assert topic.said == [4, 5], "what was not heard in the topic, in order"


def test_who_leads_keeps_an_entry_until_it_is_acknowledged() -> None:
    log = entries(3)
    topic = Topic(log)
    topic.scribe.lead(mine=True)
    for entry, _ in log:
        topic.scribe.write(entry)
    assert topic.said == [1, 2, 3]
    assert len(topic.scribe) == 3
    topic.acked[0](17)
    assert topic.written == [1]
    assert topic.scribe.holds(1) == [log[0][0].pair.key]
    assert len(topic.scribe) == 2


def test_who_steps_down_and_takes_over_again_says_again_what_nobody_acknowledged() -> None:
    """Twice the same entry under the same index is harmless; a gap would not be."""
    log = entries(3)
    topic = Topic(log)
    topic.scribe.lead(mine=True)
    topic.scribe.write(log[0][0])
    topic.scribe.lead(mine=False)
    topic.scribe.write(log[1][0])
    topic.scribe.lead(mine=True)
    topic.scribe.write(log[2][0])
    assert topic.said == [1, 1, 2, 3]


class Home:
    """The chores of the home's master, which copies dc2's effects while the duty is there."""

    def __init__(self, *, leads: bool = True) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self.copied: list[int] = []
        self.mirrored = -1
        ledger = EffectsLedger(duty=FIRST)
        crew = Crew(timeout_ms=1000)
        self.duty = Duty(
            dc="dc1", dcs=["dc1", "dc2"], agreed=FIRST, ledger=ledger, crew=crew,
            locate=lambda _: None, hand_over=lambda _: None, propose=lambda *_: None,
        )  # fmt: skip
        self.ledger = ledger
        self.chores = Chores(
            lead=Lead("m1", ["m1"], patience_ms=1000)
            if leads
            else Lead("m2", ["m1", "m2"], patience_ms=1000),
            scribe=Topic([]).scribe,
            copies=Copies(EffectsMirror(self, "dc1", "m1"), dc="dc1", home="dc1"),
            duty=self.duty,
            ledger=ledger,
            crew=crew,
            peers={},
            sources={},
            others={"dc2": "dc2", "dc3": "dc3"},
            reach=Reach(
                appoint=lambda *_: None,
                mirrored=lambda _: self.mirrored,
                settle=lambda: None,
                read=lambda topic, offset: self.asked.append((topic, offset)),
                leave=lambda topic: self.asked.append((topic, None)),
            ),
        )

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """An outlet: what is copied."""
        del topic, key, values, acked
        self.copied.append(int(dict(headers)["mirrored-offset"]))

    def move(self, dc: str, start: int) -> None:
        """A handover is heard."""
        self.ledger.duty = Handover(index=self.ledger.duty.index + 1, term=bytes(32), dc=dc, start=start)
        self.chores.follow(self.ledger.duty)

    def hear(self, topic: str, *offsets: int) -> None:
        """Records of another data centre's effects."""
        for offset in offsets:
            self.chores.copy(Record(topic, offset, b"1", b"an effect", []))


def test_the_home_reads_the_effects_of_who_has_the_duty_and_of_nobody_else() -> None:
    home = Home()
    home.chores.tend({}, 0.0, last_index=0)
    home.chores.follow(FIRST)
    assert home.asked == [], "the duty is here"
    home.move("dc2", 7)
    assert home.asked == [("dc2", 7)]
    home.hear("dc2", 7, 8)
    home.hear("dc3", 9)
    assert home.copied == [7, 8]
    home.move("dc3", 4)
    assert home.asked[1:] == [("dc2", None), ("dc3", 4)]
    home.hear("dc2", 9)
    home.hear("dc3", 3, 4)
    assert home.copied == [7, 8, 4]
    home.move("dc1", 0)
    assert home.asked[3:] == [("dc3", None)]
    home.hear("dc3", 5)
    assert home.copied == [7, 8, 4]


@pytest.mark.parametrize(("mirrored", "first"), [(-1, 7), (11, 12)], ids=["nothing was copied", "some was"])
def test_who_takes_over_the_home_copies_what_the_other_did_not(mirrored: int, first: int) -> None:
    """Not from the beginning of the topic: only what is of this term, and not what was copied."""
    home = Home(leads=False)
    home.chores.tend({"m1": 0.0}, 0.0, last_index=0)
    home.move("dc2", 7)
    home.hear("dc2", 7, 8, 9, 10, 11, 12)
    assert home.copied == [], "the other one leads"
    home.mirrored = mirrored
    home.asked.clear()
    home.chores.tend({"m1": 0.0}, 5000.0, last_index=0)
    assert home.asked == [("dc2", first)]
    home.hear("dc2", *range(13, 20))
    assert home.copied == [], "read before it was asked again"
    home.hear("dc2", *range(first, 20))
    assert home.copied == list(range(first, 20))


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
    assert intake.hear(record_of(10, one, 0)) is None
    assert intake.hear(record_of(11, three, writer="m2")) == three
    intake.await_other(three.transaction.key)
    assert intake.hear(record_of(12, one, 1)) == one
    intake.await_other(one.transaction.key)
    assert (intake.position, intake.awaited) == (10, 10), "before its first chunk"
    intake.arrived(one.transaction.key)
    assert intake.awaited == 10, "what was heard between its chunks"
    intake.synchronised({three.transaction.id})
    assert [intake.awaited] == [None]
    assert intake.position == 13
    intake.hear(record_of(13, two, 0))
    assert intake.position == 13


def test_a_position_stays_before_the_first_chunk_of_what_is_on_its_way() -> None:
    """Two masters of a data centre write at once: their records lie between each other's."""
    intake = Intake(PayloadsConsumer(), 10)
    one, three = large(1), entries(3)[-1][1]
    intake.hear(record_of(10, one, 0))
    intake.hear(record_of(11, three, writer="m2"))
    intake.sent()
    intake.hear(record_of(12, one, 1))
    intake.sent()
    intake.acknowledged(11)
    assert intake.position == 10
    intake.acknowledged(12)
    assert intake.position == 13


def test_what_a_dead_master_left_half_said_is_given_up_when_it_speaks_again() -> None:
    intake = Intake(PayloadsConsumer(), 10)
    intake.hear(record_of(10, large(1), 0))
    assert intake.position == 10
    assert intake.hear(record_of(11, entries(2)[-1][1])) is not None
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
