"""Where the copying of effects begins, of topics as they stand."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, Self

import pytest

from consumers.effects import EffectsConsumer
from producers.effects import EffectsMirror, EffectsProducer
from quadlog.codec.envelope import EPOCH, HANDOVER, INDEX, MIRRORED
from quadlog.core.model import GENESIS, START, LogPosition, View, first_view
from quadlog.core.records import Effect, Handover, Rewind, Term
from quadlog.errors import StateError, Unavailable
from quadlog.master.effects import copy_start
from quadlog.master.effects.copy_start import CopyStartFinder
from quadlog.master.effects.effects_copying import CopiedPart, CopyStart, CopyStartQuery, EffectsSource
from quadlog.master.log.joining import ForkFound, JoinedSide
from quadlog.ports import Record
from tests.support.agreement.topics import Topic, cut_behind, effect, fence, forked, topic_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quadlog.core.records import LoggedEntry

KAFKAS = {"dc1": "k1", "dc2": "k2", "dc3": "k3"}


def view_of(epoch: int) -> View:
    """The view of this epoch that is not a branch's."""
    return View(epoch=epoch, members=("m1", "m2"))


def source_of(dc: str, part: CopiedPart, *, epoch: int) -> EffectsSource:
    return EffectsSource(dc=dc, part=part, view=view_of(epoch))


class World:
    """Three data centres' effects; dc2 asks where to begin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics = {dc: Topic() for dc in KAFKAS}
        self.looked_back: list[int] = []
        monkeypatch.setattr(copy_start, "end_of", self._end_of)
        monkeypatch.setattr(copy_start, "last_records", self._last_records)
        monkeypatch.setattr(copy_start, "WINDOW", 4)
        self.sources = CopyStartFinder("main", dc="dc2", kafka_of=KAFKAS)

    def _records(self, kafka: str) -> list[Record]:
        return self.topics[f"dc{kafka[1:]}"].records

    def _end_of(self, kafka: str, topic: str, *, count: int, timeout: float) -> tuple[int, list[Record]]:
        del topic, timeout
        records = self._records(kafka)
        return len(records), records[-count:]

    def _last_records(self, kafka: str, topic: str, *, count: int, timeout: float) -> Iterator[Record]:
        del topic, timeout
        self.looked_back.append(count)
        return iter(self._records(kafka)[-count:])

    def evaluate(self, dc: str, *indexes: int, attempt: int = 1, fenced: bool = True) -> None:
        """A worker there takes over and says effects."""
        producer = EffectsProducer(self.topics[dc], "effects", "w1", dc)
        if fenced:
            producer.publish_fence(fence(attempt), at=0)
        for index in indexes:
            producer.publish(effect(index, attempt=attempt), at=0)

    def copy(self, of: str, into: str, start: int = 0, *, count: int = 1000, epoch: int = 1) -> None:
        mirror = EffectsMirror(self.topics[into], "effects", "m")
        for record in self.topics[of].records[start : start + count]:
            mirror.copy(record, origin=of, epoch=epoch)

    def find(
        self, dc: str, part: CopiedPart, *, index: int, epoch: int = 1, terms: tuple[Term, ...] = ()
    ) -> CopyStart:
        heard = len(self.topics["dc2"].records)
        return self.sources._find(
            CopyStartQuery(source=source_of(dc, part, epoch=epoch), terms=terms, index=index, heard=heard)
        )

    def decided(self, dc: str) -> list[int]:
        """What counts there."""
        consumer = EffectsConsumer(index=0, signature=bytes(32), term=GENESIS, attempt=0)
        heard = (consumer.on_record(record) for record in self.topics[dc].records)
        return [said.index for said in heard if isinstance(said, Effect)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_copy_goes_on_where_it_ended(world: World) -> None:
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc2", count=3)
    assert world.find("dc1", CopiedPart.HOME, index=2) == CopyStart(
        source=source_of("dc1", CopiedPart.HOME, epoch=1), offset=3
    )


@pytest.mark.parametrize("part", [CopiedPart.HOME, CopiedPart.DUTY])
def test_a_place_beyond_the_end_of_a_topic_that_was_made_anew_is_none(world: World, part: CopiedPart) -> None:
    """Nobody could read there; the next view says what to copy."""
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc2")
    assert world.find("dc1", part, index=3).offset == 4
    world.topics["dc1"] = Topic()
    world.evaluate("dc1", 1)
    assert world.find("dc1", part, index=3).offset is None


def test_by_another_way_and_back_nothing_is_missed_and_little_comes_twice(world: World) -> None:
    """dc1 is out of reach from dc2 for a while; dc3 has a copy with one record more before it."""
    world.topics["dc3"].produce("effects", key=b"", values=[b"of another program"], headers=[])
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc2", count=3)
    world.copy("dc1", "dc3")
    found = world.find("dc3", CopiedPart.COPY, index=2)
    assert (found.offset, found.fork) == (4, None)
    world.copy("dc3", "dc2", 4)
    assert world.decided("dc2") == [1, 2, 3]

    world.evaluate("dc1", 4, 5, attempt=2)
    world.copy("dc1", "dc3", 4)
    world.copy("dc3", "dc2", 5, count=2)
    assert world.find("dc3", CopiedPart.COPY, index=4).offset == 7, "it goes on in the same topic"
    back = world.find("dc1", CopiedPart.HOME, index=4)
    assert back.offset == 6, "not behind the last copy of dc1's own, which is long ago"
    before = len(world.topics["dc2"].records)
    world.copy("dc1", "dc2", 6)
    assert len(world.topics["dc2"].records) == before + 1
    assert world.decided("dc2") == [1, 2, 3, 4, 5]


def test_who_copies_the_home_may_be_behind(world: World) -> None:
    """It begins with what is there; what is here already comes twice, and is void."""
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc2")
    world.copy("dc1", "dc3", count=3)
    found = world.find("dc3", CopiedPart.COPY, index=3)
    assert found.offset == 3
    world.copy("dc1", "dc3", 3)
    world.evaluate("dc1", 4, attempt=2)
    world.copy("dc1", "dc3", 4)
    world.copy("dc3", "dc2", 3)
    assert world.decided("dc2") == [1, 2, 3, 4]


def test_the_own_workers_effects_do_not_hold_it_up(world: World) -> None:
    """While this data centre has the duty the own topic is ahead of all copies, and its end is never heard."""
    world.evaluate("dc1", 1, 2)
    world.copy("dc1", "dc2")
    world.copy("dc1", "dc3")
    world.evaluate("dc2", *range(3, 400), attempt=2)
    world.copy("dc2", "dc1", 3, count=50)
    world.copy("dc1", "dc3", 3)
    assert world.find("dc3", CopiedPart.COPY, index=399).offset == len(world.topics["dc3"].records)


def test_it_is_looked_back_as_far_as_it_takes(world: World) -> None:
    world.evaluate("dc1", *range(1, 41))
    world.copy("dc1", "dc3")
    world.copy("dc1", "dc2", count=11)
    assert world.find("dc3", CopiedPart.COPY, index=10).offset == 11
    assert world.looked_back == [4, 16, 64]


def test_before_anything_was_decided_all_is_copied(world: World) -> None:
    assert world.find("dc3", CopiedPart.COPY, index=0).offset == 0
    world.evaluate("dc1", 1)
    world.copy("dc1", "dc3")
    assert world.find("dc3", CopiedPart.COPY, index=0).offset == 0


def test_in_a_view_whose_handover_is_here_another_way_is_found_by_index(world: World) -> None:
    """Else terms tell, and the own topic goes back first."""
    known = (Term(4, view_of(4).id, 1),)
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc3", epoch=4)
    world.copy("dc1", "dc2", epoch=4, count=3)
    found = world.find("dc3", CopiedPart.COPY, index=2, epoch=4, terms=known)
    assert (found.offset, found.fork) == (3, None)
    assert world.find("dc3", CopiedPart.COPY, index=2, epoch=5, terms=known).offset is None, (
        "no handover of it there"
    )


def test_before_the_handover_is_here_a_copy_goes_on_where_it_ended(world: World) -> None:
    """Behind a rewind the terms are still the old ones, and would have this topic go back again."""
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc2", count=2, epoch=4)
    assert world.find("dc1", CopiedPart.HOME, index=1, epoch=4).offset == 2


def test_a_new_home_finds_by_index_what_it_lacks(world: World) -> None:
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc3")
    world.copy("dc1", "dc2", count=2)
    assert world.find("dc3", CopiedPart.REST, index=1, epoch=4).offset == 2


@pytest.mark.parametrize("copied", [0, 1, 2], ids=["from the fork on", "on the way", "up to there"])
def test_what_the_home_took_back_before_is_not_copied(world: World, copied: int) -> None:
    """dc1 gave way once, behind effect 3; dc2 parted from it before that, behind effect 1."""
    world.evaluate("dc1", 1, 2, 3, 4, 5)
    mirror = EffectsMirror(world.topics["dc1"], "effects", "m")
    mirror.publish_rewind(Rewind(epoch=2, index=3, term=GENESIS, attempt=0, cut=2), at=0)
    terms = (Term(3, view_of(3).id, 3),)
    mirror.publish_handover(Handover(index=0, term=terms[0].id, dc="dc1", epoch=3, terms=terms), at=0)
    world.copy("dc1", "dc2", count=2)
    world.copy("dc1", "dc2", 2, count=copied, epoch=3)
    source = source_of("dc1", CopiedPart.HOME, epoch=3)
    found = world.sources._find(
        CopyStartQuery(source=source, terms=(), index=1, heard=len(world.topics["dc2"].records))
    )
    assert found == CopyStart(source=source, offset=2 + copied, fork=None if copied else 1, void=((4, 6),))


@pytest.mark.parametrize("is_copied", [False, True], ids=["evaluated here alone", "and copied"])
def test_a_view_of_a_branch_with_the_same_epoch_is_another_one(world: World, *, is_copied: bool) -> None:
    """dc2's master was in a view of epoch 3, lost that with its disk, and is in another one of epoch 3 now."""
    world.evaluate("dc1", 1, 2, 3)
    terms = (Term(3, view_of(3).id, 2),)
    EffectsMirror(world.topics["dc1"], "effects", "m").publish_handover(
        Handover(index=0, term=terms[0].id, dc="dc1", epoch=3, terms=terms), at=0
    )
    world.copy("dc1", "dc2", count=3)
    if is_copied:
        world.copy("dc1", "dc2", 3, count=1, epoch=3)
    of_a_branch = (Term(3, b"another one, of the branch".ljust(32), 2),)
    EffectsMirror(world.topics["dc2"], "effects", "m").publish_handover(
        Handover(index=0, term=of_a_branch[0].id, dc="dc2", epoch=3, terms=of_a_branch), at=0
    )
    found = world.find("dc1", CopiedPart.HOME, index=3, epoch=3, terms=of_a_branch)
    assert (found.offset, found.fork) == (3, 2), "it goes back to what both have, and says so"
    assert world.find("dc1", CopiedPart.HOME, index=3, epoch=4, terms=terms).offset is None, (
        "4 was not handed over there"
    )


def test_what_another_program_wrote_is_passed_over(world: World) -> None:
    """Also where its headers have our names."""
    strange = [(INDEX, b"2"), (MIRRORED, b"seven"), (EPOCH, b"none"), (HANDOVER, b"0")]
    world.evaluate("dc1", 1, 2, 3)
    world.copy("dc1", "dc2", count=3)
    for dc in ("dc1", "dc2"):
        world.topics[dc].produce("effects", key=b"7", values=[b"of another program"], headers=strange)
    assert world.find("dc1", CopiedPart.HOME, index=2).offset == 3
    assert world.find("dc1", CopiedPart.DUTY, index=2).offset == 3
    assert world.find("dc1", CopiedPart.REST, index=2).offset == 3, "only ours say an index"


class Answers:
    """What is told to whoever asked."""

    def __init__(self) -> None:
        self.found: list[CopyStart] = []
        self.forked: list[ForkFound] = []
        self.located: list[Handover] = []
        self.regained: list[Sequence[LoggedEntry]] = []


@pytest.mark.parametrize(
    "error", [Unavailable("no broker"), StateError("its records were deleted"), KeyError("?")]
)
def test_whatever_goes_wrong_is_answered(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Who is not answered never asks again: neither the effects nor the log of a stronger side would be read."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(copy_start, "end_of", fail)
    monkeypatch.setattr(copy_start, "last_records", fail)
    those, told = CopyStartFinder("main", dc="dc2", kafka_of=KAFKAS), Answers()
    wanted = CopyStartQuery(source=source_of("dc1", CopiedPart.HOME, epoch=1), terms=(), index=0, heard=0)
    joined = JoinedSide(view=first_view({"m1": "dc1"}), own=START, dc="dc1")
    asyncio.run(those.find(wanted, told.found.append))
    asyncio.run(those.fork(joined, lambda _: None, told.forked.append))
    asyncio.run(those.locate(Handover(index=7, term=GENESIS, dc="dc1"), told.located.append))
    assert told.found == [CopyStart(source=wanted.source, offset=None)]
    assert told.forked == [ForkFound(joined=joined, fork=None)]
    assert told.located == [], "it is asked again by itself"


def test_one_look_at_a_time_for_each_handover(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once a second, and fails after five: the threads that look would all be taken."""
    looks, those, told = [0], CopyStartFinder("main", dc="dc2", kafka_of=KAFKAS), Answers()
    looking, ended = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> tuple[int, list[Record]]:
        looks[0] += 1
        looking.set()
        assert ended.wait(60)
        return 9, []

    async def ask() -> None:
        asked = Handover(index=7, term=GENESIS, dc="dc1")
        first = asyncio.ensure_future(those.locate(asked, told.located.append))
        await asyncio.to_thread(looking.wait, 60)
        again = [asyncio.ensure_future(those.locate(asked, told.located.append)) for _ in range(20)]
        await asyncio.sleep(0.05)
        ended.set()
        await asyncio.gather(first, *again)
        assert (looks, [found.start for found in told.located]) == ([1], [9])
        await those.locate(asked, told.located.append)

    monkeypatch.setattr(copy_start, "end_of", slow)
    asyncio.run(ask())
    assert (looks, len(told.located)) == ([2], 2), "later it is looked for again"


def test_a_log_is_searched_for_the_fork_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries hold their payloads, and there may be any number of them."""
    own, theirs = forked(300, at=20)
    records, living, most = topic_of(theirs), [0], [0]

    class Counted(bytes):
        def __new__(cls, value: bytes) -> Self:
            living[0] += 1
            most[0] = max(most[0], living[0])
            return super().__new__(cls, value)

        def __del__(self) -> None:
            living[0] -= 1

    def passing(kafka: str, topic: str, *, count: int, timeout: float) -> Iterator[Record]:
        del kafka, topic, timeout
        for record in records[-count:]:
            yield replace(record, value=Counted(record.value))

    monkeypatch.setattr(copy_start, "last_records", passing)
    joined = JoinedSide(view=first_view({"m1": "dc1"}), own=LogPosition(300, own[-1].chain), dc="dc1")
    those = CopyStartFinder("main", dc="dc2", kafka_of=KAFKAS)
    assert those._fork(joined, lambda index: own[index - 1].chain) == (LogPosition(20, own[19].chain), 20, 1)
    assert most[0] <= 3


@pytest.mark.parametrize("room", [2_000_000, 900_000])
def test_what_a_cut_has_made_void_is_found_behind_it(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Whole, and no more of it than may be under way."""
    own, branch = forked(8, at=6, epoch=1)
    own = [replace(entry, body=b"x" * 600_000) for entry in own]
    strange = Record("agreed", 0, b"k", b"of another program", [])
    records = [*topic_of(own), strange, *topic_of([*branch[6:], cut_behind(own[1], 5)])]
    monkeypatch.setattr(copy_start, "FLYING_BYTES", room)
    monkeypatch.setattr(copy_start, "end_of", lambda *_, **__: (len(records), []))
    monkeypatch.setattr(copy_start, "backwards", lambda *_, **__: reversed(records))
    monkeypatch.setattr(copy_start, "PATIENCE_S", 0.0)
    chains = {entry.index: entry.chain for entry in own}
    those, told = CopyStartFinder("main", dc="dc2", kafka_of=KAFKAS), Answers()
    asyncio.run(those.regain(3, chains.get, told.regained.append))
    asyncio.run(those.regain(9, chains.get, told.regained.append))
    count = 3 if room > 1_200_000 else 1
    assert told.regained == [own[2 : 2 + count], ()]


def test_where_the_own_topic_is_full_all_of_it_has_to_be_heard_first(world: World) -> None:
    """What follows is followed as if it was there."""
    world.evaluate("dc1", 1, 2)
    world.copy("dc1", "dc2", count=2)
    source = source_of("dc1", CopiedPart.HOME, epoch=1)
    found = [
        world.sources._find(
            CopyStartQuery(source=source, terms=(), index=1, heard=heard, is_exact=True)
        ).offset
        for heard in (1, 2)
    ]
    assert found == [None, 2]
