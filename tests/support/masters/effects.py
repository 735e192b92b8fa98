"""Effects for tests that look at how they are kept and compared."""

from __future__ import annotations

from quadlog.core.model import GENESIS
from quadlog.core.records import Effect, Outcome
from tests.support.agreement.topics import TERM


def effect_of(index: int, chain: bytes, *, lines: int = 1) -> Effect:
    """The effect of an entry, which inserted so many lines."""
    return Effect(
        index=index,
        id=bytes(16),
        entry_chain=chain,
        term=bytes(32),
        attempt=1,
        outcome=Outcome.APPLIED,
        inserted=("<urn:s> <urn:p> <urn:o> .",) * lines,
        quads=0,
        signature_before=bytes(32),
        signature_after=bytes(32),
        chain=bytes(32),
    )


def effect(index: int, attempt: int = 1, **lists: tuple[str, ...]) -> Effect:
    return Effect(
        index=index,
        id=bytes([index]) * 16,
        entry_chain=GENESIS,
        term=TERM,
        attempt=attempt,
        outcome=Outcome.APPLIED,
        quads=0,
        signature_before=GENESIS,
        signature_after=GENESIS,
        chain=GENESIS,
        deleted=lists.get("deleted", ()),
        inserted=lists.get("inserted", ()),
        emptied=lists.get("emptied", ()),
        dropped=lists.get("dropped", ()),
    )
