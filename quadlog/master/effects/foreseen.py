"""Foreseen: what the own effects topic will hold once it takes records again.

While it takes none no worker here can show what is agreed.  But what this master says into it is known: copies of the
home's effects, and the rewind that they follow.  That is followed as if it was there, so that clients here are told
what became of their updates; what these did is shown by other data centres (`reads`).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from consumers.effects_ledger import EffectsLedger
    from quadlog.master.clients.desk import Desk
    from quadlog.ports import Acked, Headers, Renewable

log = structlog.get_logger()

NOWHERE: Final = -1
"""Offset of a record that is in no topic yet."""


class Foreseen:
    """The outlet to the own effects, and what it leads to.  Owned by the node's thread."""

    def __init__(
        self,
        outlet: Renewable,
        ledger: EffectsLedger,
        desk: Desk,
        *,
        last: Callable[[], int],
        chain_at: Callable[[int], bytes | None],
    ) -> None:
        """Foresee nothing.

        Args:
            outlet: to the own effects.
            ledger: follows them.
            desk: is told what was rejected.
            last: index of the last own entry.
            chain_at: chain hash of the own entry at an index.

        """
        self._outlet, self._own, self._desk = outlet, ledger, desk
        self._last, self._chain_at = last, chain_at
        self._ledger: EffectsLedger | None = None
        self._until: int | None = None
        """Up to where it was foreseen when the topic took records again."""

    def begin(self) -> None:
        """What is said from here on follows all that the topic has, and it takes no records."""
        if self._ledger is None:
            self._ledger = copy(self._own)
            self._ledger.remember_apart()
            log.info("effects_topic_bypassed", behind=self._own.index)

    def tend(self, *, is_full: bool, applied: int) -> None:
        """Nothing is foreseen any more once the topic has it, and a worker here shows it.

        Args:
            is_full: whether the topic takes no records.
            applied: up to which entry a worker here shows what was decided.

        """
        if self._ledger is None or is_full:
            self._until = None
            return
        if self._until is None:
            self._until = self._ledger.index  # more may come all the time
        if min(self._own.index, applied) >= self._until:
            self._ledger = self._until = None

    @property
    def is_begun(self) -> bool:
        """Whether effects are followed that are not in the own topic.  Of any thread: `index` is there step by step."""
        return self._ledger is not None

    @property
    def index(self) -> int | None:
        """Up to which entry of the own log effects are foreseen; None: nothing is foreseen."""
        if self._ledger is None:
            return None
        index = min(self._ledger.index, self._last())
        after = self._ledger.state_after(index)
        return index if after is not None and self._chain_at(index) == after.entry_chain else None

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """See `quadlog.ports.Outlet`."""
        if self._ledger is not None:
            for value in values:
                if rejection := self._ledger.hear(Record(topic, NOWHERE, key, value, headers)):
                    index, reason = rejection
                    self._desk.rejected[index] = reason
        self._outlet.produce(topic, key=key, values=values, headers=headers, acked=acked)
