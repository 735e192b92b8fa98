"""Which effects of a topic are the log's, and where they stand: without their lines, so that the topic may be long.

Somebody else has looked over the topic and found runs: records of one writer, each an effect that stands on the one
before it.  A run counts as a whole or not at all, nearly always; `EffectsConsumer` says which.  All that stands
between runs is heard record by record, by the same consumer: fences, handovers, rewinds, seeds, effects in chunks,
copies, branches.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from consumers.effects import EffectsConsumer
from quadlog import codec
from quadlog.core.effects.signature import EMPTY, as_bytes
from quadlog.core.records import Effect, Rewind, Seed
from quadlog.errors import ForeignRecord, StateError
from quadlog.quadstore.applied import Applied, InEffects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from consumers.effects import Run
    from quadlog.ports import Record

    Between = Callable[[int, int], Iterable[Record]]
    """The records of the topic from an offset on and before another one."""


class Span(NamedTuple):
    """Records that say effects that count."""

    start: int
    end: int
    """Offset behind the last one."""
    group: int
    """Offset of the first of some chunks whose lines go on in each other: they are to be read together; -1: none do."""


@dataclass(slots=True)
class _Stretch:
    """Effects that count: one record each, in a row; or one effect, in pieces."""

    first: int
    last: int
    start: int
    end: int
    """Offset behind the record with which the last one is whole."""
    after: bytes | None
    """Signature after the last one; None: nobody looked."""
    pieces: Sequence[codec.Piece]
    heard: InEffects
    """What was heard before; of the offset nothing."""

    def goes_on_in(self, other: _Stretch) -> bool:
        """Whether the two are one."""
        is_next = (self.last + 1, self.end, self.heard) == (other.first, other.start, other.heard)
        return is_next and not self.pieces and not other.pieces

    def behind(self, index: int) -> int:
        """Offset behind the record with which this effect is whole."""
        return self.end - (self.last - index)

    def spans(self) -> list[Span]:
        """The records of the pieces; those whose lines go on in each other as a group."""
        spans, group = list[Span](), -1
        for offset, continues in self.pieces:
            if continues and group < 0:
                group = offset
            spans.append(Span(offset, offset + 1, group))
            if not continues:
                group = -1
        return spans


class Lineage:
    """Follows an effects topic from an applied state on."""

    def __init__(self, topic: str, applied: Applied, between: Between) -> None:
        """Nothing is heard yet.

        Args:
            topic: for messages.
            applied: what is there already; `Applied()` for the topic's beginning.
            between: reads it.

        """
        self._topic, self._between, self._base = topic, between, applied
        self._heads: Final = codec.Heads()
        self._consumer: Final = EffectsConsumer(
            index=applied.index,
            signature=as_bytes(applied.signature),
            term=applied.term,
            attempt=applied.attempt,
            order=applied.in_effects.order,
            rewound=applied.rewound,
            cut=applied.cut,
            chunks=self._heads,
        )
        self._stretches: list[_Stretch] = []
        self.offset = applied.effects_offset
        """Behind what was heard."""
        self.looked_at = 0
        """Records that were heard one by one."""
        self.seed: Seed | None = None
        """What the log begins with, if it was heard."""

    @property
    def index(self) -> int:
        """Of the newest effect that counts."""
        return self._consumer.index

    @property
    def is_rewound(self) -> bool:
        """Whether it matters of which epoch a record is."""
        return self._consumer.rewound > 1

    @property
    def gaps(self) -> int:
        """Effects that did not count because one before them is missing."""
        return self._consumer.void["gap"]

    def follow(self, runs: Iterable[Run], end: int, *, knows_epochs: bool) -> bool:
        """Hear all before the offset `end`; False: stopped behind a rewind, for want of epochs.

        Args:
            runs: those that stand between `offset` and `end`, in order.
            end: offset.
            knows_epochs: whether the runs say their true epochs; where nothing was rewound that does not matter.

        Raises:
            StateError: the topic goes back behind the state that is there already.

        """
        assert knows_epochs or not self.is_rewound, "behind a rewind runs have to say their epochs"
        for run in runs:
            self._one_by_one(run.offset)
            if self.is_rewound and not knows_epochs:
                return False
            counts = self._consumer.hear_run(run)
            if counts is None:
                self._one_by_one(run.end)
            elif counts:
                self._add(run.first, run.last, run.offset, run.end)
            self.offset = run.end
        self._one_by_one(end)
        return True

    def _one_by_one(self, end: int) -> None:
        if self.offset >= end:
            return
        for record in self._between(self.offset, end):
            self.looked_at += 1
            with suppress(ForeignRecord):  # another program writes there
                self._hear(record)
        self.offset = end

    def _hear(self, record: Record) -> None:
        match self._consumer.hear(record):
            case Effect() as effect:
                pieces = self._heads.pieces
                self._add(effect.index, effect.index, record.offset, record.offset + 1, pieces)
            case Rewind() as rewind:
                self._go_back(rewind, record)
            case Seed() as seed:
                self.seed = seed
                signature = int.from_bytes(seed.signature, "big")
                self._base = replace(self._base, signature=signature, quads=seed.quads)
            case _:
                pass

    def _add(self, first: int, last: int, start: int, end: int, pieces: Sequence[codec.Piece] = ()) -> None:
        consumer = self._consumer
        heard = InEffects(0, consumer.order, consumer.rewound, consumer.cut)
        pieces = pieces if len(pieces) > 1 else ()
        new = _Stretch(first, last, start, end, consumer.signature, pieces, heard)
        if self._stretches and self._stretches[-1].goes_on_in(new):
            newest = self._stretches[-1]
            newest.last, newest.end, newest.after = last, end, new.after
        else:
            self._stretches.append(new)

    def _go_back(self, rewind: Rewind, record: Record) -> None:
        """What stands behind that effect is of a branch."""
        if rewind.index < self._base.index:
            raise StateError(
                f"{self._topic} at {record.offset}: the log goes back to effect {rewind.index}, and what is to be"
                f" compacted begins behind {self._base.index}, which is of a branch then: a worker with that state goes"
                " back first, by itself; compact what follows behind its new state"
            )
        if not rewind.index:  # and another seed may follow
            self._base, self.seed = replace(self._base, signature=EMPTY, quads=0), None
        self._forget_behind(rewind.index)
        self._consumer.stand(self._signature_after(rewind.index))

    def _forget_behind(self, index: int) -> None:
        while self._stretches and self._stretches[-1].first > index:
            self._stretches.pop()
        if self._stretches and self._stretches[-1].last > index:
            newest = self._stretches[-1]
            newest.end -= newest.last - index
            newest.last, newest.after = index, None

    def _signature_after(self, index: int) -> bytes:
        if index != self._base.index and (after := self._stretch_of(index).after):
            return after
        return as_bytes(self.state_at(index).signature)

    def _stretch_of(self, index: int) -> _Stretch:
        return self._stretches[bisect_left(self._stretches, index, key=lambda stretch: stretch.last)]

    def state_at(self, index: int) -> Applied:
        """What a worker says that it has applied behind this effect, and from where on it hears the effects topic.

        Of the agreed topic it says nothing.
        """
        if index == self._base.index:
            return self._base
        stretch = self._stretch_of(index)
        return Applied.after(
            self.effect_at(index), effects=stretch.heard._replace(offset=stretch.behind(index))
        )

    def effect_at(self, index: int) -> Effect:
        """An effect that counts; of one in pieces the last one."""
        offset = self._stretch_of(index).behind(index) - 1
        for record in self._between(offset, offset + 1):
            said, _, _ = codec.decode_chunk(record.value)
            if isinstance(said, Effect) and said.index == index:
                return said
        raise StateError(
            f"{self._topic} at {offset}: effect {index} is not there any more; is somebody deleting records meanwhile?"
        )

    def newest(self) -> Applied:
        """As `state_at` the newest effect, with what was heard behind it; not where there are parts of another one."""
        consumer, state = self._consumer, self.state_at(self.index)
        if self._heads.unfinished:
            return state
        return replace(
            state,
            effects_offset=self.offset,
            term=consumer.term,
            attempt=consumer.attempt,
            handover=consumer.order[1],
            handover_epoch=consumer.order[0],
            rewound=consumer.rewound,
            cut=consumer.cut,
        )

    def spans(self, after: int, until: int) -> list[Span]:
        """The records of the effects behind one index and up to another one, in the order of offsets."""
        spans: list[Span] = []
        for stretch in self._stretches:
            if stretch.last <= after or stretch.first > until:
                continue
            if stretch.pieces:
                spans += stretch.spans()
            else:
                start = stretch.start + max(0, after + 1 - stretch.first)
                spans.append(Span(start, stretch.end - max(0, stretch.last - until), -1))
        return _merged(sorted(spans))


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Neighbours as one.

    >>> _merged([Span(1, 3, -1), Span(3, 4, -1), Span(5, 6, 5), Span(6, 7, 5)])
    [Span(start=1, end=4, group=-1), Span(start=5, end=7, group=5)]
    """
    merged: list[Span] = []
    for span in spans:
        if merged and (merged[-1].end, merged[-1].group) == (span.start, span.group):
            merged[-1] = merged[-1]._replace(end=span.end)
        else:
            merged.append(span)
    return merged
