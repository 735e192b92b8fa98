"""Sources: what is looked for in topics, in threads: where copying begins, where logs part, what a cut made void."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from consumers.effects import epoch_of, mirrored_in, newest_copy
from quadlog import codec
from quadlog.broker import backwards, end_of, last_records
from quadlog.codec.envelope import ATTEMPT, HANDOVER, INDEX, REWIND, TERM
from quadlog.core.model import START
from quadlog.core.records import Handover, LoggedEntry
from quadlog.errors import ForeignRecord, Unavailable
from quadlog.master.effects.copying import Found, Part
from quadlog.master.effects.lineage import fork
from quadlog.master.log.joining import Forked, fork_of
from quadlog.master.log.scribe import FLYING_BYTES
from quadlog.master.topics.foreign import understood
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from quadlog.core.model import Point
    from quadlog.core.records import Term
    from quadlog.master.effects.copying import Source, Wanted
    from quadlog.master.log.joining import Joined
    from quadlog.ports import Record

log = structlog.get_logger()

Answer = TypeVar("Answer")

READ_BACK: Final = 200
"""Own effects that are read back for a copy: behind it stand at most this many of the own worker's."""

WINDOW: Final = 1_000
"""Records that are looked at first, from the end on; then four times as many, and so on."""

PATIENCE_S: Final = 5.0
"""How long Kafka has to tell where a topic ends."""

SOON_S: Final = 2.0
"""How long it has where the question is asked again: the link to it may have been cut when the first one left."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a record of effects says of its place."""

    offset: int
    index: int | None = None
    """Of an effect."""
    rewind: int | None = None
    """Of a rewind: the last effect that stays."""
    attempt: int = 0
    """Of an effect or a fence, in its term."""
    term: bytes | None = None


class Sources:
    """As seen from one data centre."""

    def __init__(self, repository: str, *, dc: str, kafka_of: Mapping[str, str]) -> None:
        """`kafka_of`: every data centre to its bootstrap servers."""
        self._repository, self._dc, self._kafka_of = repository, dc, kafka_of
        self._located: set[Handover] = set()
        """Whose end is looked for now."""

    def _effects_of(self, dc: str) -> str:
        return Topics(self._repository, dc).effects

    async def locate(self, handover: Handover, then: Callable[[Handover], None]) -> None:
        """Find where the effects end of the data centre that is to evaluate; it may be out of reach: then nothing.

        Asked again before it is known, nothing more is done: out of reach it takes longer to fail than to be asked
        again, and the threads that look are few, and others' too.
        """
        if handover in self._located:
            return
        kafka, topic = self._kafka_of[handover.dc], self._effects_of(handover.dc)

        def look() -> int:
            return end_of(kafka, topic, count=0, timeout=PATIENCE_S)[0]

        self._located.add(handover)
        try:
            end = await _answer(look, "handover", dc=handover.dc)
        finally:
            self._located.discard(handover)
        if end is not None:
            then(replace(handover, start=end))

    async def find(self, wanted: Wanted, then: Callable[[Found], None]) -> None:
        """Find where copying is to begin; whatever keeps it from that, it is asked again later."""
        source = wanted.source
        found = await _answer(lambda: self._find(wanted), "effects", dc=source.dc)
        then(found or Found(source=source, offset=None))

    def _find(self, wanted: Wanted) -> Found:
        source = wanted.source
        end, own = end_of(
            self._kafka_of[self._dc], self._effects_of(self._dc), count=READ_BACK, timeout=SOON_S
        )
        copied, is_heard = newest_copy(own, epoch=source.epoch), end <= wanted.heard
        start = copied[1] + 1 if copied is not None and copied[0] == source.dc else None
        if wanted.is_exact and not is_heard:
            return Found(source=source, offset=None)
        if source.part is Part.DUTY:
            mirrored = mirrored_in(own, origin=source.dc, epoch=source.epoch, evaluated_in=source.dc)
            return self._found_at(source, max(mirrored + 1, source.start))
        return self._find_in_line(wanted, start, is_heard=is_heard)

    def _find_in_line(self, wanted: Wanted, start: int | None, *, is_heard: bool) -> Found:
        """Where the last copy tells to go on, or `start` is None, behind what both topics have."""
        source = wanted.source
        is_handed_over = is_one_history(wanted)
        if start is not None and is_handed_over:
            return self._found_at(source, start)
        if is_handed_over or source.part is Part.REST:
            return self._found_by_index(wanted, start)
        if not is_heard:
            return Found(source=source, offset=None)  # the own topic was not heard to its end
        if start is not None and not is_of_a_branch(wanted):
            return self._found_by_index(wanted, start)
        return self._found_by_terms(wanted)

    async def fork(
        self, joined: Joined, chain_at: Callable[[int], bytes | None], then: Callable[[Forked], None]
    ) -> None:
        """Find where the own log parts from another data centre's; it is answered, whatever goes wrong."""
        found = await _answer(lambda: self._fork(joined, chain_at), "fork", dc=joined.dc)
        fork, offset, cut = found or (None, 0, 1)
        then(Forked(joined=joined, fork=fork, offset=offset, cut=cut))

    def _fork(self, joined: Joined, chain_at: Callable[[int], bytes | None]) -> tuple[Point, int, int]:
        kafka, topic = self._kafka_of[joined.dc], Topics(self._repository, joined.dc).agreed
        count = WINDOW
        while True:
            seen = _Seen(last_records(kafka, topic, count=count, timeout=SOON_S))
            if found := fork_of(seen, joined.own, chain_at):
                return found
            if not seen.first:
                return START, 0, 1
            if seen.count < count:
                message = f"{topic} begins at offset {seen.first}, behind what both logs have"
                raise Unavailable(message)
            count *= 4

    async def regain(
        self,
        index: int,
        chain_at: Callable[[int], bytes | None],
        then: Callable[[Sequence[LoggedEntry]], None],
    ) -> None:
        """Find an entry of the own log in the own agreed topic, where a cut has made it void, and what follows it."""
        found = await _answer(lambda: self._regain(index, chain_at), "entry", dc=self._dc)
        if not found:
            log.error("entry_missing", index=index)
            await asyncio.sleep(PATIENCE_S)
        then(found or ())

    def _regain(self, index: int, chain_at: Callable[[int], bytes | None]) -> list[LoggedEntry]:
        """As many as may be under way, from that one on."""
        kafka, topic = self._kafka_of[self._dc], Topics(self._repository, self._dc).agreed
        end, _ = end_of(kafka, topic, count=0, timeout=PATIENCE_S)
        found, size = dict[int, LoggedEntry](), 0
        chunks = codec.Chunks()
        for _, said in understood(backwards(kafka, topic, end), lambda record: chunks.join(record.value)):
            if not isinstance(said, LoggedEntry) or said.index < index or said.index in found:
                continue
            if chain_at(said.index) == said.chain:
                found[said.index], size = said, size + len(said.body)
                while size > FLYING_BYTES and len(found) > 1:
                    size -= len(found.pop(max(found)).body)
                if said.index == index:
                    return [found[number] for number in sorted(found)]
        return []

    def _found_at(self, source: Source, offset: int) -> Found:
        """Nowhere, where that topic was made anew since, and does not go so far: the next view says what to do."""
        end, _ = end_of(self._kafka_of[source.dc], self._effects_of(source.dc), count=0, timeout=SOON_S)
        return Found(source=source, offset=offset if offset <= end else None)

    def _found_by_index(self, wanted: Wanted, start: int | None) -> Found:
        """Behind the last effect that both have, or from `start` on."""
        source, count = wanted.source, WINDOW
        while True:
            marks, _, is_all = self._look_back(source.dc, count)
            if start is None:
                last = min(wanted.index, reaches(marks))
                self._refuse_gap(source.dc, marks, last, is_all=is_all)
                offset = begins(marks, last, is_all=is_all)
            else:
                offset = start if is_all or marks[0].offset <= start else None
            if offset is not None:
                return Found(source=source, offset=offset, void=voids(marks, offset))
            count *= 4

    def _found_by_terms(self, wanted: Wanted) -> Found:
        source, count = wanted.source, WINDOW
        while True:
            marks, handovers, is_all = self._look_back(source.dc, count)
            theirs = _terms_in(handovers, source.term)
            if theirs is not None:
                last = fork(wanted.terms, wanted.index, theirs)
                self._refuse_gap(source.dc, marks, last, is_all=is_all)
                if (offset := begins(marks, last, is_all=is_all)) is not None:
                    return Found(source=source, offset=offset, fork=last, void=voids(marks, offset))
            if is_all:
                return Found(source=source, offset=None)
            count *= 4

    def _refuse_gap(self, dc: str, marks: Sequence[Mark], last: int, *, is_all: bool) -> None:
        """Refuse to copy behind a gap: nobody here could apply that.

        Raises:
            Unavailable: the effect behind `last` was deleted there.

        """
        if is_all and (first := lacks_before(marks, last)) is not None:
            topic, own = self._effects_of(dc), self._dc
            raise Unavailable(
                f"{topic} begins at offset {marks[0].offset} with effect {first}, and effect {last + 1} is needed in"
                f" {own}: it was deleted (see retention.ms of that topic). Stop all masters and workers of {own} and"
                " run `quadlog dc rebuild --config MASTER.toml`, which copies a data centre that has all effects"
            )

    def _look_back(self, dc: str, count: int) -> tuple[list[Mark], list[Handover], bool]:
        """Of the last `count` records the places, and the handovers of views; and whether these are all there are."""
        marks: list[Mark] = []
        handovers: list[Handover] = []
        for record in last_records(self._kafka_of[dc], self._effects_of(dc), count=count, timeout=SOON_S):
            marks.append(_mark(record))
            if (said := _view_handed_over(record)) is not None:
                handovers.append(said)
        return marks, handovers, len(marks) < count


def is_one_history(wanted: Wanted) -> bool:
    """Whether the view's handover is here: all effects at the source go on from those here, or are the same."""
    return wanted.terms[-1].id == wanted.source.term if wanted.terms else wanted.source.epoch == 1


def is_of_a_branch(wanted: Wanted) -> bool:
    """Whether another view that is no older has the duty in the own topic: this master was in that, and forgot it."""
    return bool(wanted.terms) and wanted.terms[-1].epoch >= wanted.source.epoch


class _Seen:
    """Records while they pass by: with what they hold they may be of any size."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self.first = self.count = 0
        """Offset of the first one, and how many there were."""

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            if not self.count:
                self.first = record.offset
            self.count += 1
            yield record


async def _answer(look: Callable[[], Answer], wanted: str, *, dc: str) -> Answer | None:
    """What `look` finds, in a thread; None, and the reason in the log, if it fails: what is out of reach is usual."""
    try:
        return await asyncio.to_thread(look)
    except Unavailable as error:
        log.warning("topic_search_failed", dc=dc, wanted=wanted, reason=str(error))
    except Exception:
        log.exception("topic_search_failed", dc=dc, wanted=wanted)
    return None


def _mark(record: Record) -> Mark:
    """Of what another program wrote nothing but its offset."""
    if codec.is_ours(record.value):
        with suppress(ForeignRecord):
            index, rewind = record.number(INDEX), record.number(REWIND)
            return Mark(record.offset, index, rewind, record.number(ATTEMPT) or 0, record.header(TERM))
    return Mark(record.offset)


def _view_handed_over(record: Record) -> Handover | None:
    """The handover of a view, if this is one, with its writer's epoch if that is later."""
    if record.header(HANDOVER) != b"0":
        return None
    with suppress(ForeignRecord):  # another program writes there
        said = codec.decode(record.value)
        if isinstance(said, Handover):
            return replace(said, epoch=max(said.epoch, epoch_of(record)))
    return None


def _terms_in(handovers: Iterable[Handover], view: bytes) -> tuple[Term, ...] | None:
    """The terms that led to the view of this id, if it was handed the duty."""
    for handover in handovers:
        if handover.terms and handover.terms[-1].id == view:
            return handover.terms
    return None


def reaches(marks: Iterable[Mark]) -> int:
    """Index of the last effect among these; 0 if there is none.

    >>> reaches([Mark(7, 3), Mark(8), Mark(9, 4)]), reaches([Mark(9, 4), Mark(10, rewind=2), Mark(11)]), reaches([])
    (4, 2, 0)
    """
    index = 0
    for mark in marks:
        index = next((number for number in (mark.index, mark.rewind) if number is not None), index)
    return index


def lacks_before(marks: Sequence[Mark], last: int) -> int | None:
    """Index of the first effect of a topic, if the one behind `last` is no longer there; None: it is, or is to come.

    >>> front_deleted = [Mark(7, 3), Mark(8, 4)]
    >>> [lacks_before(front_deleted, last) for last in (0, 1, 2, 3, 4)]
    [3, 3, None, None, None]
    >>> lacks_before([Mark(0), Mark(1, 1)], 0), lacks_before([Mark(7, rewind=1), Mark(8, 2)], 0), lacks_before([], 0)
    (None, None, None)
    """
    if not marks or not marks[0].offset:
        return None
    known = next(
        ((mark.index, mark.rewind) for mark in marks if (mark.index, mark.rewind) != (None, None)), None
    )
    if known is None or known[0] is None or known[0] <= last + 1:
        return None
    return known[0]


def begins(marks: list[Mark], last: int, *, is_all: bool) -> int | None:
    """Offset of the first record behind the effect of index `last`; None if it stands before these records.

    A rewind takes back what stands before it.  Of the effects that stand twice the first one is taken that is not of an
    evaluator that was superseded.

    >>> effects = [Mark(7, 3), Mark(8, 4), Mark(9), Mark(10, 5), Mark(11, rewind=4), Mark(12), Mark(13, 5)]
    >>> [begins(effects, last, is_all=False) for last in (2, 3, 4, 5)], begins(effects, 0, is_all=True)
    ([None, 8, 12, 14], 7)
    >>> begins([Mark(1, 4, None, 2), Mark(2, None, None, 3), Mark(3, 5, None, 2), Mark(4, 5, None, 3)], 5, is_all=False)
    5
    """
    start = marks[0].offset if is_all and marks else 0 if is_all else None
    is_past = False
    for mark in _in_order(marks):
        if mark.rewind is not None and mark.rewind <= last:
            start, is_past = mark.offset + 1, False
        elif mark.index is not None and mark.index > last:
            is_past = True
        elif mark.index == last and not is_past:
            start = mark.offset + 1
    return start


def voids(marks: Sequence[Mark], start: int) -> tuple[tuple[int, int], ...]:
    """What rewinds take back behind a place, each with the rewind itself: first and last offset.

    Of the effects of one index that stand before a rewind the one of the highest attempt in the newest term counted.

    >>> effects = [Mark(7, 3), Mark(8, 4), Mark(9), Mark(10, 5), Mark(11, rewind=4), Mark(12), Mark(13, 5)]
    >>> voids(effects, 8), voids(effects, 12)
    (((9, 11),), ())
    >>> taken_over = [Mark(1, 1, None, 4), Mark(2, 2, None, 4), Mark(3, 1, None, 5), Mark(4, 2, None, 5)]
    >>> voids([*taken_over, Mark(5, rewind=1)], 1), voids([*taken_over[:2], Mark(3, 1, None, 4), Mark(5, rewind=1)], 1)
    (((4, 5),), ((2, 5),))
    >>> x, y = (4, b"x"), (2, b"y")  # attempts in two terms
    >>> late = [Mark(1, 1, None, *x), Mark(2, None, None, *y), Mark(3, 2, None, *x), Mark(4, 2, None, *y)]
    >>> voids([*late, Mark(5, rewind=2)], 1), voids([*late, Mark(5, rewind=2)], 3)
    (((5, 5),), ((5, 5),))
    >>> twice = [Mark(1, 5), Mark(2, 6), Mark(3, rewind=5), Mark(4, 6), Mark(5, 7), Mark(6, 8), Mark(7, rewind=7)]
    >>> voids(twice, 1)
    ((2, 3), (6, 7))
    """
    found: list[tuple[int, int]] = []
    left: list[Mark] = []
    for mark in _in_order(marks):
        if mark.offset < start:
            continue
        if mark.rewind is None:
            left.append(mark)
        else:
            end = _end_of(mark.rewind, left, start)
            found.append((end, mark.offset))
            left = [one for one in left if one.offset < end]
    return tuple(found)


def _in_order(marks: Iterable[Mark]) -> Iterator[Mark]:
    """All but those of an evaluator behind the word of a newer one: of an earlier term, or of a lower attempt."""
    terms: dict[bytes | None, int] = {}
    newest = (-1, -1)
    for mark in marks:
        if mark.rewind is not None:  # what follows is of another history
            terms, newest = {}, (-1, -1)
        elif mark.attempt:
            attempt = (terms.setdefault(mark.term, len(terms)), mark.attempt)
            if attempt < newest:
                continue
            newest = attempt
        yield mark


def _end_of(index: int, marks: Iterable[Mark], start: int) -> int:
    """Offset behind the effect of this index that counted among these, or where they start."""
    end, newest, is_open = start, None, False
    for mark in marks:
        attempt = (mark.term, mark.attempt)
        if mark.index == index and (attempt != newest or is_open):
            end, newest, is_open = mark.offset + 1, attempt, True
        elif mark.index is not None and mark.index > index:
            is_open = False  # what follows of that attempt is said again
    return end
