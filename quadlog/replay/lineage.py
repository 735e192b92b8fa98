"""Which effects of a topic count, and at which offsets: without their lines, so that the topic may be long.

A survey has found runs: consecutive records of one writer, each an effect that continues the one before it.  Nearly
always, a run counts as a whole or not at all; `EffectsConsumer` decides.  The same consumer reads all records between
runs one by one: fences, handovers, rewinds, seeds, effects in chunks, copies, branches.
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
    """Returns the records of the topic from one offset up to, but excluding, another."""


class Span(NamedTuple):
    """Records of effects that count."""

    start: int
    end: int
    """Offset after the last record."""
    group: int
    """Offset of the first of some chunks whose lines continue in each other and must be read together; -1: none."""


@dataclass(slots=True)
class _Stretch:
    """Effects that count: consecutive ones with one record each, or one effect in pieces."""

    first: int
    last: int
    start: int
    end: int
    """Offset after the record that completes the last effect."""
    after: bytes | None
    """Signature after the last effect; None: not known."""
    pieces: Sequence[codec.ChunkPlace]
    heard: InEffects
    """Handover, rewind and cut up to there; its offset is not set."""

    def goes_on_in(self, other: _Stretch) -> bool:
        """Return whether the other stretch directly continues this one."""
        is_next = (self.last + 1, self.end, self.heard) == (other.first, other.start, other.heard)
        return is_next and not self.pieces and not other.pieces

    def behind(self, index: int) -> int:
        """Return the offset after the record that completes an effect."""
        return self.end - (self.last - index)

    def spans(self) -> list[Span]:
        """Return the records of the pieces; those whose lines continue in each other form a group."""
        spans, group = list[Span](), -1
        for offset, continues in self.pieces:
            if continues and group < 0:
                group = offset
            spans.append(Span(offset, offset + 1, group))
            if not continues:
                group = -1
        return spans


class Rewound(NamedTuple):
    """Effects that a rewind has ended."""

    after: int
    """Index of the last effect that stays."""
    last: int
    """Index of the last one of them."""
    stretches: Sequence[_Stretch]


class Lineage:
    """Finds the effects of a topic that count, from an applied state on."""

    def __init__(self, topic: str, applied: Applied, between: Between) -> None:
        """Start without reading anything.  `Applied()` is the state at the topic's beginning."""
        self._topic, self._between, self._base = topic, between, applied
        self._heads: Final = codec.EffectHeads()
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
        """Offset after the last record that was read."""
        self.looked_at = 0
        """Number of records that were read one by one."""
        self.seed: Seed | None = None
        """Seed with which the log begins, if it was read."""
        self.rewound: list[Rewound] = []
        """Effects that rewinds have ended, in the order of these."""

    @property
    def index(self) -> int:
        """Index of the newest effect that counts."""
        return self._consumer.index

    @property
    def is_rewound(self) -> bool:
        """True after a rewind: from there on the epoch of a record matters."""
        return self._consumer.rewound > 1

    @property
    def gaps(self) -> int:
        """Number of effects that did not count because an earlier one is missing."""
        return self._consumer.void["gap"]

    def follow(self, runs: Iterable[Run], end: int, *, knows_epochs: bool) -> bool:
        """Read all records before the offset `end`; return False if it stopped after a rewind for lack of epochs.

        Args:
            runs: all runs between `offset` and `end`, in order.
            end: offset at which to stop.
            knows_epochs: True if the runs have their true epochs; irrelevant as long as nothing was rewound.

        Raises:
            StateError: the topic rewinds to an index before the state to start from.

        """
        assert knows_epochs or not self.is_rewound, "behind a rewind runs have to say their epochs"
        for run in runs:
            self._one_by_one(run.offset)
            if self.is_rewound and not knows_epochs:
                return False
            counts = self._consumer.on_run(run)
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
            with suppress(ForeignRecord):  # written by another program
                self._hear(record)
        self.offset = end

    def _hear(self, record: Record) -> None:
        match self._consumer.on_record(record):
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

    def _add(
        self, first: int, last: int, start: int, end: int, pieces: Sequence[codec.ChunkPlace] = ()
    ) -> None:
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
        """Drop the effects after the index of the rewind: they belong to a branch."""
        if rewind.index < self._base.index:
            raise StateError(
                f"{self._topic} at {record.offset}: the log goes back to effect {rewind.index}, and the range"
                f" to compact begins after {self._base.index}, which is then on a branch: a worker with that state goes"
                " back first, without a command; compact what follows its new state"
            )
        if not rewind.index:  # another seed may follow
            self._base, self.seed = replace(self._base, signature=EMPTY, quads=0), None
        self._forget_behind(rewind.index)
        self._consumer.set_signature(self._signature_after(rewind.index))

    def _forget_behind(self, index: int) -> None:
        ended = [replace(one) for one in self._stretches if one.last > index]
        if ended:
            self.rewound.append(Rewound(index, ended[-1].last, ended))
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
        """Return the applied state of a worker after an effect, with the place from which it reads the effects topic.

        The place in the agreed topic is not set.
        """
        if index == self._base.index:
            return self._base
        stretch = self._stretch_of(index)
        return Applied.after(
            self.effect_at(index), effects=stretch.heard._replace(offset=stretch.behind(index))
        )

    def effect_at(self, index: int) -> Effect:
        """Return an effect that counts; if it is in pieces, its last piece."""
        return self._effect_in(self._stretch_of(index), index)

    def last_of(self, rewound: Rewound) -> Effect:
        """Return the last effect that a rewind has ended."""
        return self._effect_in(rewound.stretches[-1], rewound.last)

    def _effect_in(self, stretch: _Stretch, index: int) -> Effect:
        offset = stretch.behind(index) - 1
        for record in self._between(offset, offset + 1):
            said, _, _ = codec.decode_chunk(record.value)
            if isinstance(said, Effect) and said.index == index:
                return said
        raise StateError(
            f"{self._topic} at {offset}: effect {index} is not there any more; are records being deleted?"
        )

    def newest(self) -> Applied:
        """Return `state_at` the newest effect, moved past all later records unless an effect is incomplete."""
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

    def spans(self, after: int, until: int, *, rewound: Rewound | None = None) -> list[Span]:
        """Return the records of the effects after one index and up to another, in the order of offsets.

        `rewound`: of effects that this rewind has ended; None: of effects that count.
        """
        spans: list[Span] = []
        for stretch in self._stretches if rewound is None else rewound.stretches:
            if stretch.last <= after or stretch.first > until:
                continue
            if stretch.pieces:
                spans += stretch.spans()
            else:
                start = stretch.start + max(0, after + 1 - stretch.first)
                spans.append(Span(start, stretch.end - max(0, stretch.last - until), -1))
        return _merged(sorted(spans))


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Merge adjacent spans of the same group.

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
