"""Consumer of the effects topic for masters: how far the effects are complete, and the state after each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from consumers.effects import FIRST_VIEW, epoch_of, term_of
from quadlog import codec
from quadlog.codec.envelope import (
    ATTEMPT,
    CHUNKS,
    HANDOVER,
    INDEX,
    OUTCOME,
    REWIND,
    SEED,
    SYNCHRONOUS,
    UNDECIDED,
)
from quadlog.core.model import GENESIS
from quadlog.core.records import Effect, Handover, Outcome, Rewind, Seed, StateAfter, Undecided
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Record

REMEMBERED: Final = 2_000
"""Number of states after an entry that a master can still compare with a worker's: seconds of the fastest load."""

KEPT_RAW: Final = 4_096
"""Maximum bytes of a record that is not decoded before its state is requested.

Most never are requested, and decoding each would cost a master as much as all its other work on effects.
"""


_WITHOUT_EFFECT: Final = {
    outcome.encode() for outcome in (Outcome.REJECTED, Outcome.ROLLED_BACK, Outcome.SUSPENDED)
}

EMPTY: Final = StateAfter(index=0, id=b"", entry_chain=GENESIS, signature=bytes(32))
"""The state with which a log without a seed begins."""

NO_HANDOVER: Final = Handover(index=0, term=GENESIS, dc="")
"""The duty before the first handover: any term counts, because there is only the view's."""


class EffectsLedger:
    """State of the effects by their headers: how far they are complete, which were rejections, and which count."""

    def __init__(
        self,
        *,
        index: int = 0,
        attempt: int = 0,
        duty: Handover = NO_HANDOVER,
        rewound: int = 0,
        seed: Seed | None = None,
        is_whole: bool = True,
    ) -> None:
        """Continue after the records in the local data centre's topic.

        Args:
            index: index of the topic's last effect.
            attempt: attempt of its newest record in the newest term.
            duty: the newest handover received; the first view's before that.
            rewound: epoch of the newest rewind received; 0: none.
            seed: the seed of the log, if one was received.
            is_whole: whether the topic is received from its beginning; otherwise the state at index 0 is unknown.

        """
        self.index, self.attempt, self.duty, self.seed = index, attempt, duty, seed
        self.rewound = rewound
        self.synchronous = 0
        """Index of the last effect that alone shows that its entry is synchronous; 0: none was received."""
        self.undecided: Undecided | None = None
        """The entry that was reported last as synchronous by its effect; None: none was."""
        self.stays = 0
        """Index of the last effect that the newest rewind left; 0 after a start."""
        self._judged, self._void = -1, False
        """The last attempt that had a new effect, and whether it continues another state than the log's."""
        self.duty_at = -1
        """Offset of the newest handover, if one was received since the start."""
        self._after: dict[int, bytes | StateAfter | None] = (
            {0: seed.state if seed else EMPTY} if is_whole else {}
        )

    def on_record(self, record: Record) -> tuple[int, str] | None:
        """Process a record; return index and reason if it counts, and says that an entry is not applied.

        Raises:
            ForeignRecord: another program wrote the record.

        """
        if not codec.is_ours(record.value):
            raise record.foreign("it holds no record of quadlog's")
        if epoch_of(record) < self.rewound:
            return None
        if record.header(HANDOVER) is not None:
            self._hand_over(record)
        elif record.header(REWIND) is not None:
            self._rewind(record)
        elif record.header(SEED) is not None:
            self._sow(record)
        elif record.header(UNDECIDED) is not None:
            self._wait(record)
        elif self._counts(record) and record.header(OUTCOME) in _WITHOUT_EFFECT:
            effect = codec.decode(record.value)
            reason = effect.reason if isinstance(effect, Effect) else None
            return self.index, reason or "no reason was given"
        return None

    def _wait(self, record: Record) -> None:
        """Note that the next entry is synchronous by its effect, and undecided."""
        said = codec.decode(record.value)
        if isinstance(said, Undecided) and said.index == self.index + 1:
            self.undecided = said

    def _counts(self, record: Record) -> bool:
        """Return whether the next effect, of the current term and attempt, is complete with this record."""
        attempt, index = record.number(ATTEMPT), record.number(INDEX)
        if self.duty.order != FIRST_VIEW:
            term = term_of(record)
            if index is None and term and self.duty.term == GENESIS:
                # After a rewind to the beginning, the first fence determines the term.
                self.duty = replace(self.duty, term=term)
            if term != self.duty.term:
                return False
        if attempt is None or attempt < self.attempt:
            return False
        self.attempt = attempt
        if index is None or index <= self.index:
            return False
        if record.header(CHUNKS) != b"1" and not codec.is_last_chunk(record.value):
            return False
        if not self._stands(self.attempt, index, record.value):
            return False
        self.index = index
        if record.header(SYNCHRONOUS) is not None:
            self.synchronous = index
        self._remember(record.value)
        return True

    def _hand_over(self, record: Record) -> None:
        said = codec.decode(record.value)
        if isinstance(said, Handover) and said.order > self.duty.order:
            self.duty, self.duty_at = said, record.offset
            self._begin(attempt=0)

    def _begin(self, attempt: int) -> None:
        """Prepare for attempts of another term: the first one that has a new effect is checked."""
        self.attempt, self._judged, self._void = attempt, -1, False

    def _rewind(self, record: Record) -> None:
        """Forget the effects after the rewind's index: they are of another history.

        The effects that follow come from another data centre.
        """
        said = codec.decode(record.value)
        if not isinstance(said, Rewind) or said.epoch <= self.rewound:
            return
        self.rewound, self.stays = said.epoch, said.index
        self.index = min(self.index, said.index)
        stay = tuple(term for term in self.duty.terms if term.after <= said.index)
        self.duty = Handover(index=-1, term=said.term, dc="", epoch=1, terms=stay)
        self._begin(said.attempt)
        self._after = {index: after for index, after in self._after.items() if index <= said.index}
        if not said.index:
            self.seed = None
            self._after = {0: EMPTY}

    def _sow(self, record: Record) -> None:
        said = codec.decode(record.value)
        if isinstance(said, Seed) and not self.index and self.duty.index <= 0 and self.seed is None:
            self.seed, self._after[0] = said, said.state

    def _stands(self, attempt: int, index: int, value: bytes) -> bool:
        """Return whether an attempt continues the state that the effects before it left, by its first new effect.

        Workers void the effects of an attempt that does not, so none of them may count here.
        """
        if attempt != self._judged:
            before, effect = self.state_after(index - 1), _effect_in(value)
            self._judged = attempt
            self._void = bool(before and effect and effect.signature_before != before.signature)
        return not self._void

    def _remember(self, value: bytes) -> None:
        """Remember the state after the effect at `index`, of which this record is the last chunk."""
        self._after[self.index] = value if len(value) <= KEPT_RAW else _state_after(value)
        if len(self._after) > REMEMBERED:
            del self._after[next(iter(self._after))]

    def remember_apart(self) -> None:
        """Detach the remembered states, in a copy of a ledger that receives other records from now on."""
        self._after = dict(self._after)

    def recall(self, records: Sequence[Record]) -> None:
        """Remember, after a start, the states up to `index` from the last records of the local topic."""
        earlier = EffectsLedger(attempt=self.attempt, duty=self.duty, rewound=self.rewound, is_whole=False)
        for record in records:
            with suppress(ForeignRecord):  # written by another program
                earlier.on_record(record)
        known = {index: after for index, after in earlier._after.items() if 0 < index <= self.index}
        self._after = known | self._after

    def state_after(self, index: int) -> StateAfter | None:
        """Return the state after the effect at an index, as the effect states it; None if it is not remembered."""
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
    """Return the effect, or the chunk of one, in a record; None if the record holds none."""
    try:
        said, _, _ = codec.decode_chunk(value)
    except ForeignRecord:
        return None
    return said if isinstance(said, Effect) else None
