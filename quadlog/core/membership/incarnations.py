"""Masters that lose their disks: who is the newer one, and when it counts again.

A master is an id and an incarnation.  One that lost its disk has forgotten what it voted for, and what it agreed to:
with its vote two majorities could come about that know nothing of each other.  So it comes back *blank*: in no view
at first, and then in one that names it blank, where it does not count for a majority.  That ends with the first view
whose other members vouch for it: without one of them there was no majority, and there will be none.  Each of them
remembers what it took part in, and hears the lost incarnation no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.model import Standing, first_view, no_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.model import Post, View

CLOCK_BYTES: Final = 6
"""Of milliseconds: enough for 8,900 years."""
CHANCE_BYTES: Final = 10


def new_incarnation(after: bytes | None, wall: int, chance: bytes) -> bytes:
    """An incarnation: 16 bytes that sort behind those of all earlier ones of this master.

    >>> first = new_incarnation(None, 1_700_000_000_000, bytes(10))
    >>> first < new_incarnation(first, 1_600_000_000_000, bytes(10))
    True

    Args:
        after: the newest one of this master that is known; None: it has none.
        wall: milliseconds since 1970.
        chance: 10 random bytes.

    """
    assert len(chance) == CHANCE_BYTES, f"{CHANCE_BYTES} bytes of chance, not {len(chance)}"
    number = wall if after is None else max(wall, int.from_bytes(after[:CLOCK_BYTES], "big") + 1)
    return number.to_bytes(CLOCK_BYTES, "big") + chance


def just_after(incarnation: bytes) -> bytes:
    """What is above this one and all before it, and below every later one."""
    return (int.from_bytes(incarnation, "big") + 1).to_bytes(CLOCK_BYTES + CHANCE_BYTES, "big")


def first_standing(
    node: str, incarnation: bytes, masters: Mapping[str, str], witnesses: frozenset[str], *, blank: bool
) -> Standing:
    """Where a master begins: with all others, or, blank, with nobody."""
    if not blank:
        return Standing(view=first_view(masters, witnesses))
    return Standing(view=no_view(incarnation), promise=0, newest=((node, incarnation),))


class Incarnations:
    """Which masters lost their disks, as far as one of them knows."""

    def __init__(self, newest: Iterable[tuple[str, bytes]]) -> None:
        """Continue with what was saved."""
        self._newest = dict(newest)

    @property
    def newest(self) -> tuple[tuple[str, bytes], ...]:
        """Of each of them the newest incarnation heard of; in order."""
        return tuple(sorted(self._newest.items()))

    def learn(self, post: Post, known: bytes | None) -> bool:
        """What a post tells; whether it is news.

        Args:
            post: of any master.
            known: the incarnation of its sender that was heard before.

        """
        view, ballot = post.view, post.ballot
        is_newer = known is not None and post.incarnation > known
        if view.members and not is_newer and not view.returned and not (ballot and ballot.returned):
            return False  # as nearly always
        told = [(one.node, one.incarnation) for one in (*view.returned, *(ballot.returned if ballot else ()))]
        if not view.members or is_newer:
            told.append((post.node, post.incarnation))
        newer = [
            (name, incarnation) for name, incarnation in told if incarnation > self._newest.get(name, b"")
        ]
        self._newest.update(newer)
        return bool(newer)

    def void(self, name: str, incarnation: bytes) -> bool:
        """An incarnation is no more, though no later one is known; whether that is news.

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
        """Whether no newer incarnation is known."""
        return incarnation >= self._newest.get(name, b"")

    def gone(self, view: View) -> set[str]:
        """Members that lost their disks since they came into this view."""
        newest = self._newest
        if not newest:
            return set()  # as nearly always
        return {name for name in newest if name in view.members and view.incarnation(name) < newest[name]}
