"""Effects as a worker hears them: which one counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.model import GENESIS, Effect, Fence, Handover, Outcome, Seed, StateAfter
from quadlog.envelope import ATTEMPT, CHUNKS, EVALUATED_IN, HANDOVER, INDEX, MIRRORED, OUTCOME, SEED, TERM
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Record

REMEMBERED: Final = 2_000
"""States after an entry that a master can still compare a worker's with: seconds of the fastest load."""

KEPT_RAW: Final = 4_096
"""Bytes of a record that is kept as it came until somebody asks: most are never asked for, and to decode
each of them would cost a master as much as all else that it does with effects."""


EMPTY: Final = StateAfter(index=0, id=b"", entry_chain=GENESIS, signature=bytes(32))
"""What a log without a seed begins with."""

NO_HANDOVER: Final = Handover(index=0, term=GENESIS, dc="")
"""Before the first one any term counts: there is only that of the view."""


class EffectsConsumer:
    """The seed, handovers and fences in order, and of the effects those that count.

    The log begins with the first seed, if that stands before all effects and handovers; else with nothing.

    The first complete effect of the next index wins, if it is of the newest handover's term and the
    newest attempt in it, and stands on the effects before it.  All else is void: an old evaluator that
    woke up, here or in another data centre, a copy, a branch.
    """

    def __init__(self, *, index: int, signature: bytes, term: bytes, attempt: int, handover: int = 0) -> None:
        """Go on behind what is applied.

        Args:
            index: of the last effect taken.
            signature: signature after it.
            term: of the newest fence heard.
            attempt: of the newest fence heard.
            handover: index of the entry that gave the term; 0: the view did.

        """
        self.index, self.signature = index, signature
        self.term, self.attempt = term, attempt
        self._handovers = {term: handover}
        self._is_seeded = False
        self.void: Counter[str] = Counter()
        """Effects that did not count, by reason."""
        self._chunks = codec.Chunks()

    def handover_of(self, term: bytes) -> int:
        """Index of the entry that gave a term; 0: the view did."""
        return self._handovers.get(term, 0)

    def hear(self, record: Record) -> Effect | Fence | Handover | Seed | None:
        """What this record completes, if it counts."""
        said = self._chunks.join(record.value)
        match said:
            case Handover():
                return said if self._hands_over(said) else None
            case Fence():
                if not self._begins(said):
                    self.void["old fence"] += 1
                    return None
                self.term, self.attempt = said.term, said.attempt
                return said
            case Effect():
                return said if self._counts(said) else None
            case Seed():
                return said if self._sows(said) else None
            case _:
                return None

    def _hands_over(self, handover: Handover) -> bool:
        """Two masters may say one, and either may say it twice."""
        if handover.index <= self.handover_of(self.term):
            return False
        self.term = handover.term
        self._handovers[handover.term] = handover.index
        return True

    def _sows(self, seed: Seed) -> bool:
        """Two may be imported at once, or one while the first entry is agreed: what comes first on the topic counts.

        Behind a handover this topic is not the one that others copy.
        """
        if self.index or self._is_seeded or self.handover_of(self.term):
            self.void["late seed"] += 1
            return False
        self._is_seeded, self.signature = True, seed.signature
        return True

    def _begins(self, fence: Fence) -> bool:
        """Attempts rise, from term to term; the view's own term is that of its first fence."""
        is_first = self.term == GENESIS
        return (is_first or fence.term == self.term) and fence.attempt > self.attempt

    def _counts(self, effect: Effect) -> bool:
        reason = (
            "heard already"
            if effect.index <= self.index
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


class EffectsLedger:
    """Effects as a master follows them, by their headers: how far they are whole, what was rejected, whose count."""

    def __init__(
        self,
        *,
        index: int = 0,
        attempt: int = 0,
        duty: Handover = NO_HANDOVER,
        seed: Seed | None = None,
        is_whole: bool = True,
    ) -> None:
        """Go on behind what the own data centre's topic holds.

        Args:
            index: of its last effect.
            attempt: of its newest record.
            duty: the newest handover heard; of index 0 before the first one.
            seed: what the log begins with, if it was heard.
            is_whole: whether all is heard from the topic's beginning on; else nobody knows what the log begins with.

        """
        self.index, self.attempt, self.duty, self.seed = index, attempt, duty, seed
        self._judged, self._void = attempt, False
        """The last attempt that said something new, and whether it stands on another state than the log's."""
        self.duty_at = -1
        """Offset of the newest handover, if it was heard since the start."""
        self._after: dict[int, bytes | StateAfter | None] = (
            {0: seed.state if seed else EMPTY} if is_whole else {}
        )

    def hear(self, record: Record) -> tuple[int, str] | None:
        """Index and reason of a rejection, if this record is one that counts."""
        if record.header(HANDOVER) is not None:
            self._hand_over(record)
        elif record.header(SEED) is not None:
            self._sow(record)
        elif self._counts(record) and record.header(OUTCOME) == Outcome.REJECTED.encode():
            effect = codec.decode(record.value)
            reason = effect.reason if isinstance(effect, Effect) else None
            return self.index, reason or "no reason was given"
        return None

    def _counts(self, record: Record) -> bool:
        """Is an effect whole with this record, the next one of this term and attempt?"""
        attempt, index = record.header(ATTEMPT), record.header(INDEX)
        if self.duty.index and record.header(TERM) != self.duty.term.hex().encode():
            return False
        if attempt is None or int(attempt) < self.attempt:
            return False
        self.attempt = int(attempt)
        if index is None or int(index) <= self.index:
            return False
        if record.header(CHUNKS) != b"1" and not codec.is_last_chunk(record.value):
            return False
        if not self._stands(self.attempt, int(index), record.value):
            return False
        self.index = int(index)
        self._remember(record.value)
        return True

    def _hand_over(self, record: Record) -> None:
        said = codec.decode(record.value)
        if isinstance(said, Handover) and said.index > self.duty.index:
            self.duty, self.duty_at = said, record.offset

    def _sow(self, record: Record) -> None:
        said = codec.decode(record.value)
        if isinstance(said, Seed) and not self.index and not self.duty.index and self.seed is None:
            self.seed, self._after[0] = said, said.state

    def _stands(self, attempt: int, index: int, value: bytes) -> bool:
        """Whether an attempt went on from the state that the effects before it left; its first new effect tells.

        Workers void the effects of one that did not, so nothing of it may count here either.
        """
        if attempt != self._judged:
            before, effect = self.state_after(index - 1), _effect_in(value)
            self._judged = attempt
            self._void = bool(before and effect and effect.signature_before != before.signature)
        return not self._void

    def _remember(self, value: bytes) -> None:
        """The state after the effect of `index`, of which this record is the last chunk."""
        self._after[self.index] = value if len(value) <= KEPT_RAW else _state_after(value)
        if len(self._after) > REMEMBERED:
            del self._after[next(iter(self._after))]

    def recall(self, records: Sequence[Record]) -> None:
        """What the last records of the own topic say of states up to `index`, after a start."""
        earlier = EffectsLedger(attempt=self.attempt, is_whole=False)
        for record in records:
            earlier.hear(record)
        known = {index: after for index, after in earlier._after.items() if 0 < index <= self.index}
        self._after = known | self._after

    def state_after(self, index: int) -> StateAfter | None:
        """What the effect of this index says of the state after it, if it is remembered."""
        after = self._after.get(index)
        if isinstance(after, bytes):
            after = self._after[index] = _state_after(after)
        return after


def mirrored_in(records: Sequence[Record], *, evaluated_in: str | None = None) -> int:
    """Offset of the record that the last copy among these is a copy of; -1 if none of them is a copy.

    `evaluated_in`: only copies of what a worker of that data centre said.
    """
    offsets = (
        int(record.header(MIRRORED) or -1)
        for record in records
        if evaluated_in is None or record.header(EVALUATED_IN) == evaluated_in.encode()
    )
    return max(offsets, default=-1)


def _state_after(value: bytes) -> StateAfter | None:
    effect = _effect_in(value)
    if effect is None:
        return None
    return StateAfter(
        index=effect.index, id=effect.id, entry_chain=effect.entry_chain, signature=effect.signature_after
    )


def _effect_in(value: bytes) -> Effect | None:
    """An effect, or the chunk of one; None: another program wrote that record."""
    try:
        said, _, _ = codec.decode_chunk(value)
    except StateError:
        return None
    return said if isinstance(said, Effect) else None
