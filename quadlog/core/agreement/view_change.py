"""Changes of views: an elected view is installed as soon as all that it inherits is here.

A master that comes from the parent view keeps its log.  A master that was admitted gives way: it adopts the
log that it has read next to its own, and submits again what only its own side had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.agreement.inheritance import inherited_state, rebased_queue
from quadlog.core.membership.views import Continuation

if TYPE_CHECKING:
    from quadlog.core.agreement.inheritance import InheritedState
    from quadlog.core.agreement.shared import Shared
    from quadlog.core.messages import JoinedLog
    from quadlog.core.model import LogPosition, Pair, View


class ViewChange:
    """Transition from the installed view to the view that was voted for."""

    def __init__(self, shared: Shared) -> None:
        """Start without a joined log."""
        self._views: Final = shared.views
        self._local_state: Final = shared.local_state
        self._members: Final = shared.progress.members
        self._stamp: Final = shared.clock.stamp
        self.joined_log: JoinedLog | None = None
        """The part of the stronger side's log that was read."""
        self._lacks: Pair | None = None

    @property
    def beside(self) -> LogPosition | None:
        """Position up to which the stronger side's log was read; None if none is, or the own log changed."""
        joined_log = self.joined_log
        return (
            joined_log.last
            if joined_log is not None and joined_log.own == self._local_state.log.last
            else None
        )

    def may_wait_for(self, transaction_id: bytes) -> bool:
        """Return whether a view may be installed now that the payload of this transaction is here."""
        if self._views.ballot is None:
            return False
        return self._lacks is None or self._lacks.id == transaction_id

    def install(self, now: float) -> bool:
        """Install the view that was voted for; return whether that was possible.

        All its members must have voted for it, or one has installed it and posted its whole queue; and all that it
        inherits must be acquired.
        """
        views = self._views
        ballot = views.ballot
        if ballot is None:
            return False
        inherited = inherited_state(ballot, views.node, self._members)
        if inherited is None:
            return False
        if ballot.parent == views.view.id:
            if not self._has_payloads(inherited.pairs):
                return False
            standing, fork = views.standing, self._local_state.log.last.index
            continued = Continuation(standing.promise, standing.changes, standing.settings, fork)
            self._keep_what_may_come(ballot)
        else:
            if inherited.lead is None or not self._give_way(ballot, inherited):
                return False
            lead, adopted = inherited.lead, self._local_state.changes.adopted
            assert adopted is not None
            continued = Continuation(lead.rank.epoch, lead.changes, lead.agreed_settings, adopted.kept)
        views.install(ballot, continued, now)
        return True

    def _has_payloads(self, pairs: frozenset[Pair]) -> bool:
        """Return whether all payloads of inherited pairs are here: this master promises to have them."""
        has_payload = self._local_state.has_payload
        if self._lacks is not None and self._lacks in pairs and not has_payload(self._lacks):
            return False
        self._lacks = next((pair for pair in pairs if not has_payload(pair)), None)
        return self._lacks is None

    def _keep_what_may_come(self, view: View) -> None:
        """Forget pairs that are neither acquired nor posted in the new view; they return when they are posted there."""
        posted = {
            pair
            for name, member in self._members.items()
            if name != self._views.node and member.is_in(view)
            for pair in member.posted
        }
        queue = self._local_state.queue
        pairs = queue.everything()
        kept = [pair for pair in pairs if pair in posted or queue.has_payload(pair.key)]
        if len(kept) < len(pairs):
            self._local_state.replace_queue(kept, queue.transactions())

    def _give_way(self, ballot: View, inherited: InheritedState) -> bool:
        """Adopt the stronger side's log and queue; return whether that was possible.

        What only this side had is submitted again.
        """
        local_state, joined_log, lead = self._local_state, self.joined_log, inherited.lead
        own = self._members.get(self._views.node)
        assert lead is not None
        if (
            joined_log is None
            or joined_log.own != local_state.log.last
            or own is None
            or own.said is None
            or own.said.ballot != ballot
        ):
            return False
        if local_state.changes.entries or local_state.changes.adopted:
            return False  # these changes must be saved first
        if joined_log.chain_at(lead.base.index) != lead.base.chain:
            return False  # the joined log is not read so far
        kept = rebased_queue(local_state.queue, joined_log, lead.base, inherited.pairs, self._stamp)
        if kept is None:
            return False
        local_state.adopt(joined_log, lead.base, kept)
        self.joined_log = None
        return True
