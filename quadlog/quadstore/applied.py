"""Up to where a store has applied the log, as one line of text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog.core.effects import signature
from quadlog.core.model import GENESIS, START, Point

if TYPE_CHECKING:
    from quadlog.core.records import Effect


class InAgreed(NamedTuple):
    """A place in the agreed topic, and what has to be known of all before it to hear on from there."""

    offset: int = 0
    last: Point = START
    """The newest entry before it."""
    epoch: int = 1
    """Of the newest cut before it, or of that entry."""


class InEffects(NamedTuple):
    """A place in the effects topic, and what has to be known of all before it to hear on from there."""

    offset: int = 0
    order: tuple[int, int] = (1, 0)
    """Of the newest handover before it."""
    rewound: int = 1
    """Epoch of the newest rewind before it; 1: there was none."""
    cut: int = 1
    """Epoch of the cut that belongs to that rewind."""


_BEGINNING: Final = InEffects()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Up to where a store has applied the log, and what it holds then."""

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
    """Index of the entry that gave the term; 0: the view did."""
    handover_epoch: int = 1
    """Of the view that the term is of."""
    rewound: int = 1
    """Epoch of the newest rewind before `effects_offset`; 1: there was none."""
    cut: int = 1
    """Epoch of the cut that belongs to that rewind: it may be before `agreed_offset`, or is to come."""
    epoch: int = 1
    """Of the newest cut before `agreed_offset`, or of the entry there."""
    heard: Point | None = None
    """The newest entry before `agreed_offset`, where that is not the one applied: the store has gone back."""

    @property
    def point(self) -> Point:
        """Of the entry applied last."""
        return Point(self.index, self.chain)

    @property
    def in_agreed(self) -> InAgreed:
        """From where on the agreed topic is to be heard."""
        return InAgreed(self.agreed_offset, self.heard or self.point, self.epoch)

    @property
    def in_effects(self) -> InEffects:
        """From where on the effects topic is to be heard."""
        order = self.handover_epoch, self.handover
        return InEffects(self.effects_offset, order, self.rewound, self.cut)

    @staticmethod
    def after(effect: Effect, agreed: InAgreed | None = None, effects: InEffects = _BEGINNING) -> Applied:
        """What a store has applied with this effect, and where it hears on."""
        point = Point(effect.index, effect.entry_chain)
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
        """One line of text, short: oxigraph's dictionary keeps every string for ever.

        >>> applied = Applied(index=7, chain=b"x", heard=Point(9, b"y"))
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
        """The inverse of ``encode``; stores of earlier versions know less."""
        words = text.split(",")
        has_gone_back = len(words) > _WORDS
        texts = 5 if has_gone_back else 4
        index, quads, agreed_offset, effects_offset, attempt, *more = map(int, words[:-texts])
        total, chain, effects_chain, term, *heard = map(b64decode, words[-texts:])
        heard_index = more.pop() if has_gone_back else 0
        handover, handover_epoch, rewound, epoch, *cut = (*more, *_FIRST_VIEW[len(more) :])
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
            cut=cut[0] if cut else rewound,
            epoch=epoch,
            heard=Point(heard_index, heard[0]) if has_gone_back else None,
        )


_WORDS: Final = 14
"""At the most, in the text of a store that has not gone back."""
_FIRST_VIEW: Final = (0, 1, 1, 1)
"""Handover, its epoch, the newest rewind and the newest cut, where nothing is said of them."""
