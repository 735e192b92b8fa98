"""Electorate: the masters that may be members of a view (peers), and what the members of a view count for.

The peers are those of the settings until an agreed CONFIG entry adds or removes one.  The log alone
determines how such entries change the peers.  After a change a majority installs a view that names both the
new and the previous peers; it holds a majority only if it is a majority of both.  The change is decided when
all members of such a majority are in that view: no majority of the previous peers is possible without one of
them.  The view after that names the new peers only.

If no majority is left, an operator names all masters that are left, which are the members of one view: the
next view names only them.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from quadlog.core.model import Peer, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from quadlog.core.model import Transaction, View

PEER: Final = "peer"
DC: Final = "peer-dc"
"""Options of a CONFIG transaction: a master's id, and its data centre; an empty data centre removes the master."""
FORCED: Final = "forced"
FORCED_IN: Final = "forced-in"
"""Options of a CONFIG transaction that removes a peer: ids of all masters that are left, separated by blanks, and
the id, in hex, of the view for which this is declared."""


def options_of(peer: str, dc: str = "", *, left: View | None = None) -> dict[str, str]:
    """Return the options of a transaction that adds a peer or, without a data centre, removes it.

    Args:
        peer: id of the peer.
        dc: its data centre; empty to remove the peer.
        left: the view whose members are all masters that are left, if no majority is; None: there is a majority.

    """
    options = {PEER: peer, DC: dc}
    return options if left is None else options | {FORCED: " ".join(left.members), FORCED_IN: left.id.hex()}


def names_peer(options: Mapping[str, str]) -> bool:
    """Return whether a CONFIG transaction with these options adds or removes a peer.

    Such a transaction changes no quads and no controls.
    """
    return bool(options.get(PEER))


def changed(peers: tuple[Peer, ...], transaction: Transaction) -> tuple[Peer, ...]:
    """Return the peers after an entry; empty if it changes nothing.

    >>> from quadlog.core.model import Transaction
    >>> add = Transaction(id=bytes(16), digest=bytes(32), kind=TransactionKind.CONFIG, options=options_of("m2", "dc2"))
    >>> changed((Peer("m1", "dc1"),), add)
    (Peer(node='m1', dc='dc1'), Peer(node='m2', dc='dc2'))
    """
    if transaction.kind is not TransactionKind.CONFIG or not names_peer(transaction.options):
        return ()
    name, dc = transaction.options[PEER], transaction.options.get(DC, "")
    if left := transaction.options.get(FORCED):
        return _forced(peers, name, set(left.split(" ")))
    others = tuple(peer for peer in peers if peer.node != name)
    is_there = len(others) < len(peers)
    if is_there == bool(dc):
        return ()
    # The last peer cannot be removed: an empty result means no change.
    return tuple(sorted((*others, Peer(name, dc)))) if dc else others


def _forced(peers: tuple[Peer, ...], name: str, survivors: set[str]) -> tuple[Peer, ...]:
    """Return just the survivors; empty unless all are peers, `name` is not among them, and a peer is removed."""
    left = tuple(peer for peer in peers if peer.node in survivors)
    is_none = name in survivors or len(left) < len(survivors) or len(left) == len(peers)
    return () if is_none else left


def is_forced_in(view: View, transaction: Transaction) -> bool:
    """Return whether a transaction names all masters that are left, and does so for this view."""
    return FORCED in transaction.options and transaction.options.get(FORCED_IN) == view.id.hex()


class Electorate:
    """Determines the peers, and whether the members of a view are a majority.

    A data centre with several masters counts by the share of them that are members: otherwise, if the data
    centre were split, each part could turn another half into a majority.
    """

    def __init__(self, masters: Mapping[str, str], witnesses: frozenset[str] = frozenset()) -> None:
        """Start with the peers of the settings; parameters as of `Agreement`."""
        self.witnesses: Final = witnesses
        self._configured: Final = tuple(sorted(Peer(name, centre) for name, centre in masters.items()))
        self._asked: View | None = None
        self._centres: Mapping[str, str] = {}

    def peers(self, view: View) -> tuple[Peer, ...]:
        """Return the peers after the last change that the view names."""
        return view.peers or self._configured

    def centres(self, view: View) -> Mapping[str, str]:
        """Return the data centre of each peer, including the previous peers while the last change is undecided."""
        if view is not self._asked:  # the same view is passed with every post
            self._asked, self._centres = view, _centres(self.peers(view), view.before)
        return self._centres

    def is_majority(self, view: View) -> bool:
        """Return whether the members that are not blank are more than half of all data centres."""
        return all(balance > 0 for balance in self._balances(view))

    def vouches(self, view: View) -> bool:
        """Return whether no majority is possible without one of the members that are not blank."""
        return all(balance >= 0 for balance in self._balances(view))

    def _balances(self, view: View) -> Iterator[Fraction]:
        """Yield by how much the members that are not blank exceed half, for the peers and for the previous peers."""
        yield _balance(view.members, self.peers(view), view.blank)
        if view.before:
            yield _balance(view.members, view.before, view.blank)

    def is_blank(self, name: str, view: View) -> bool:
        """Return whether a master that has installed this view is still blank."""
        return name not in view.members or (name in view.blank and not self.vouches(view))

    def successors(
        self, view: View, changes: Sequence[tuple[Peer, ...]], forced: tuple[Peer, ...]
    ) -> tuple[tuple[Peer, ...], tuple[Peer, ...]] | None:
        """Return the peers of the next view and the previous peers; None if nothing changes.

        Changes are made one after the other, by a majority without blank members that is also at least half
        of the new peers: otherwise no member could vouch for a new peer that loses its disk.  Masters that an
        operator has declared to be all that are left wait neither for the others nor for changes that were
        begun with the others.

        Args:
            view: the view, with only those of its members that stay.
            changes: sets of peers of the log that no view has named yet.
            forced: all masters that are left, as an operator declared in this view; empty: not declared.

        """
        if view.blank:
            return None
        if forced and view.members == tuple(peer.node for peer in forced):
            return forced, ()
        if not changes or view.before or not self.is_majority(view) or _balance(view.members, changes[0]) < 0:
            return None
        return changes[0], self.peers(view)


def are_majority(members: Iterable[str], peers: tuple[Peer, ...]) -> bool:
    """Return whether these masters, if none is blank, are more than half of the data centres of these peers."""
    return _balance(tuple(members), peers) > 0


@lru_cache(maxsize=64)  # called in every round
def _balance(
    members: tuple[str, ...], peers: tuple[Peer, ...], blank: frozenset[str] = frozenset()
) -> Fraction:
    """Return by how many data centres the members that are not blank exceed half of all data centres."""
    sizes = Counter(peer.dc for peer in peers)
    shares = {peer.node: Fraction(1, sizes[peer.dc]) for peer in peers if peer.node not in blank}
    return sum((shares[name] for name in members if name in shares), Fraction(-len(sizes), 2))


@lru_cache(maxsize=64)
def _centres(peers: tuple[Peer, ...], before: tuple[Peer, ...]) -> Mapping[str, str]:
    return MappingProxyType({peer.node: peer.dc for peer in (*before, *peers)})
