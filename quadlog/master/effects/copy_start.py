"""Start of a copy: searches in topics, run in threads.

They find where copying begins, where two logs diverge, and entries that a cut made void.
"""

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
from quadlog.master.effects.effects_copying import CopiedPart, CopyStart
from quadlog.master.effects.lineage import fork, is_of
from quadlog.master.log.joining import ForkFound, fork_of
from quadlog.master.log.log_publisher import FLYING_BYTES
from quadlog.master.topics.foreign_records import understood
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from quadlog.core.model import LogPosition
    from quadlog.core.records import Term
    from quadlog.master.effects.effects_copying import CopyStartQuery, EffectsSource
    from quadlog.master.log.joining import JoinedSide
    from quadlog.ports import Record

log = structlog.get_logger()

Answer = TypeVar("Answer")

READ_BACK: Final = 200
"""Number of own records that are read back to find the last copy.

At most this many effects of the own worker follow that copy.
"""

WINDOW: Final = 1_000
"""Number of records that the first search reads, counted from the end; each further search reads four times as many."""

PATIENCE_S: Final = 5.0
"""Seconds within which Kafka must report the end of a topic."""

SOON_S: Final = 2.0
"""Seconds within which it must report it if the request is repeated later.

The link to it may have been cut when the first request was sent.
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """Place of a record in an effects topic, as its headers state it."""

    offset: int
    index: int | None = None
    """Index of the effect, if the record is one."""
    rewind: int | None = None
    """Index of the last effect that stays, if the record is a rewind."""
    attempt: int = 0
    """Attempt of an effect or a fence within its term."""
    term: bytes | None = None


class CopyStartFinder:
    """Searches in the topics of all data centres, as seen from one of them."""

    def __init__(self, repository: str, *, dc: str, kafka_of: Mapping[str, str]) -> None:
        """`kafka_of`: bootstrap servers of every data centre."""
        self._repository, self._dc, self._kafka_of = repository, dc, kafka_of
        self._located: set[Handover] = set()
        """Handovers whose end is currently being searched for."""

    def _effects_of(self, dc: str) -> str:
        return Topics(self._repository, dc).effects

    async def locate(self, handover: Handover, then: Callable[[Handover], None]) -> None:
        """Find where the effects of the data centre that gets the duty end, and pass it to `then`.

        If that data centre is out of reach, `then` is not called.  A request that repeats a running one is
        ignored: failing on an unreachable data centre takes longer than the interval between requests, and
        the search threads are few and shared.
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

    async def find(self, wanted: CopyStartQuery, then: Callable[[CopyStart], None]) -> None:
        """Find where copying begins, and pass it to `then`.

        The offset is None if the search fails; the request is then repeated later.
        """
        source = wanted.source
        found = await _answer(lambda: self._find(wanted), "effects", dc=source.dc)
        then(found or CopyStart(source=source, offset=None))

    def _find(self, wanted: CopyStartQuery) -> CopyStart:
        source = wanted.source
        end, own = end_of(
            self._kafka_of[self._dc], self._effects_of(self._dc), count=READ_BACK, timeout=SOON_S
        )
        copied, is_heard = newest_copy(own, epoch=source.view.epoch), end <= wanted.heard
        start = copied[1] + 1 if copied is not None and copied[0] == source.dc else None
        if wanted.is_exact and not is_heard:
            return CopyStart(source=source, offset=None)
        if source.part is CopiedPart.DUTY:
            mirrored = mirrored_in(own, origin=source.dc, epoch=source.view.epoch, evaluated_in=source.dc)
            return self._found_at(source, max(mirrored + 1, source.start))
        return self._find_in_line(wanted, start, is_heard=is_heard)

    def _find_in_line(self, wanted: CopyStartQuery, start: int | None, *, is_heard: bool) -> CopyStart:
        """Find where copying continues.

        `start`: offset after the last copied record; None if that is not of this source, or unknown: then copying
        begins after the last effect that both topics have.  `is_heard`: True if the own topic was heard to its end.
        """
        source = wanted.source
        # If the view's handover is here, all effects at the source continue those here, or are the same.
        is_handed_over = is_of(wanted.terms, source.view)
        if start is not None and is_handed_over:
            return self._found_at(source, start)
        if is_handed_over or source.part is CopiedPart.REST:
            return self._found_by_index(wanted, start)
        if not is_heard:
            return CopyStart(source=source, offset=None)  # the own topic was not heard to its end
        if start is not None and not is_of_a_branch(wanted):
            return self._found_by_index(wanted, start)
        return self._found_by_terms(wanted)

    async def fork(
        self, joined: JoinedSide, chain_at: Callable[[int], bytes | None], then: Callable[[ForkFound], None]
    ) -> None:
        """Find where the own log diverges from another data centre's; `then` is called even if the search fails."""
        found = await _answer(lambda: self._fork(joined, chain_at), "fork", dc=joined.dc)
        fork, offset, cut = found or (None, 0, 1)
        then(ForkFound(joined=joined, fork=fork, offset=offset, cut=cut))

    def _fork(
        self, joined: JoinedSide, chain_at: Callable[[int], bytes | None]
    ) -> tuple[LogPosition, int, int]:
        kafka, topic = self._kafka_of[joined.dc], Topics(self._repository, joined.dc).agreed
        count = WINDOW
        while True:
            seen = _Seen(last_records(kafka, topic, count=count, timeout=SOON_S))
            if found := fork_of(seen, joined.own, chain_at):
                return found
            if not seen.first:
                return START, 0, 1
            if seen.count < count:
                raise Unavailable(f"{topic} begins at offset {seen.first}, behind what both logs have")
            count *= 4

    async def regain(
        self,
        index: int,
        chain_at: Callable[[int], bytes | None],
        then: Callable[[Sequence[LoggedEntry]], None],
    ) -> None:
        """Find an entry of the own log, which a cut has made void in the own agreed topic, and the entries after it."""
        found = await _answer(lambda: self._regain(index, chain_at), "entry", dc=self._dc)
        if not found:
            log.error("entry_missing", index=index)
            await asyncio.sleep(PATIENCE_S)
        then(found or ())

    def _regain(self, index: int, chain_at: Callable[[int], bytes | None]) -> list[LoggedEntry]:
        """Return that entry, and as many after it as may be in flight."""
        kafka, topic = self._kafka_of[self._dc], Topics(self._repository, self._dc).agreed
        end, _ = end_of(kafka, topic, count=0, timeout=PATIENCE_S)
        found, size = dict[int, LoggedEntry](), 0
        chunks = codec.ChunkJoiner()
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

    def _found_at(self, source: EffectsSource, offset: int) -> CopyStart:
        """Return `offset`, or None if the topic ends before it.

        That is the case if the topic was re-created since: the next view then determines what to do.
        """
        end, _ = end_of(self._kafka_of[source.dc], self._effects_of(source.dc), count=0, timeout=SOON_S)
        return CopyStart(source=source, offset=offset if offset <= end else None)

    def _found_by_index(self, wanted: CopyStartQuery, start: int | None) -> CopyStart:
        """Return the offset after the last effect that both topics have, or `start`."""
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
                return CopyStart(source=source, offset=offset, void=voids(marks, offset))
            count *= 4

    def _found_by_terms(self, wanted: CopyStartQuery) -> CopyStart:
        source, count = wanted.source, WINDOW
        while True:
            marks, handovers, is_all = self._look_back(source.dc, count)
            theirs = _terms_in(handovers, source.view.id)
            if theirs is not None:
                last = fork(wanted.terms, wanted.index, theirs)
                self._refuse_gap(source.dc, marks, last, is_all=is_all)
                if (offset := begins(marks, last, is_all=is_all)) is not None:
                    return CopyStart(source=source, offset=offset, fork=last, void=voids(marks, offset))
            if is_all:
                return CopyStart(source=source, offset=None)
            count *= 4

    def _refuse_gap(self, dc: str, marks: Sequence[Mark], last: int, *, is_all: bool) -> None:
        """Refuse to copy after a gap, because no worker here could apply what follows.

        Raises:
            Unavailable: the effect after `last` was deleted from the source topic.

        """
        if is_all and (first := lacks_before(marks, last)) is not None:
            topic, own = self._effects_of(dc), self._dc
            raise Unavailable(
                f"{topic} begins at offset {marks[0].offset} with effect {first}, and effect {last + 1} is needed in"
                f" {own}: it was deleted (see retention.ms of that topic). Stop all masters and workers of {own} and"
                " run `quadlog dc rebuild --config MASTER.toml`, which copies a data centre that has all effects"
            )

    def _look_back(self, dc: str, count: int) -> tuple[list[Mark], list[Handover], bool]:
        """Return the marks and the views' handovers of the last `count` records, and whether these are all records."""
        marks: list[Mark] = []
        handovers: list[Handover] = []
        for record in last_records(self._kafka_of[dc], self._effects_of(dc), count=count, timeout=SOON_S):
            marks.append(_mark(record))
            if (said := _view_handed_over(record)) is not None:
                handovers.append(said)
        return marks, handovers, len(marks) < count


def is_of_a_branch(wanted: CopyStartQuery) -> bool:
    """Return whether another view that is no older has the duty in the own topic.

    This master was in that view, and has forgotten it.
    """
    return bool(wanted.terms) and wanted.terms[-1].epoch >= wanted.source.view.epoch


class _Seen:
    """Iterator over records that keeps none of them: including their contents, they may be of any size."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self.first = self.count = 0
        """Offset of the first record, and number of records read."""

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            if not self.count:
                self.first = record.offset
            self.count += 1
            yield record


async def _answer(look: Callable[[], Answer], wanted: str, *, dc: str) -> Answer | None:
    """Return what `look` finds, running it in a thread; None if it fails.

    The reason is logged.  Failures are common, because data centres may be out of reach.
    """
    try:
        return await asyncio.to_thread(look)
    except Unavailable as error:
        log.warning("topic_search_failed", dc=dc, wanted=wanted, reason=str(error))
    except Exception:
        log.exception("topic_search_failed", dc=dc, wanted=wanted)
    return None


def _mark(record: Record) -> Mark:
    """Return the mark of a record; of another program's record, only the offset."""
    if codec.is_ours(record.value):
        with suppress(ForeignRecord):
            index, rewind = record.number(INDEX), record.number(REWIND)
            return Mark(record.offset, index, rewind, record.number(ATTEMPT) or 0, record.header(TERM))
    return Mark(record.offset)


def _view_handed_over(record: Record) -> Handover | None:
    """Return a view's handover if the record is one, with its writer's epoch if that is later."""
    if record.header(HANDOVER) != b"0":
        return None
    with suppress(ForeignRecord):  # another program's record
        said = codec.decode(record.value)
        if isinstance(said, Handover):
            return replace(said, epoch=max(said.epoch, epoch_of(record)))
    return None


def _terms_in(handovers: Iterable[Handover], view: bytes) -> tuple[Term, ...] | None:
    """Return the terms that led to the view with this id, if it was handed the duty."""
    for handover in handovers:
        if handover.terms and handover.terms[-1].id == view:
            return handover.terms
    return None


def reaches(marks: Iterable[Mark]) -> int:
    """Return the index of the last effect among these; 0 if there is no effect.

    >>> reaches([Mark(7, 3), Mark(8), Mark(9, 4)]), reaches([Mark(9, 4), Mark(10, rewind=2), Mark(11)]), reaches([])
    (4, 2, 0)
    """
    index = 0
    for mark in marks:
        index = next((number for number in (mark.index, mark.rewind) if number is not None), index)
    return index


def lacks_before(marks: Sequence[Mark], last: int) -> int | None:
    """Return the index of the topic's first effect if the effect after `last` was deleted.

    None if that effect is there, or is still to be written.

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
    """Return the offset of the first record after the effect `last`; None if it precedes these records.

    A rewind revokes effects before it.  If an effect occurs twice, the first one counts that is not of a
    superseded evaluator.

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
    """Return the ranges after `start` that rewinds revoke, each as first and last offset, the rewind included.

    If effects of one index precede a rewind, the one of the highest attempt in the newest term counted.

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
    """Yield the marks, except those that a superseded evaluator wrote after a newer one.

    An evaluator is superseded by one of a later term, or of a higher attempt in its term.
    """
    terms: dict[bytes | None, int] = {}
    newest = (-1, -1)
    for mark in marks:
        if mark.rewind is not None:  # another history follows
            terms, newest = {}, (-1, -1)
        elif mark.attempt:
            attempt = (terms.setdefault(mark.term, len(terms)), mark.attempt)
            if attempt < newest:
                continue
            newest = attempt
        yield mark


def _end_of(index: int, marks: Iterable[Mark], start: int) -> int:
    """Return the offset after the effect of this index that counted among these, or `start` if there is none."""
    end, newest, is_open = start, None, False
    for mark in marks:
        attempt = (mark.term, mark.attempt)
        if mark.index == index and (attempt != newest or is_open):
            end, newest, is_open = mark.offset + 1, attempt, True
        elif mark.index is not None and mark.index > index:
            is_open = False  # the rest of that attempt is written again
    return end
