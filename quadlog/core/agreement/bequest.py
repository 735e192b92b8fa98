"""What a new view inherits, and what who gives way to it keeps.

A view inherits all that may have been agreed in its parent by anyone who is not in it.

A member that was given up may have added what the others posted, and they not.  So what they posted goes
with them: each vote lists the whole queue of its voter, and whoever is in the new view already has the
whole of that.  Votes of joiners bring nothing: their timestamps belong to another history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.model import Kind, Pair, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.messages import Branch
    from quadlog.core.model import Point, Post, View
    from quadlog.core.queues.member import Member
    from quadlog.core.queues.queue import IncomingQueue


class Bequest(NamedTuple):
    """From the others of a view that may be installed."""

    lead: Post | None
    """Of those who bring something the one whose log is longest; None: nobody else does."""
    pairs: frozenset[Pair]


def bequest(ballot: View, node: str, members: Mapping[str, Member]) -> Bequest | None:
    """What `node` inherits with the view; None as long as it is not known to be unanimous."""
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
    return Bequest(lead, frozenset(pair for member, _ in heirs for pair in member.posted))


class Estate(NamedTuple):
    """The queue of a master that took the stronger side's log."""

    pairs: list[Pair]
    """In order: what it inherits, and what only its own side had, stamped anew."""
    acquired: list[Transaction]
    """Whose payloads are here."""
    regained: list[Transaction]
    """Of these, those that were synchronised on its own side, and wait again."""
    released: list[tuple[bytes, bytes]]
    """Keys of payloads that nobody will ask for again."""


def estate(
    queue: IncomingQueue, branch: Branch, last: Point, inherited: frozenset[Pair], stamp: Callable[[], int]
) -> Estate | None:
    """What a master keeps that gives way to `branch` up to `last`; None as long as an inherited payload is not here.

    Only TX entries are submitted anew: control entries of a branch that was cut die with it.  Their payloads are kept:
    a pair of them may wait on the stronger side, and nobody tells again that they are here.
    """
    given_way, logged = (
        [transaction for _, transaction in branch.given_way(last.index)],
        branch.ids(last.index),
    )
    before = queue.transactions()
    here = {transaction.key: transaction for transaction in (*before, *given_way)}
    pairs = {pair for pair in inherited if pair.id not in logged}
    if any(pair.key not in here for pair in pairs):
        return None
    known = {pair.id for pair in pairs}
    for transaction in (*given_way, *(here[pair.key] for pair in queue.acquired())):
        if transaction.kind is Kind.TX and transaction.id not in logged and transaction.id not in known:
            known.add(transaction.id)
            pairs.add(Pair(stamp(), transaction.id, transaction.digest))
    acquired = [t for t in here.values() if t.id not in logged]
    kept = {transaction.key for transaction in acquired}
    return Estate(
        pairs=sorted(pairs),
        acquired=acquired,
        regained=[transaction for transaction in given_way if transaction.key in kept],
        released=[transaction.key for transaction in before if transaction.key not in kept],
    )
