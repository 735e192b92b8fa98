"""The point up to which a store has applied the log, encoded as one line of text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog.core.effects import signature
from quadlog.core.model import GENESIS, START, LogPosition

if TYPE_CHECKING:
    from quadlog.core.records import Effect


class InAgreed(NamedTuple):
    """A position in the agreed topic, with the facts about earlier records that reading on from there requires."""

    offset: int = 0
    last: LogPosition = START
    """The newest entry before the position."""
    epoch: int = 1
    """Epoch of the newest cut before the position, or of `last`."""


class InEffects(NamedTuple):
    """A position in the effects topic, with the facts about earlier records that reading on from there requires."""

    offset: int = 0
    order: tuple[int, int] = (1, 0)
    """Epoch and index of the newest handover before the position."""
    rewound: int = 1
    """Epoch of the newest rewind before the position; 1: there was none."""
    cut: int = 1
    """Epoch of the cut that belongs to that rewind."""


_BEGINNING: Final = InEffects()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The point up to which a store has applied the log, and the signature and number of its quads there."""

    index: int = 0
    chain: bytes = GENESIS
    effects_chain: bytes = GENESIS
    signature: int = signature.EMPTY
    quads: int = 0
    agreed_offset: int = 0
    effects_offset: int = 0
    term: bytes = GENESIS
    attempt: int = 0
    handover: int = 0
    """Index of the entry that began the term; 0: the view did."""
    handover_epoch: int = 1
    """Epoch of the view that the term belongs to."""
    rewound: int = 1
    """Epoch of the newest rewind before `effects_offset`; 1: there was none."""
    cut: int = 1
    """Epoch of the cut that belongs to that rewind: the cut is before `agreed_offset`, or will be read later."""
    epoch: int = 1
    """Epoch of the newest cut before `agreed_offset`, or of the entry there."""
    heard: LogPosition | None = None
    """The newest entry before `agreed_offset`, if that is not the applied one: the store has gone back."""

    @property
    def point(self) -> LogPosition:
        """Point of the entry applied last."""
        return LogPosition(self.index, self.chain)

    @property
    def in_agreed(self) -> InAgreed:
        """Position from which the agreed topic must be read."""
        return InAgreed(self.agreed_offset, self.heard or self.point, self.epoch)

    @property
    def in_effects(self) -> InEffects:
        """Position from which the effects topic must be read."""
        order = self.handover_epoch, self.handover
        return InEffects(self.effects_offset, order, self.rewound, self.cut)

    @staticmethod
    def after(effect: Effect, agreed: InAgreed | None = None, effects: InEffects = _BEGINNING) -> Applied:
        """Return the applied state after this effect, with the positions from which the store reads on."""
        point = LogPosition(effect.index, effect.entry_chain)
        agreed = agreed or InAgreed(last=point)
        return Applied(
            index=effect.index,
            chain=effect.entry_chain,
            effects_chain=effect.chain,
            signature=int.from_bytes(effect.signature_after, "big"),
            quads=effect.quads,
            agreed_offset=agreed.offset,
            effects_offset=effects.offset,
            term=effect.term,
            attempt=effect.attempt,
            handover=effects.order[1],
            handover_epoch=effects.order[0],
            rewound=effects.rewound,
            cut=effects.cut,
            epoch=agreed.epoch,
            heard=None if agreed.last == point else agreed.last,
        )

    def encode(self) -> str:
        """Return one line of text; it is short, because oxigraph's dictionary keeps every string for ever.

        >>> applied = Applied(index=7, chain=b"x", heard=LogPosition(9, b"y"))
        >>> Applied.decode(applied.encode()) == applied
        True
        """
        numbers = [
            self.index, self.quads, self.agreed_offset, self.effects_offset, self.attempt, self.handover,
            self.handover_epoch, self.rewound, self.epoch, self.cut,
        ]  # fmt: skip
        values = [self.signature.to_bytes(32, "big"), self.chain, self.effects_chain, self.term]
        if self.heard is not None:
            numbers.append(self.heard.index)
            values.append(self.heard.chain)
        return ",".join((*map(str, numbers), *(b64encode(value).decode() for value in values)))

    @staticmethod
    def decode(text: str) -> Applied:
        """Decode the text of ``encode``."""
        words = text.split(",")
        has_gone_back = len(words) > _WORDS
        texts = 5 if has_gone_back else 4
        (
            index, quads, agreed_offset, effects_offset, attempt, handover,
            handover_epoch, rewound, epoch, cut, *heard_index,
        ) = map(int, words[:-texts])  # fmt: skip
        total, chain, effects_chain, term, *heard = map(b64decode, words[-texts:])
        return Applied(
            index=index,
            chain=chain,
            effects_chain=effects_chain,
            signature=int.from_bytes(total, "big"),
            quads=quads,
            agreed_offset=agreed_offset,
            effects_offset=effects_offset,
            term=term,
            attempt=attempt,
            handover=handover,
            handover_epoch=handover_epoch,
            rewound=rewound,
            cut=cut,
            epoch=epoch,
            heard=LogPosition(heard_index[0], heard[0]) if has_gone_back else None,
        )


_WORDS: Final = 14
"""Number of words in the text of a store that has not gone back."""
