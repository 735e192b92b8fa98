"""Who may be a member of a view, and what its members count for.

The peers are those of the settings until an agreed CONFIG entry adds or removes one.  What such entries make of them
follows from the log alone.  A majority has the next view name the new peers, and those before: it has to be a majority
of both to be one.  The change is decided when all members of such a majority are in that view: no majority of the peers
before can come about without one of them.  The view after that names the new peers alone.

Where no majority is left an operator names all that are, who are in one view: the next one names them alone.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from quadlog.core.model import Kind, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from quadlog.core.model import Transaction, View

PEER: Final = "peer"
DC: Final = "peer-dc"
"""Options of a CONFIG transaction: a master's id, and its data centre, or nothing, to remove it."""
FORCED: Final = "forced"
FORCED_IN: Final = "forced-in"
"""Options of one that removes a peer: ids of all that are left, with blanks in between; and in which view that is said,
its id in hex."""


def options_of(peer: str, dc: str = "", *, left: View | None = None) -> dict[str, str]:
    """The options of a transaction that adds a peer, or, without a data centre, removes it.

    Args:
        peer: its id.
        dc: where it is; nothing to remove it.
        left: the view whose members are all that is left, where no majority is; None: a majority is.

    """
    options = {PEER: peer, DC: dc}
    return options if left is None else options | {FORCED: " ".join(left.members), FORCED_IN: left.id.hex()}


def names_peer(options: Mapping[str, str]) -> bool:
    """Whether a CONFIG transaction with these options adds or removes a peer: it changes no quads, and no controls."""
    return bool(options.get(PEER))


def changed(peers: tuple[Peer, ...], transaction: Transaction) -> tuple[Peer, ...]:
    """The peers behind an entry; nobody: it changes nothing.

    >>> from quadlog.core.model import Transaction
    >>> add = Transaction(id=bytes(16), digest=bytes(32), kind=Kind.CONFIG, options=options_of("m2", "dc2"))
    >>> changed((Peer("m1", "dc1"),), add)
    (Peer(node='m1', dc='dc1'), Peer(node='m2', dc='dc2'))
    """
    if transaction.kind is not Kind.CONFIG or not names_peer(transaction.options):
        return ()
    name, dc = transaction.options[PEER], transaction.options.get(DC, "")
    if left := transaction.options.get(FORCED):
        return _forced(peers, name, set(left.split(" ")))
    others = tuple(peer for peer in peers if peer.node != name)
    is_there = len(others) < len(peers)
    if is_there == bool(dc):
        return ()
    return tuple(sorted((*others, Peer(name, dc)))) if dc else others  # the last one stays: nobody is nothing


def _forced(peers: tuple[Peer, ...], name: str, survivors: set[str]) -> tuple[Peer, ...]:
    """Just those that were named are left, if they were peers and the one that is removed is not among them."""
    left = tuple(peer for peer in peers if peer.node in survivors)
    is_none = name in survivors or len(left) < len(survivors) or len(left) == len(peers)
    return () if is_none else left


def is_forced_in(view: View, transaction: Transaction) -> bool:
    """Whether it names all that is left, and that is said of this view."""
    return FORCED in transaction.options and transaction.options.get(FORCED_IN) == view.id.hex()


class Electorate:
    """What the members of a view count for, all of them together.

    A data centre that has several masters counts with the share of them that are in it: if it were torn apart, each
    part could make another half a majority.
    """

    def __init__(self, masters: Mapping[str, str], witnesses: frozenset[str] = frozenset()) -> None:
        """`masters`: the peers of the settings, each with its data centre; `witnesses`: see `Agreement`."""
        self.witnesses: Final = witnesses
        self._configured: Final = tuple(sorted(Peer(name, centre) for name, centre in masters.items()))
        self._asked: View | None = None
        self._centres: Mapping[str, str] = {}

    def peers(self, view: View) -> tuple[Peer, ...]:
        """Who may be a member, by the last change."""
        return view.peers or self._configured

    def centres(self, view: View) -> Mapping[str, str]:
        """The data centre of each who may be a member, by the last change or, while it is undecided, before it."""
        if view is not self._asked:  # with every post it is the same one
            self._asked, self._centres = view, _centres(self.peers(view), view.before)
        return self._centres

    def is_majority(self, view: View) -> bool:
        """Whether those in it that are not blank are more than half of all data centres."""
        return all(balance > 0 for balance in self._balances(view))

    def vouches(self, view: View) -> bool:
        """Whether there is no majority without one of those in it that are not blank."""
        return all(balance >= 0 for balance in self._balances(view))

    def _balances(self, view: View) -> Iterator[Fraction]:
        """By how much those that are not blank are more than half: by each of the changes."""
        yield _balance(view.members, self.peers(view), view.blank)
        if view.before:
            yield _balance(view.members, view.before, view.blank)

    def is_blank(self, name: str, view: View) -> bool:
        """Whether a master that has installed this view is blank still."""
        return name not in view.members or (name in view.blank and not self.vouches(view))

    def successors(
        self, view: View, changes: Sequence[tuple[Peer, ...]], forced: tuple[Peer, ...]
    ) -> tuple[tuple[Peer, ...], tuple[Peer, ...]] | None:
        """Who may be in the view after this one, and who might before; None: nothing changes.

        One change after the other, by a majority, all of whom count, and who are half of the new ones: or nobody could
        vouch for one of those that loses its disk.  But who was named as all that is left does not wait for those who
        are not, nor for what had been begun with them.

        Args:
            view: with those of its members alone who stay.
            changes: that the log holds, and no view has named yet.
            forced: all that is left, as an operator says in this view; nobody: none says so.

        """
        if view.blank:
            return None
        if forced and view.members == tuple(peer.node for peer in forced):
            return forced, ()
        if not changes or view.before or not self.is_majority(view) or _balance(view.members, changes[0]) < 0:
            return None
        return changes[0], self.peers(view)


@lru_cache(maxsize=64)  # asked with every round
def _balance(
    members: tuple[str, ...], peers: tuple[Peer, ...], blank: frozenset[str] = frozenset()
) -> Fraction:
    """By how many data centres these, but for those that are blank, are more than half of all."""
    sizes = Counter(peer.dc for peer in peers)
    shares = {peer.node: Fraction(1, sizes[peer.dc]) for peer in peers if peer.node not in blank}
    return sum((shares[name] for name in members if name in shares), Fraction(-len(sizes), 2))


@lru_cache(maxsize=64)
def _centres(peers: tuple[Peer, ...], before: tuple[Peer, ...]) -> Mapping[str, str]:
    return MappingProxyType({peer.node: peer.dc for peer in (*before, *peers)})
