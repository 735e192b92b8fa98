"""Effects as a master follows them: how far they are, and what state each left."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from consumers.effects import FIRST_VIEW, epoch_of, term_of
from quadlog import codec
from quadlog.codec.envelope import ATTEMPT, CHUNKS, HANDOVER, INDEX, OUTCOME, REWIND, SEED
from quadlog.core.model import GENESIS
from quadlog.core.records import Effect, Handover, Outcome, Rewind, Seed, StateAfter
from quadlog.errors import ForeignRecord

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


class EffectsLedger:
    """Effects as a master follows them, by their headers: how far they are whole, what was rejected, whose count."""

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
        """Go on behind what the own data centre's topic holds.

        Args:
            index: of its last effect.
            attempt: of its newest record in the newest term.
            duty: the newest handover heard; the first view's before that.
            rewound: epoch of the newest rewind heard; 0: none.
            seed: what the log begins with, if it was heard.
            is_whole: whether all is heard from the topic's beginning on; else nobody knows what the log begins with.

        """
        self.index, self.attempt, self.duty, self.seed = index, attempt, duty, seed
        self.rewound = rewound
        self.stays = 0
        """Index of the last effect that the newest rewind left; 0 after a start."""
        self._judged, self._void = -1, False
        """The last attempt that said something new, and whether it stands on another state than the log's."""
        self.duty_at = -1
        """Offset of the newest handover, if it was heard since the start."""
        self._after: dict[int, bytes | StateAfter | None] = (
            {0: seed.state if seed else EMPTY} if is_whole else {}
        )

    def hear(self, record: Record) -> tuple[int, str] | None:
        """Index and reason of a rejection, if this record is one that counts.

        Raises:
            ForeignRecord: another program wrote it.

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
        elif self._counts(record) and record.header(OUTCOME) == Outcome.REJECTED.encode():
            effect = codec.decode(record.value)
            reason = effect.reason if isinstance(effect, Effect) else None
            return self.index, reason or "no reason was given"
        return None

    def _counts(self, record: Record) -> bool:
        """Is an effect whole with this record, the next one of this term and attempt?"""
        attempt, index = record.number(ATTEMPT), record.number(INDEX)
        if self.duty.order != FIRST_VIEW:
            term = term_of(record)
            if index is None and term and self.duty.term == GENESIS:
                # Behind a rewind to the beginning the first fence tells the term.
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
        self._remember(record.value)
        return True

    def _hand_over(self, record: Record) -> None:
        said = codec.decode(record.value)
        if isinstance(said, Handover) and said.order > self.duty.order:
            self.duty, self.duty_at = said, record.offset
            self._begin(attempt=0)

    def _begin(self, attempt: int) -> None:
        """Attempts of another term follow: the first one that says something new is judged."""
        self.attempt, self._judged, self._void = attempt, -1, False

    def _rewind(self, record: Record) -> None:
        """What was decided behind that index is of another history; what follows comes from another data centre."""
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

    def remember_apart(self) -> None:
        """A copy that hears something else from here on."""
        self._after = dict(self._after)

    def recall(self, records: Sequence[Record]) -> None:
        """What the last records of the own topic say of states up to `index`, after a start."""
        earlier = EffectsLedger(attempt=self.attempt, duty=self.duty, rewound=self.rewound, is_whole=False)
        for record in records:
            with suppress(ForeignRecord):  # another program writes there
                earlier.hear(record)
        known = {index: after for index, after in earlier._after.items() if 0 < index <= self.index}
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
    except ForeignRecord:
        return None
    return said if isinstance(said, Effect) else None
