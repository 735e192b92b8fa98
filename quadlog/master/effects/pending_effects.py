"""Pending effects: what the own effects topic will hold once it accepts records again.

While the topic accepts no records, no worker here can show what is agreed.  But the records that this master
produces for it are known: copies of the home's effects, and the rewind before them.  They are followed as if
they were in the topic, so that clients of this master learn the outcomes of their updates; other data centres
show the resulting state to readers (`reads`).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from consumers.effects_ledger import EffectsLedger
    from quadlog.master.clients.pending_requests import PendingRequests
    from quadlog.ports import Acked, Headers, Renewable

log = structlog.get_logger()

NOWHERE: Final = -1
"""Offset of a record that is not in a topic yet."""


class PendingEffects:
    """Outlet to the own effects topic that also follows the records that the topic does not accept yet.

    Owned by the node's thread.
    """

    def __init__(
        self,
        outlet: Renewable,
        ledger: EffectsLedger,
        pending_requests: PendingRequests,
        *,
        last: Callable[[], int],
        chain_at: Callable[[int], bytes | None],
    ) -> None:
        """Foresee nothing yet; `last`: index of the last own entry; `chain_at`: chain hash of the one at an index."""
        self._outlet, self._own, self._pending_requests = outlet, ledger, pending_requests
        self._last, self._chain_at = last, chain_at
        self._ledger: EffectsLedger | None = None
        self._until: int | None = None
        """Index up to which effects were foreseen when the topic accepted records again."""

    def begin(self) -> None:
        """Start to follow produced records: they continue after all that the topic has, and it accepts none."""
        if self._ledger is None:
            self._ledger = copy(self._own)
            self._ledger.remember_apart()
            log.info("effects_topic_bypassed", behind=self._own.index)

    def tick(self, *, is_full: bool, applied: int) -> None:
        """Stop foreseeing once the topic has the effects, and a worker here shows them, as it does up to `applied`."""
        if self._ledger is None or is_full:
            self._until = None
            return
        if self._until is None:
            self._until = self._ledger.index  # fixed once: more may arrive all the time
        if min(self._own.index, applied) >= self._until:
            self._ledger = self._until = None

    @property
    def is_begun(self) -> bool:
        """True if effects are followed that are not in the own topic.

        May be read on any thread, unlike `index`, which is computed in several steps.
        """
        return self._ledger is not None

    @property
    def index(self) -> int | None:
        """Index of the last own entry whose effect is foreseen; None if nothing is foreseen."""
        if self._ledger is None:
            return None
        index = min(self._ledger.index, self._last())
        after = self._ledger.state_after(index)
        return index if after is not None and self._chain_at(index) == after.entry_chain else None

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Produce records; see `quadlog.ports.Outlet`."""
        if self._ledger is not None:
            for value in values:
                if rejection := self._ledger.on_record(Record(topic, NOWHERE, key, value, headers)):
                    index, reason = rejection
                    self._pending_requests.reject(index, reason)
        self._outlet.produce(topic, key=key, values=values, headers=headers, acked=acked)
