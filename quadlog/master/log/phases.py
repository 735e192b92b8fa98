"""Phases of leaving a view and of being let into one, as listed in `docs/agreement.md`: places to die in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.failpoints import Failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.core.model import HardState


def given_up(before: HardState, after: HardState) -> set[str]:
    """Return the members given up since `before`, including those given up by installing a view without them.

    A removed peer is not in the new view either, but was not given up:

    >>> from quadlog.core.model import Peer, HardState, View
    >>> three = HardState(view=View(epoch=1, members=("m1", "m2", "m3")))
    >>> peers = (Peer("m1", "dc1"), Peer("m2", "dc2"))
    >>> given_up(three, HardState(view=View(epoch=2, members=("m1",), parent=three.view.id, peers=peers)))
    {'m2'}
    """
    names = set(after.given_up)
    if after.view.parent == before.view.id:
        peers = {peer.node for peer in after.view.peers} or {*before.view.members}
        names |= peers & {*before.view.members} - {*after.view.members}
    return names - set(before.given_up)


def phases(before: HardState, after: HardState) -> Iterator[Failpoint]:
    """Yield the phases that a master passes when its saved standing changes, in order; it may pass several at once.

    >>> from quadlog.core.model import HardState, View
    >>> first = View(epoch=1, members=("m1", "m2"), parent=b"")
    >>> alone = View(epoch=2, members=("m1",), parent=first.id)
    >>> began, lone = HardState(view=first), HardState(view=first, given_up=("m2",))
    >>> [[str(phase) for phase in phases(began, stood)] for stood in (lone, HardState(view=alone, ballot=alone))]
    [['given-up'], ['given-up', 'vote-saved', 'installed']]
    """
    if given_up(before, after):
        yield Failpoint.GIVEN_UP
    if after.joining is not None and after.joining != before.joining:
        yield Failpoint.JOINING
    if after.ballot is not None and after.ballot != before.ballot:
        yield Failpoint.VOTE_SAVED
    if after.view != before.view:
        yield Failpoint.INSTALLED
