"""Incarnations of masters that lost their disks: which one is the newest, and when it counts again.

A master is identified by an id and an incarnation.  A master that lost its disk has forgotten its votes and
what it agreed to: with its vote, two majorities could arise that know nothing of each other.  So it returns
*blank*: first in no view, then in a view that names it blank, where it does not count for a majority.  This
ends with the first view whose other members vouch for it: no majority existed, or can exist, without one of
them.  Each of these members remembers what it took part in, and ignores the lost incarnation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.model import HardState, first_view, no_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.model import Post, View

CLOCK_BYTES: Final = 6
"""Bytes of the milliseconds: enough for 8,900 years."""
CHANCE_BYTES: Final = 10


def new_incarnation(after: bytes | None, wall: int, chance: bytes) -> bytes:
    """Return a new incarnation: 16 bytes that sort after all earlier incarnations of this master.

    >>> first = new_incarnation(None, 1_700_000_000_000, bytes(10))
    >>> first < new_incarnation(first, 1_600_000_000_000, bytes(10))
    True

    Args:
        after: the newest known incarnation of this master; None: it has none.
        wall: milliseconds since 1970.
        chance: 10 random bytes.

    """
    assert len(chance) == CHANCE_BYTES, f"{CHANCE_BYTES} bytes of chance, not {len(chance)}"
    number = wall if after is None else max(wall, int.from_bytes(after[:CLOCK_BYTES], "big") + 1)
    return number.to_bytes(CLOCK_BYTES, "big") + chance


def just_after(incarnation: bytes) -> bytes:
    """Return a value above this incarnation and all earlier ones, and below every later one."""
    return (int.from_bytes(incarnation, "big") + 1).to_bytes(CLOCK_BYTES + CHANCE_BYTES, "big")


def first_standing(
    node: str, incarnation: bytes, masters: Mapping[str, str], witnesses: frozenset[str], *, blank: bool
) -> HardState:
    """Return the initial state of a master: in the first view or, if it is blank, in no view."""
    if not blank:
        return HardState(view=first_view(masters, witnesses))
    return HardState(view=no_view(incarnation), promise=0, newest=((node, incarnation),))


class Incarnations:
    """The masters that lost their disks, as far as one master knows."""

    def __init__(self, newest: Iterable[tuple[str, bytes]]) -> None:
        self._newest = dict(newest)

    @property
    def newest(self) -> tuple[tuple[str, bytes], ...]:
        """The newest known incarnation of each of them, sorted by id."""
        return tuple(sorted(self._newest.items()))

    def learn(self, post: Post, known: bytes | None) -> bool:
        """Learn incarnations from a post; return whether any of them is new.

        `known`: the incarnation of the sender in earlier posts; None: there were none.
        """
        view, ballot = post.view, post.ballot
        is_newer = known is not None and post.incarnation > known
        if view.members and not is_newer and not view.returned and not (ballot and ballot.returned):
            return False  # nearly always
        told = [(one.node, one.incarnation) for one in (*view.returned, *(ballot.returned if ballot else ()))]
        if not view.members or is_newer:
            told.append((post.node, post.incarnation))
        newer = [
            (name, incarnation) for name, incarnation in told if incarnation > self._newest.get(name, b"")
        ]
        self._newest.update(newer)
        return bool(newer)

    def void(self, name: str, incarnation: bytes) -> bool:
        """Declare an incarnation lost although no later one is known; return whether that is new.

        >>> known = Incarnations([])
        >>> one = new_incarnation(None, 1_700_000_000_000, bytes(10))
        >>> known.void("m1", one), known.void("m1", one), known.is_current("m1", one)
        (True, False, False)
        >>> known.is_current("m1", new_incarnation(one, 1_600_000_000_000, bytes(10)))
        True
        """
        if not self.is_current(name, incarnation):
            return False
        self._newest[name] = just_after(incarnation)
        return True

    def is_current(self, name: str, incarnation: bytes) -> bool:
        """Return whether no newer incarnation is known."""
        return incarnation >= self._newest.get(name, b"")

    def gone(self, view: View) -> set[str]:
        """Return the members that lost their disks since they entered this view."""
        newest = self._newest
        if not newest:
            return set()  # nearly always
        return {name for name in newest if name in view.members and view.incarnation(name) < newest[name]}
