"""Who may be a member, by agreed entries; and what a view counts for while a change is undecided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.core.membership.electorate import Electorate, changed, is_forced_in, options_of
from quadlog.core.model import Peer, RejoinedMember, Transaction, TransactionKind, View


def peers(text: str) -> tuple[Peer, ...]:
    """Of ids and data centres: `m1:a m2:b`."""
    return tuple(Peer(*part.split(":")) for part in text.split())


@pytest.mark.parametrize(
    ("before", "name", "dc", "after"),
    [
        ("m1:a m3:c", "m2", "b", "m1:a m2:b m3:c"),
        ("m1:a m2:b", "m2", "", "m1:a"),
        ("m1:a m2:b", "m2", "c", ""),
        ("m1:a m2:b", "m3", "", ""),
        ("m1:a", "m1", "", ""),
    ],
    ids=["added, in order", "removed", "is there", "is not there", "the last one stays"],
)
def test_an_entry_says_who_the_peers_are_behind_it(before: str, name: str, dc: str, after: str) -> None:
    asked = Transaction(
        id=bytes(16), digest=bytes(32), kind=TransactionKind.CONFIG, options=options_of(name, dc)
    )
    assert changed(peers(before), asked) == peers(after)


@pytest.mark.parametrize(
    ("before", "name", "left", "after"),
    [
        ("m1:a m2:b", "m2", "m1", "m1:a"),
        ("m1:a m2:b m3:c m4:d", "m4", "m3 m1", "m1:a m3:c"),
        ("m1:a m2:b", "m2", "m1 m2", ""),
        ("m1:a m2:b", "m2", "m1 m3", ""),
        ("m1:a", "m2", "m1", ""),
    ],
    ids=["of two", "two of four, in order", "it is among them", "one is no peer", "all are left already"],
)
def test_an_entry_names_all_that_are_left(before: str, name: str, left: str, after: str) -> None:
    view = View(epoch=2, members=tuple(sorted(left.split())))
    options = options_of(name, left=view)
    asked = Transaction(id=bytes(16), digest=bytes(32), kind=TransactionKind.CONFIG, options=options)
    assert changed(peers(before), asked) == peers(after)
    assert [is_forced_in(one, asked) for one in (view, replace(view, epoch=3))] == [True, False]


@pytest.mark.parametrize(
    ("members", "is_majority", "vouches"),
    [("m1 m2", True, True), ("m2 m3", False, False), ("m1 m4", False, False), ("m1 m2 m4", True, True)],
)
def test_both_counts_hold_while_a_change_is_undecided(
    members: str, *, is_majority: bool, vouches: bool
) -> None:
    """Three before, of which m3 is no peer any more; m4 is one now."""
    view = View(
        epoch=2,
        members=tuple(members.split()),
        peers=peers("m1:a m2:b m4:d"),
        before=peers("m1:a m2:b m3:c"),
    )
    electorate = Electorate({"m9": "z"})
    assert electorate.vouches(view) == vouches
    assert electorate.is_majority(view) == is_majority


@pytest.mark.parametrize(
    ("view", "to", "may"),
    [
        (View(epoch=2, members=("m1", "m2")), "m1:a m2:b m3:c m4:d", True),
        (View(epoch=2, members=("m3",)), "m3:c m4:d", False),
        (View(epoch=2, members=("m1", "m2"), peers=peers("m1:a m2:b"), before=peers("m1:a")), "m2:b", False),
        (
            View(
                epoch=2, members=("m1", "m2", "m3"), returned=(RejoinedMember("m3", bytes(16), blank=True),)
            ),
            "m1:a",
            False,
        ),
        (View(epoch=2, members=("m1", "m2")), "m3:c", False),
    ],
    ids=[
        "half of the new ones",
        "a minority",
        "another one is undecided",
        "somebody is blank",
        "nobody could vouch",
    ],
)
def test_a_view_is_followed_by_one_with_other_peers(view: View, to: str, *, may: bool) -> None:
    electorate = Electorate({"m1": "a", "m2": "b", "m3": "c"})
    after = electorate.successors(view, [peers(to)], ())
    assert after == ((peers(to), peers("m1:a m2:b m3:c")) if may else None)


@pytest.mark.parametrize(
    ("view", "may"),
    [
        (View(epoch=2, members=("m1",)), True),
        (View(epoch=2, members=("m1",), peers=peers("m1:a m2:b"), before=peers("m1:a m2:b m3:c")), True),
        (View(epoch=2, members=("m1", "m2")), False),
        (View(epoch=2, members=("m1",), returned=(RejoinedMember("m1", bytes(16), blank=True),)), False),
    ],
    ids=["just these", "another one is undecided", "somebody else is there, and no majority", "one is blank"],
)
def test_who_was_named_as_all_that_is_left_needs_no_majority(view: View, *, may: bool) -> None:
    """Nor does it wait for what was to come before."""
    before, left = peers("m1:a m2:b m3:c m4:d m5:e"), peers("m1:a")
    electorate = Electorate({f"m{number}": f"dc{number}" for number in range(1, 5)})
    assert electorate.successors(view, [before, left], left) == ((left, ()) if may else None)
    assert electorate.successors(view, [before, left], ()) is None
