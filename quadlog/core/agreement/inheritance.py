"""The pairs that a new view inherits, and what a master that gives way to it keeps.

A view inherits all that may have been agreed in its parent by masters that are not in it.

A member that was given up may have added pairs that the others posted and have not added.  So the remaining
members bring what they posted: each vote lists the whole queue of its voter, and every master that is in the
new view already has all of it.  Votes of joiners bring nothing: their timestamps belong to another history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.approval import approval_in, dropped, implied_by
from quadlog.core.model import Pair, Transaction, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.messages import JoinedLog
    from quadlog.core.model import LogPosition, Post, View
    from quadlog.core.queues.progress import Progress
    from quadlog.core.queues.queue import IncomingQueue


class InheritedState(NamedTuple):
    """Inheritance from the other members of a view that may be installed."""

    lead: Post | None
    """Post of the heir with the longest log, among those that bring something; None: no other member does."""
    pairs: frozenset[Pair]


def inherited_state(ballot: View, node: str, members: Mapping[str, Progress]) -> InheritedState | None:
    """Return what `node` inherits with the view; None while the vote is not known to be unanimous."""
    others = [members.get(name) for name in ballot.members if name != node]
    heard = [(member, member.said) for member in others if member is not None and member.said is not None]
    there = [(member, said) for member, said in heard if said.view == ballot]
    votes = [(member, said) for member, said in heard if said.ballot == ballot]
    is_installed = any(said.whole for _, said in there)
    stay = [(member, said) for member, said in votes if said.view.id == ballot.parent]
    is_unanimous = len(votes) == len(others) and all(said.whole for _, said in stay)
    if not is_installed and not is_unanimous:
        return None
    heirs = there + stay
    lead = max((said for _, said in heirs), key=lambda said: said.base.index, default=None)
    return InheritedState(lead, frozenset(pair for member, _ in heirs for pair in member.posted))


class RebasedQueue(NamedTuple):
    """Queue of a master that adopted the stronger side's log."""

    pairs: list[Pair]
    """The inherited pairs, and those that only its own side had, with new timestamps; in order."""
    acquired: list[Transaction]
    """Transactions whose payloads are here."""
    regained: list[Transaction]
    """Those of them that were synchronised on its own side and wait again."""
    twins: list[tuple[bytes, bytes]]
    """Keys of those of them whose ids the stronger side's log has with other payloads."""
    released: list[tuple[bytes, bytes]]
    """Keys of payloads that no master will need again."""
    ended: dict[bytes, int]
    """Ids of CONFIG entries that only its own side had agreed on, with the indexes that they had."""


def rebased_queue(
    queue: IncomingQueue,
    joined_log: JoinedLog,
    last: LogPosition,
    inherited: frozenset[Pair],
    stamp: Callable[[], int],
) -> RebasedQueue | None:
    """Return what a master keeps that gives way to a log up to `last`; None while an inherited payload is missing.

    Only TX entries are submitted again: control entries of a branch that was cut end with it.  Their payloads are kept:
    a pair of them may wait on the stronger side, and their arrival is not reported a second time.

    An update that an approval drops is agreed as dropped, unless the stronger side has it, or has it waiting.  Its
    payload is kept until then: a master of the same side that does not have the approval may submit the update again.

    A payload whose id the stronger side has with another one is kept, too: the two may part again.
    """
    given_way, logged = (
        [transaction for _, transaction in joined_log.given_way(last.index)],
        joined_log.digests(last.index),
    )
    before = queue.transactions()
    pairs = {pair for pair in inherited if pair.id not in logged}
    known = {pair.id for pair in pairs}
    drop = _dropped_by(given_way)
    here = {transaction.key: transaction for transaction in (*before, *given_way)}
    if any(pair.key not in here and implied_by(pair.key) is None for pair in pairs):
        return None
    waiting = filter(None, map(queue.transaction, queue.acquired()))
    for transaction in (*given_way, *waiting):
        if (
            transaction.kind is TransactionKind.TX
            and transaction.id not in logged
            and transaction.id not in known
        ):
            known.add(transaction.id)
            again = dropped(transaction) if transaction.id in drop else transaction
            pairs.add(Pair(stamp(), *again.key))
    acquired = [t for t in here.values() if logged.get(t.id) != t.digest and implied_by(t.key) is None]
    kept = {transaction.key for transaction in acquired}
    return RebasedQueue(
        pairs=sorted(pairs),
        acquired=acquired,
        regained=[transaction for transaction in given_way if transaction.key in kept],
        ended={
            transaction.id: index
            for index, transaction in enumerate(given_way, min(joined_log.fork.index, last.index) + 1)
            if transaction.kind is TransactionKind.CONFIG
            and transaction.id not in logged
            and transaction.id not in known
        },
        twins=[key for key in kept if key[0] in logged],
        released=[transaction.key for transaction in before if transaction.key not in kept],
    )


def _dropped_by(given_way: list[Transaction]) -> set[bytes]:
    """Return the ids that an approval drops; only one that is the last entry of the side counts."""
    approval = approval_in(given_way[-1].options) if given_way else None
    return set() if approval is None else {*approval.drop}
