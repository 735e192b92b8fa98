"""Effects as a worker hears them: which one counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.model import Effect, Fence, Outcome
from quadlog.envelope import ATTEMPT, CHUNKS, INDEX, MIRRORED, OUTCOME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Record


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
        self.index = int(index)
        if record.header(OUTCOME) != Outcome.REJECTED.encode():
            return None
        effect = codec.decode(record.value)
        reason = effect.reason if isinstance(effect, Effect) else None
        return self.index, reason or "no reason was given"
