"""Payloads of a data centre that is out of reach are taken from where they were copied: none is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from consumers.payloads import PayloadsConsumer, origin_offset
from producers.payloads import PayloadsProducer
from quadlog import codec
from quadlog.codec.envelope import ORIGIN_DC, ORIGIN_OFFSET
from quadlog.master.payloads.intake import Intake
from quadlog.master.payloads.skipped_copies import MARKS, SkippedCopies
from quadlog.ports import Record
from tests.support.agreement.topics import Topic
from tests.support.masters.payloads import payload

if TYPE_CHECKING:
    from quadlog.core.model import Payload

FIRST, LATER = payload(1, dc="dc2"), payload(2, dc="dc2")


class Reader:
    """dc1's master: what it takes in of dc2's payloads and dc3's, and how far it read."""

    def __init__(self, at: dict[str, int] | None = None) -> None:
        at = at or {}
        self.intakes: dict[str, Intake] = {}
        for dc in ("dc2", "dc3"):
            consumer, position = PayloadsConsumer(origins=[dc]), at.get(dc, 0)
            self.intakes[dc] = Intake(consumer, position, dc=dc, originals=self.intakes)
        self.at = {"dc2": at.get("dc2", 0), "dc3": at.get("dc3", 0)}
        self.taken: list[Payload] = []

    def read(self, dc: str, topic: Topic, count: int = 10_000) -> None:
        """More records of a topic; what is taken is acknowledged at once."""
        for record in topic.records[self.at[dc] : self.at[dc] + count]:
            self.at[dc] = record.offset + 1
            if (one := self.intakes[dc].on_record(record)) is not None:
                self.taken.append(one)

    def lose(self, origin: str, by_way_of: str) -> int | None:
        """A data centre is out of reach."""
        offset = self.intakes[by_way_of].take_from({by_way_of, origin})
        if offset is not None:
            self.at[by_way_of] = offset
        return offset

    @property
    def positions(self) -> dict[str, int]:
        return {dc: intake.position for dc, intake in self.intakes.items()}


def own(*said: Payload) -> Topic:
    """A data centre's topic with what its clients gave."""
    topic = Topic()
    for one in said:
        PayloadsProducer(topic, "payloads", f"{one.origin_dc}-m1").publish(one, lambda _: None)
    return topic


def copied(topic: Topic, into: Topic | None = None, *, of: str = "dc2", by: str = "dc3") -> Topic:
    """What another data centre's master writes that hears all of it."""
    copies = into or Topic()
    intake = PayloadsConsumer(origins=[of])
    for record in topic.records:
        if (one := intake.on_record(record)) is not None:
            original = origin_offset(record, of)
            PayloadsProducer(copies, "payloads", f"{by}-m1").publish(
                one, lambda _: None, origin_offset=original
            )
    return copies


def test_a_copy_says_where_its_original_stands() -> None:
    topic = own(payload(1, dc="dc2", size=codec.CHUNK * 2), FIRST)
    copies = copied(topic)
    assert [record.header(ORIGIN_OFFSET) for record in copies.records] == [b"1", b"1", b"2"]
    again = Topic()
    for record in copies.records[2:]:
        said = PayloadsConsumer().on_record(record)
        assert said is not None
        PayloadsProducer(again, "payloads", "dc1-m1").publish(
            said, lambda _: None, origin_offset=origin_offset(record, "dc3")
        )
    assert again.records[0].header(ORIGIN_OFFSET) == b"2", "also where it is the copy of a copy"
    older = Record("payloads", 7, b"", b"", [(ORIGIN_DC, b"dc2")])
    assert origin_offset(older, "dc3") is None


def test_what_was_read_past_is_read_again_when_its_original_is_out_of_reach() -> None:
    topic = own(FIRST, LATER)
    reader = Reader()
    reader.read("dc2", topic, 1)
    reader.read("dc3", copied(topic))
    assert reader.taken == [FIRST]
    assert reader.lose("dc2", "dc3") == 1, "from behind the copy of what is here"
    reader.read("dc3", copied(topic))
    assert reader.taken == [FIRST, LATER]


def test_where_all_originals_are_here_nothing_is_read_twice() -> None:
    topic = own(FIRST, LATER)
    reader = Reader()
    reader.read("dc3", copied(topic))
    reader.read("dc2", topic)
    assert reader.lose("dc2", "dc3") is None
    more = copied(own(FIRST, LATER, payload(3, dc="dc2")))
    reader.read("dc3", more)
    assert reader.taken == [FIRST, LATER, payload(3, dc="dc2")]


def test_what_is_on_its_way_is_not_here() -> None:
    topic = own(FIRST, LATER)
    reader = Reader()
    intake = reader.intakes["dc2"]
    intake.on_record(topic.records[0])
    intake.sent()
    intake.on_record(topic.records[1])
    reader.read("dc3", copied(topic))
    assert reader.lose("dc2", "dc3") == 0


def test_a_payload_of_many_chunks_is_taken_from_its_first_one() -> None:
    large = payload(1, dc="dc2", size=codec.CHUNK * 2 + 1)
    topic = own(large)
    copies = copied(topic)
    for heard in range(4):
        reader = Reader()
        reader.read("dc2", topic, 2)
        reader.read("dc3", copies, heard)
        assert reader.lose("dc2", "dc3") == (0 if heard else None)
        reader.read("dc3", copies)
        assert reader.taken == [large]


def test_a_restart_reads_from_before_what_was_passed_over_and_is_not_here() -> None:
    """The link may break while the master is down: nobody then remembers what it read past."""
    topic = own(FIRST, LATER)
    reader = Reader()
    reader.read("dc2", topic, 1)
    reader.read("dc3", copied(topic))
    assert reader.positions == {"dc2": 1, "dc3": 1}
    again = Reader(reader.positions)
    again.read("dc3", copied(topic))
    assert again.lose("dc2", "dc3") == 1
    again.read("dc3", copied(topic))
    assert again.taken == [LATER]


def test_a_death_before_it_is_read_again_does_not_forget_it() -> None:
    topic = own(FIRST, LATER)
    reader = Reader()
    reader.read("dc3", copied(topic))
    assert reader.lose("dc2", "dc3") == 0
    reader.at["dc3"] = 1
    reader.read("dc3", copied(topic))
    assert reader.positions["dc3"] == 0, "this was read before the tail went back"
    reader.at["dc3"] = 0
    reader.read("dc3", copied(topic))
    assert reader.positions["dc3"] == 2


def test_heard_again_its_own_topic_is_what_counts() -> None:
    topic = own(FIRST, LATER)
    reader = Reader()
    reader.lose("dc2", "dc3")
    reader.read("dc3", copied(own(FIRST)))
    assert reader.intakes["dc3"].take_from({"dc3"}) is None
    reader.read("dc3", copied(topic))
    assert reader.taken == [FIRST]
    reader.read("dc2", topic)
    assert reader.taken == [FIRST, FIRST, LATER], "the node passes over what it has"


def test_copies_of_what_was_given_here_are_nobodys_to_bring() -> None:
    here = payload(9, dc="dc1")
    reader = Reader()
    reader.read("dc3", copied(own(here), of="dc1"))
    assert reader.positions == {"dc2": 0, "dc3": 1}


def test_another_way_has_places_of_its_own() -> None:
    topic, reader = own(FIRST), Reader()
    reader.intakes["dc4"] = Intake(PayloadsConsumer(origins=["dc4"]), 0, dc="dc4", originals=reader.intakes)
    reader.at["dc4"] = 0
    reader.read("dc4", copied(topic, by="dc4"))
    assert reader.lose("dc2", "dc3") is None
    assert reader.lose("dc2", "dc4") == 0


def topic_identity(reader: Reader, dc: str, *others: str) -> None:
    """The topic of a data centre was made anew: what its master does, in its order."""
    for other in others:
        if (offset := reader.intakes[other].lose(dc)) is not None:
            reader.at[other] = offset
    reader.intakes[dc].begin_again()
    reader.at[dc] = 0


def test_what_a_lost_topic_had_is_taken_from_its_copies_and_what_it_has_now_is_heard() -> None:
    """It was back before anybody missed it; a copy may come after that, too."""
    topic, reader = own(FIRST, LATER, payload(3, dc="dc2")), Reader()
    reader.read("dc2", topic, 1)
    reader.read("dc3", copied(own(FIRST, LATER)))
    topic_identity(reader, "dc2", "dc3")
    assert reader.at == {"dc2": 0, "dc3": 1}, "from behind the copy of what is here"
    assert reader.positions["dc3"] <= 1, "also for a restart"
    reader.read("dc3", copied(own(FIRST, LATER)))
    reader.intakes["dc3"].take_from({"dc3", "dc4"})  # somebody else is out of reach
    reader.read("dc3", copied(topic))
    assert reader.taken == [FIRST, LATER, payload(3, dc="dc2")]
    reader.read("dc2", own(payload(4, dc="dc2")))
    assert reader.taken[3:] == [payload(4, dc="dc2")]
    assert reader.positions == {"dc2": 1, "dc3": 3}


def test_of_a_topic_made_anew_nothing_is_known() -> None:
    """What was half heard does not go on, and what is on its way holds its position back."""
    large, reader = payload(1, dc="dc2", size=codec.CHUNK * 2), Reader()
    intake = reader.intakes["dc2"]
    reader.read("dc2", own(FIRST, LATER), 2)
    intake.sent()
    intake.await_other(LATER.transaction.key)
    reader.read("dc2", own(FIRST, LATER, large), 1)
    assert reader.at["dc2"] == 3
    topic_identity(reader, "dc2")
    assert (intake.position, intake.awaited) == (0, None)
    another = Topic()
    PayloadsProducer(another, "payloads", "dc2-m2").publish(FIRST, lambda _: None)
    reader.read("dc2", another)
    assert (reader.taken, intake.position) == ([FIRST, LATER, FIRST], 0)
    intake.acknowledged(0)
    assert intake.position == 1


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 40))
def test_from_there_on_nothing_is_missing(steps: list[int], taken: int) -> None:
    """Of copies in the order of their originals, some twice: all that may be needed stand behind the place."""
    passed, original, copies = SkippedCopies(), 0, [0]
    for step in steps:
        original = original + step if step else max(0, original - 1)
        copies.append(original)
    highest = -1
    for offset, one in enumerate(copies):
        passed.note(offset, one)
        highest = max(highest, one)
    needed = {one for one in copies if one >= taken}
    first = passed.first(taken)
    assert needed <= set(copies[first:] if first is not None else ())
    assert first is None or needed


def test_places_are_bounded_and_say_more_rather_than_less() -> None:
    passed = SkippedCopies()
    for number in range(50_000):
        passed.note(number, 2 * number)
    assert len(passed._marks) <= MARKS
    for taken in range(0, 100_000, 777):
        first = passed.first(taken)
        assert first is not None
        assert first <= -(-taken // 2)
    assert passed.first(99_999) is None
