"""How one view follows another: what was voted for is installed as soon as all that it inherits is here.

Who goes on from the parent view keeps its log.  Who was let in gives way: it takes the log that it has read beside
its own, and submits anew what only its own side had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.agreement.bequest import bequest, estate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.agreement.bequest import Bequest
    from quadlog.core.agreement.holdings import Holdings
    from quadlog.core.membership.views import Views
    from quadlog.core.messages import Branch
    from quadlog.core.model import Pair, Point, View
    from quadlog.core.queues.member import Member


class Succession:
    """From the view that is installed to the one that was voted for."""

    def __init__(
        self, views: Views, holdings: Holdings, members: Mapping[str, Member], *, stamp: Callable[[], int]
    ) -> None:
        """`members`: what is known of each; `stamp`: a new timestamp."""
        self._views: Final = views
        self._holdings: Final = holdings
        self._members: Final = members
        self._stamp: Final = stamp
        self.branch: Branch | None = None
        """What was read of the stronger side's log."""
        self._lacks: Pair | None = None

    @property
    def beside(self) -> Point | None:
        """How far the stronger side's log was read, beside the own one as it is."""
        branch = self.branch
        return branch.last if branch is not None and branch.own == self._holdings.log.last else None

    def may_wait_for(self, transaction_id: bytes) -> bool:
        """Whether a view may be installed now that the payload of this transaction is here."""
        if self._views.ballot is None:
            return False
        return self._lacks is None or self._lacks.id == transaction_id

    def install(self, now: float) -> bool:
        """Install what was voted for, if all did and all that it inherits is acquired.  Whether it could."""
        views = self._views
        ballot = views.ballot
        if ballot is None:
            return False
        inherited = bequest(ballot, views.node, self._members)
        if inherited is None:
            return False
        if ballot.parent == views.view.id:
            if not self._has_payloads(inherited.pairs):
                return False
            promise, changes = views.standing.promise, views.standing.changes
            self._keep_what_may_come(ballot)
        else:
            if inherited.lead is None or not self._give_way(ballot, inherited):
                return False
            promise, changes = inherited.lead.rank.epoch, inherited.lead.changes
        views.install(ballot, promise, changes, now)
        return True

    def _has_payloads(self, pairs: frozenset[Pair]) -> bool:
        """A promise needs the payloads that it promises."""
        has_payload = self._holdings.has_payload
        if self._lacks is not None and self._lacks in pairs and not has_payload(self._lacks):
            return False
        self._lacks = next((pair for pair in pairs if not has_payload(pair)), None)
        return self._lacks is None

    def _keep_what_may_come(self, view: View) -> None:
        """What is known, but neither acquired nor posted in the new view, is learned again when it is."""
        posted = {
            pair
            for name, member in self._members.items()
            if name != self._views.node and member.is_in(view)
            for pair in member.posted
        }
        queue = self._holdings.queue
        pairs = queue.everything()
        kept = [pair for pair in pairs if pair in posted or queue.has_payload(pair.key)]
        if len(kept) < len(pairs):
            self._holdings.replace_queue(kept, queue.transactions())

    def _give_way(self, ballot: View, inherited: Bequest) -> bool:
        """Take the stronger side's log and queue; submit anew what only this side had.  Whether it could."""
        holdings, branch, lead = self._holdings, self.branch, inherited.lead
        own = self._members.get(self._views.node)
        assert lead is not None
        if (
            branch is None
            or branch.own != holdings.log.last
            or own is None
            or own.said is None
            or own.said.ballot != ballot
        ):
            return False
        if holdings.changes.entries or holdings.changes.adopted:
            return False  # that is to be saved first
        if branch.chain_at(lead.base.index) != lead.base.chain:
            return False  # it is not read so far
        kept = estate(holdings.queue, branch, lead.base, inherited.pairs, self._stamp)
        if kept is None:
            return False
        holdings.adopt(branch, lead.base, kept)
        self.branch = None
        return True
