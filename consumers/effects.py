"""Consumer of the effects topic for workers: which effects count, and the origin that their headers state."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog import codec
from quadlog.codec.envelope import EPOCH, EVALUATED_IN, MIRRORED, MIRRORED_FROM, TERM
from quadlog.core.model import GENESIS
from quadlog.core.records import Effect, Fence, Handover, Rewind, Seed
from quadlog.errors import ForeignRecord, StateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from quadlog.ports import Record

FIRST_VIEW: Final = (1, 0)
"""Order of the first view's handover, which is not written."""
NO_FLOOR: Final = (0, 0)
"""The floor at which all effects count."""
REWOUND: Final = (0, 0)
"""Order after a rewind.

Any handover is newer: the other data centre's handovers follow, from its first one on.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive records of one writer, each a complete effect that continues the one before it."""

    offset: int
    """Offset of the first record."""
    first: int
    last: int
    """Index of the last effect."""
    epoch: int
    term: bytes
    attempt: int
    before: bytes
    """Signature before the first effect."""
    after: bytes
    """Signature after the last effect."""

    def __len__(self) -> int:
        """Return the number of effects."""
        return self.last - self.first + 1

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return self.offset + len(self)


class EffectsConsumer:
    """Reader of the seed, rewinds, handovers and fences in order, and of those effects that count.

    The log begins with the first seed, if it precedes all effects and handovers; otherwise with the empty state.

    The first complete effect of the next index counts if it has the newest handover's term and the newest attempt in
    that term, and continues the effects before it.  Attempts are counted separately in each term.  All other effects
    are void: from an old evaluator that resumed, here or in another data centre, from a copy, or from a branch.

    A rewind of a greater epoch than any before goes back to an index.  After it, records of smaller epochs are void.
    """

    def __init__(
        self,
        *,
        index: int,
        signature: bytes,
        term: bytes,
        attempt: int,
        order: tuple[int, int] = FIRST_VIEW,
        rewound: int = 1,
        cut: int = 1,
        chunks: codec.ChunkJoiner | None = None,
    ) -> None:
        """Continue after the effects that are applied.

        Args:
            index: index of the last effect applied.
            signature: signature after it.
            term: term of the newest fence received.
            attempt: attempt of the newest fence received in that term; 0: there was none.
            order: order of the newest handover received: epoch and index.
            rewound: epoch of the newest rewind received; 1: there was none.
            cut: epoch of the cut that belongs to that rewind.
            chunks: assembler of effects; `codec.EffectHeads` for a reader that does not need their lines.

        """
        self.index = index
        self.signature: bytes | None = signature
        """Signature after that effect; None after a rewind until `set_signature` is called: none counts meanwhile."""
        self.term: bytes = term
        self.attempt: int = attempt
        self.highest: int = attempt
        """The greatest attempt received in any term.

        A worker that takes over uses the next number: attempts that rise from term to term identify a late record also
        to a reader that did not receive its term.
        """
        self.order, self.rewound = order, rewound
        self.cut = cut
        """Epoch of the cut after which no entry is of the branch that the newest rewind left."""
        self.floor: tuple[int, int] = NO_FLOOR
        """Epoch and index: effects after the index, of views before the epoch, are void until a rewind."""
        self._is_seeded = False
        self.void: Counter[str] = Counter()
        """Number of values that did not count, by reason; for an old epoch, the number of records."""
        self._chunks = chunks or codec.ChunkJoiner()

    def on_record(
        self, record: Record, part: codec.Part | None = None
    ) -> Effect | Fence | Handover | Rewind | Seed | None:
        """Return the value that is complete with this record, if it counts.

        `part`: result of `codec.decode_ahead` for its value.

        Raises:
            StateError: a rewind names an effect that was not received.

        """
        epoch = epoch_of(record)
        if epoch < self.rewound:
            self.void["old epoch"] += 1
            return None
        said = self._chunks.join(record.value, part=part, at=record.offset)
        match said:
            case Handover():
                counts = self._hands_over(said)
            case Fence():
                counts = self._begins(said)
            case Effect():
                counts = self._counts(said, epoch)
            case Rewind():
                counts = self._goes_back(said, record)
            case Seed():
                counts = self._sows(said)
            case _:
                return None
        return said if counts else None

    def on_run(self, run: Run) -> bool | None:
        """Return True if all effects of a run count, False if none does, None if each must be passed to `on_record`.

        Each effect continues the one before it: if the first one counts, all do; if it is the next one and does not
        count, none can.
        """
        is_new = run.first > self.index
        reason = (
            "old epoch"
            if run.epoch < self.rewound
            else "heard already"
            if run.last <= self.index
            else "old attempt"
            if is_new and (run.term, run.attempt) != (self.term, self.attempt)
            else "gap"
            if run.first > self.index + 1
            else None
        )
        if reason:
            self.void[reason] += len(run)
            return False
        if not is_new:
            return None
        if run.before != self.signature:
            self.void["other state"] += 1
            self.void["gap"] += len(run) - 1
            return False
        self.index, self.signature = run.last, run.after
        return True

    def set_signature(self, signature: bytes) -> None:
        """Set the signature after the effect at `index`, once the store has gone back for a rewind."""
        self.signature = signature

    def _hands_over(self, handover: Handover) -> bool:
        """Apply a handover if it is new.  Two masters may write the same one, and each may write it twice."""
        if handover.order <= self.order:
            return False
        self.term, self.order, self.attempt = handover.term, handover.order, 0
        return True

    def _goes_back(self, rewind: Rewind, record: Record) -> bool:
        """Apply a rewind if it is new.  Two masters may write the same one, and each may write it twice."""
        if rewind.epoch <= self.rewound:
            return False
        if rewind.index > self.index:
            raise StateError(
                f"{record.topic} at {record.offset}: a rewind to effect {rewind.index}, and {self.index} is the last"
                " one heard: effects are missing; this worker has to be rebuilt"
            )
        self._is_seeded = self._is_seeded and rewind.index > 0
        self.index, self.signature = rewind.index, None
        self.term, self.attempt = rewind.term, rewind.attempt
        self.highest = max(self.highest, rewind.attempt)
        self.order, self.rewound = REWOUND, rewind.epoch
        self.cut = rewind.cut
        return True

    def _sows(self, seed: Seed) -> bool:
        """Apply a seed if it counts.

        Two may be imported at once, or one while the first entry is agreed: the first record on the topic counts.
        After a handover by an entry, this topic is not the one that others copy.
        """
        if self.index or self._is_seeded or self.order[1]:
            self.void["late seed"] += 1
            return False
        self._is_seeded, self.signature = True, seed.signature
        return True

    def _begins(self, fence: Fence) -> bool:
        """Apply a fence if it counts.

        Attempts rise within a term; the first view's term is that of its first fence.
        """
        is_first = self.term == GENESIS
        if fence.attempt <= self.attempt or not (is_first or fence.term == self.term):
            self.void["old fence"] += 1
            return False
        self.term, self.attempt = fence.term, fence.attempt
        self.highest = max(self.highest, fence.attempt)
        return True

    def _counts(self, effect: Effect, epoch: int) -> bool:
        reason = (
            "heard already"
            if effect.index <= self.index
            else "old epoch"
            if self.rewound < self.floor[0] > epoch and effect.index > self.floor[1]
            else "old attempt"
            if (effect.term, effect.attempt) != (self.term, self.attempt)
            else "gap"
            if effect.index != self.index + 1
            else "other state"
            if effect.signature_before != self.signature
            else None
        )
        if reason:
            self.void[reason] += 1
            return False
        self.index, self.signature = effect.index, effect.signature_after
        return True


def epoch_of(record: Record) -> int:
    """Return the epoch of the view of this record's writer.

    Raises:
        ForeignRecord: the record is not quadlog's.

    """
    return record.number(EPOCH) or 1


def term_of(record: Record) -> bytes | None:
    """Return the term of an effect, fence or handover; None if the record does not state it.

    Raises:
        ForeignRecord: the record is not quadlog's.

    """
    value = record.header(TERM)
    try:
        return None if value is None else bytes.fromhex(value.decode())
    except ValueError:
        raise record.foreign(f"its header {TERM} is not in hex") from None


def mirrored_in(records: Sequence[Record], *, origin: str, epoch: int, evaluated_in: str) -> int:
    """Return the greatest offset of the originals of these copies; -1 if no record is such a copy.

    Args:
        records: records of an effects topic.
        origin: data centre in whose topic the originals are stored.
        epoch: epoch of the view in which they were copied.
        evaluated_in: data centre of the worker that wrote the originals.

    """
    return max(
        (
            copy.offset
            for copy in _copies(records)
            if (copy.origin, copy.epoch, copy.evaluated_in) == (origin, epoch, evaluated_in)
        ),
        default=-1,
    )


def newest_copy(records: Sequence[Record], *, epoch: int) -> tuple[str, int] | None:
    """Return data centre and offset of the original of the last copy, if it was made in the view of this epoch."""
    copy = next(_copies(reversed(records)), None)
    return None if copy is None or copy.epoch != epoch else (copy.origin, copy.offset)


class _Copy(NamedTuple):
    """The original of a copied record; fields as the parameters of `mirrored_in`."""

    origin: str
    offset: int
    epoch: int
    evaluated_in: str


def _copies(records: Iterable[Record]) -> Iterator[_Copy]:
    """Yield the originals of the copies among these records; records of other programs are skipped."""
    for record in records:
        with suppress(ForeignRecord):
            origin = record.header(MIRRORED_FROM)
            if origin is not None and (offset := record.number(MIRRORED)) is not None:
                said_in = record.header(EVALUATED_IN) or b""
                yield _Copy(_text(origin), offset, epoch_of(record), _text(said_in))


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
