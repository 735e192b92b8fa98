"""Up to where a store has applied the log, as one line of text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadlog.core import signature
from quadlog.core.model import GENESIS

if TYPE_CHECKING:
    from quadlog.core.model import Effect


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

    @staticmethod
    def after(effect: Effect, *, agreed_offset: int = 0, effects_offset: int = 0) -> Applied:
        """What a store has applied with this effect; the offsets are those behind the records."""
        return Applied(
            index=effect.index,
            chain=effect.entry_chain,
            effects_chain=effect.chain,
            signature=int.from_bytes(effect.signature_after, "big"),
            quads=effect.quads,
            agreed_offset=agreed_offset,
            effects_offset=effects_offset,
            term=effect.term,
            attempt=effect.attempt,
        )

    def encode(self) -> str:
        """One line of text, short: oxigraph's dictionary keeps every string for ever.

        >>> Applied.decode(Applied(index=7, chain=b"x").encode()) == Applied(index=7, chain=b"x")
        True
        """
        numbers = (
            self.index, self.quads, self.agreed_offset, self.effects_offset, self.attempt
        )  # fmt: skip
        total = self.signature.to_bytes(32, "big")
        texts = (b64encode(v).decode() for v in (total, self.chain, self.effects_chain, self.term))
        return ",".join((*map(str, numbers), *texts))

    @staticmethod
    def decode(text: str) -> Applied:
        """The inverse of ``encode``."""
        numbers, values = text.split(",")[:5], text.split(",")[5:]
        index, quads, agreed_offset, effects_offset, attempt = map(int, numbers)
        total, chain, effects_chain, term = map(b64decode, values)
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
        )
