"""Deciding once: the evaluating worker's part.

It computes effect i against state i-1 and publishes it, and goes on at once: the next one is computed
against an overlay of what is published but not yet read back.  Nothing of the overlay is ever shown:
the worker applies its own effects like everybody else, when it hears them (publish, then show).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.effect import Change, Overlay, effect_of, signature_after
from quadlog.core.model import Effect, Kind, Outcome, effects_chain
from quadlog.core.update import parse_update
from quadlog.errors import UserError
from quadlog.worker.lines import with_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.core.model import Fence, LoggedEntry
    from quadlog.quadstore import Applied, QuadStore

AHEAD: Final = 2000
"""Effects published and not yet read back, at most: bounds the overlay's memory."""


class Evaluator:
    """Evaluates from a given state on, until it is fenced off."""

    def __init__(self, store: QuadStore, fence: Fence, say: Callable[[Effect, LoggedEntry], None]) -> None:
        """Begin behind what `store` has applied: all effects that stand before `fence`."""
        applied: Applied = store.applied
        self._fence, self._say = fence, say
        self._overlay: Final = Overlay(store)
        self._changes: dict[int, Change] = {}
        self.index = applied.index
        self._signature, self._quads = applied.signature, applied.quads
        self._chain = applied.effects_chain

    def evaluate(self, entries: Iterable[LoggedEntry]) -> None:
        """Publish the effects of the next entries; those evaluated already are passed over."""
        for entry in entries:
            if entry.index <= self.index:
                continue
            if len(self._overlay) >= AHEAD:
                return
            self._evaluate(entry)

    def _evaluate(self, entry: LoggedEntry) -> None:
        change, reason = self._decide(entry)
        before = self._signature
        after = signature_after(before, change)
        outcome = Outcome.APPLIED if reason is None else Outcome.REJECTED
        self._overlay.push(entry.index, change)
        self._changes[entry.index] = change
        self.index, self._signature = entry.index, after
        self._quads += change.growth
        self._chain = effects_chain(self._chain, entry.chain, outcome, after.to_bytes(32, "big"))
        effect = Effect(
            index=entry.index,
            id=entry.id,
            entry_chain=entry.chain,
            term=self._fence.term,
            attempt=self._fence.attempt,
            outcome=outcome,
            reason=reason,
            quads=self._quads,
            signature_before=before.to_bytes(32, "big"),
            signature_after=after.to_bytes(32, "big"),
            chain=self._chain,
        )
        self._say(with_change(effect, change), entry)

    def _decide(self, entry: LoggedEntry) -> tuple[Change, str | None]:
        """The change, or none and the reason why not.  What is wrong with the update is an outcome."""
        if entry.kind is not Kind.TX:
            return Change(), f"{entry.kind} entries are not known to this version"
        try:
            operations = parse_update(entry.body.decode(), tx_id=entry.id)
        except (UserError, UnicodeDecodeError) as error:
            return Change(), str(error)
        return effect_of(operations, self._overlay), None

    def take_change(self, effect: Effect) -> Change | None:
        """The change behind an effect that was read back: it need not be parsed again."""
        return self._changes.pop(effect.index, None) if effect.attempt == self._fence.attempt else None

    def applied(self, index: int) -> None:
        """The store has the effect of this index now."""
        self._overlay.drop(index)
