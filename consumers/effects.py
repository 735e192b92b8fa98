"""Effects as a worker hears them: which one counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.model import GENESIS, Effect, Fence, Outcome, StateAfter
from quadlog.envelope import ATTEMPT, CHUNKS, INDEX, MIRRORED, OUTCOME
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Record

REMEMBERED: Final = 2_000
"""States after an entry that a master can still compare a worker's with: seconds of the fastest load."""

KEPT_RAW: Final = 4_096
"""Bytes of a record that is kept as it came until somebody asks: most are never asked for, and to decode
each of them would cost a master as much as all else that it does with effects."""


class EffectsConsumer:
    """Fences in order, and of the effects those that count.

    The first complete effect of the next index wins, if it is the newest attempt's and stands on the
    effects before it.  All else is void: an old evaluator that woke up, a copy, a branch.
    """

    def __init__(self, *, index: int, signature: bytes, term: bytes, attempt: int) -> None:
        """Go on behind what is applied.

        Args:
            index: of the last effect taken.
            signature: signature after it.
            term: of the newest fence heard.
            attempt: of the newest fence heard.

        """
        self.index, self.signature = index, signature
        self.term, self.attempt = term, attempt
        self.void: Counter[str] = Counter()
        """Effects that did not count, by reason."""
        self._chunks = codec.Chunks()

    def hear(self, record: Record) -> Effect | Fence | None:
        """What this record completes, if it counts."""
        said = self._chunks.join(record.value)
        match said:
            case Fence():
                if said.attempt <= self.attempt:
                    self.void["old fence"] += 1
                    return None
                self.term, self.attempt = said.term, said.attempt
                return said
            case Effect():
                return said if self._counts(said) else None
            case _:
                return None

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
    """Effects as a master follows them, by their headers: how far they are whole, what was rejected."""

    def __init__(self, *, index: int = 0, attempt: int = 0, mirrored: int = -1) -> None:
        """Go on behind what the own data centre's topic holds.

        Args:
            index: of its last effect.
            attempt: of its newest record.
            mirrored: offset of the record that its last one is a copy of.

        """
        self.index, self.attempt, self.mirrored = index, attempt, mirrored
        self._judged, self._void = attempt, False
        """The last attempt that said something new, and whether it stands on another state than the log's."""
        self._after: dict[int, bytes | StateAfter | None] = {
            0: StateAfter(index=0, id=b"", entry_chain=GENESIS, signature=bytes(32))
        }

    @classmethod
    def at_end(cls, records: Sequence[Record]) -> EffectsLedger:
        """What the last records of the own topic tell."""
        ledger = cls()
        for record in records:
            ledger.hear(record)
            ledger.mirrored = max(ledger.mirrored, int(record.header(MIRRORED) or -1))
        return ledger

    def hear(self, record: Record) -> tuple[int, str] | None:
        """Index and reason of a rejection, if this record is one that counts."""
        attempt, index = record.header(ATTEMPT), record.header(INDEX)
        if attempt is None or int(attempt) < self.attempt:
            return None
        self.attempt = int(attempt)
        if index is None or int(index) <= self.index:
            return None
        if record.header(CHUNKS) != b"1" and not codec.is_last_chunk(record.value):
            return None
        if not self._stands(self.attempt, int(index), record.value):
            return None
        self.index = int(index)
        self._remember(record.value)
        if record.header(OUTCOME) != Outcome.REJECTED.encode():
            return None
        effect = codec.decode(record.value)
        reason = effect.reason if isinstance(effect, Effect) else None
        return self.index, reason or "no reason was given"

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
        earlier = EffectsLedger(attempt=self.attempt)
        for record in records:
            earlier.hear(record)
        known = {index: after for index, after in earlier._after.items() if index <= self.index}
        self._after = known | self._after

    def state_after(self, index: int) -> StateAfter | None:
        """What the effect of this index says of the state after it, if it is remembered."""
        after = self._after.get(index)
        if isinstance(after, bytes):
            after = self._after[index] = _state_after(after)
        return after


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
