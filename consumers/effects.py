"""Effects as a worker hears them: which one counts, and what their headers say of where they come from."""

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
"""Order of the handover that the first view does not need to say."""
NO_FLOOR: Final = (0, 0)
"""All count."""
REWOUND: Final = (0, 0)
"""Behind a rewind any handover is newer: the other data centre's follow, from its first one on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive records, each a whole effect that stands on the one before it, all of one writer."""

    offset: int
    """Of the first record."""
    first: int
    """Index of its effect."""
    last: int
    """Of the last one."""
    epoch: int
    term: bytes
    attempt: int
    before: bytes
    """Signature before the first one."""
    after: bytes
    """After the last one."""

    def __len__(self) -> int:
        """How many there are."""
        return self.last - self.first + 1

    @property
    def end(self) -> int:
        """Offset behind the last record."""
        return self.offset + len(self)


class EffectsConsumer:
    """The seed, rewinds, handovers and fences in order, and of the effects those that count.

    The log begins with the first seed, if that stands before all effects and handovers; else with nothing.

    The first complete effect of the next index wins, if it is of the newest handover's term and the
    newest attempt in it, and stands on the effects before it.  Attempts are counted in each term anew.
    All else is void: an old evaluator that woke up, here or in another data centre, a copy, a branch.

    A rewind of a greater epoch than any before goes back to an index.  Behind it records of smaller epochs are void.
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
        chunks: codec.Chunks | None = None,
    ) -> None:
        """Go on behind what is applied.

        Args:
            index: of the last effect taken.
            signature: signature after it.
            term: of the newest fence heard.
            attempt: of the newest fence heard in that term; 0: there was none.
            order: of the newest handover heard: epoch and index.
            rewound: epoch of the newest rewind heard; 1: there was none.
            cut: epoch of the cut that belongs to it.
            chunks: what puts effects together; `codec.Heads` for one who does without their lines.

        """
        self.index = index
        self.signature: bytes | None = signature
        """After that effect; None behind a rewind, until `stand` tells: no effect counts then."""
        self.term: bytes = term
        self.attempt: int = attempt
        self.highest: int = attempt
        """Attempt that was heard in any term.  Who takes over says the next one: numbers that rise from term to term
        tell a late record also to whoever did not hear of its term."""
        self.order, self.rewound = order, rewound
        self.cut = cut
        """Epoch of the cut behind which no entry is of the branch that the newest rewind left."""
        self.floor: tuple[int, int] = NO_FLOOR
        """What earlier views than this one's epoch say of effects behind this index is void, until a rewind."""
        self._is_seeded = False
        self.void: Counter[str] = Counter()
        """What did not count, by reason; of an old epoch each record."""
        self._chunks = chunks or codec.Chunks()

    def hear(
        self, record: Record, part: codec.Part | None = None
    ) -> Effect | Fence | Handover | Rewind | Seed | None:
        """What this record completes, if it counts.

        `part`: what `codec.decode_ahead` made of its value.

        Raises:
            StateError: a rewind names an effect that was not heard.

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

    def hear_run(self, run: Run) -> bool | None:
        """Whether all effects of a run count, or none does; None: they have to be heard one by one.

        Each stands on the one before it: if the first one counts, all do; and if it is the next one and does not,
        none can.
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

    def stand(self, signature: bytes) -> None:
        """Who rewound has gone back: this is the signature after the effect at `index`."""
        self.signature = signature

    def _hands_over(self, handover: Handover) -> bool:
        """Two masters may say one, and either may say it twice."""
        if handover.order <= self.order:
            return False
        self.term, self.order, self.attempt = handover.term, handover.order, 0
        return True

    def _goes_back(self, rewind: Rewind, record: Record) -> bool:
        """Two masters may say one, and either may say it twice."""
        if rewind.epoch <= self.rewound:
            return False
        if rewind.index > self.index:
            message = (
                f"{record.topic} at {record.offset}: a rewind to effect {rewind.index}, and {self.index} is the last"
                " one heard: effects are missing; this worker has to be rebuilt"
            )
            raise StateError(message)
        self._is_seeded = self._is_seeded and rewind.index > 0
        self.index, self.signature = rewind.index, None
        self.term, self.attempt = rewind.term, rewind.attempt
        self.highest = max(self.highest, rewind.attempt)
        self.order, self.rewound = REWOUND, rewind.epoch
        self.cut = rewind.epoch if rewind.cut is None else rewind.cut
        return True

    def _sows(self, seed: Seed) -> bool:
        """Two may be imported at once, or one while the first entry is agreed: what comes first on the topic counts.

        Behind a handover by an entry this topic is not the one that others copy.
        """
        if self.index or self._is_seeded or self.order[1]:
            self.void["late seed"] += 1
            return False
        self._is_seeded, self.signature = True, seed.signature
        return True

    def _begins(self, fence: Fence) -> bool:
        """Attempts rise within a term; the first view's term is that of its first fence."""
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
    """Of the view that the writer of this record stood in.

    Raises:
        ForeignRecord: it is none of ours.

    """
    return record.number(EPOCH) or 1


def term_of(record: Record) -> bytes | None:
    """Whose effects these are; None: the record does not say.

    Raises:
        ForeignRecord: it is none of ours.

    """
    value = record.header(TERM)
    try:
        return None if value is None else bytes.fromhex(value.decode())
    except ValueError:
        raise record.foreign(f"its header {TERM} is not in hex") from None


def mirrored_in(records: Sequence[Record], *, origin: str, epoch: int, evaluated_in: str) -> int:
    """Offset of the record that the last copy among these is a copy of; -1 if there is none.

    Args:
        records: of an effects topic.
        origin: only copies of what stands in this data centre's topic.
        epoch: only what was copied in this view.
        evaluated_in: only copies of what a worker of this data centre said.

    """
    return max(
        (
            copy.offset
            for copy in _copies(records)
            if copy.origin in {None, origin} and (copy.epoch, copy.evaluated_in) == (epoch, evaluated_in)
        ),
        default=-1,
    )


def newest_copy(records: Sequence[Record], *, epoch: int) -> tuple[str, int] | None:
    """What the last copy among these is a copy of, data centre and offset, if it was made in this view.

    Args:
        records: of an effects topic.
        epoch: of the view.

    """
    for copy in _copies(reversed(records)):
        if copy.origin is not None:
            return (copy.origin, copy.offset) if copy.epoch == epoch else None
    return None


class _Copy(NamedTuple):
    """What a record is a copy of."""

    origin: str | None
    """The data centre in whose topic it was read; None: an earlier version did not say."""
    offset: int
    """Of the record there."""
    epoch: int
    """Of the view in which it was copied."""
    evaluated_in: str
    """The data centre of the worker that said it."""


def _copies(records: Iterable[Record]) -> Iterator[_Copy]:
    """What another program wrote is none."""
    for record in records:
        with suppress(ForeignRecord):
            if (offset := record.number(MIRRORED)) is not None:
                origin, said_in = record.header(MIRRORED_FROM), record.header(EVALUATED_IN) or b""
                yield _Copy(
                    None if origin is None else _text(origin), offset, epoch_of(record), _text(said_in)
                )


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
