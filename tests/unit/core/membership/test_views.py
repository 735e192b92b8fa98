"""Where one master stands, as the others' posts say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.core.cluster_settings import ClusterSettings, SplitRecovery
from quadlog.core.membership.failure_detector import NOBODY
from quadlog.core.membership.views import Views
from quadlog.core.messages import LocalStatus
from quadlog.core.model import (
    NOWHERE,
    OF_A_BRANCH,
    START,
    EffectsPosition,
    HardState,
    Peer,
    Post,
    Rank,
    RejoinedMember,
    View,
    first_view,
)
from quadlog.core.queues.progress import Progress

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3", "m4": "dc4"}
SETTINGS = ClusterSettings(split_recovery=SplitRecovery.SMART, max_peer_lag=0.1)
OWN = replace(first_view(MASTERS), epoch=3, members=("m4",))
ASKED = View(epoch=2, members=("m1", "m3"), home="dc1")
OTHER = View(epoch=4, members=("m2",), home="dc2")


def posted(node: str, view: View, *, effects: EffectsPosition = NOWHERE, full: bool = False) -> Progress:
    """A master whose last word is said in a view."""
    member = Progress(bytes(16))
    rank = Rank(epoch=2, decided=True, members=2, ids=view.members)
    post = Post(
        node=node,
        incarnation=bytes(16),
        sequence=1,
        view=view,
        base=START,
        counter=1,
        queue=(),
        rank=rank,
        effects=effects,
        full=full,
    )
    member.on_post(post, post.base)
    member.understand(post, ())
    return member


def test_a_views_id_tells_all_that_makes_it_another_one() -> None:
    """Its home alone follows from the rest."""
    peers = (Peer("m1", "dc1"), Peer("m4", "dc4"))
    back = RejoinedMember("m4", bytes(16), blank=True)
    views = [
        OWN,
        replace(OWN, epoch=4),
        replace(OWN, members=("m1", "m4")),
        replace(OWN, parent=b"p" * 32),
        replace(OWN, returned=(back,)),
        replace(OWN, returned=(back._replace(blank=False),)),
        replace(OWN, returned=(back._replace(incarnation=b"i" * 16),)),
        replace(OWN, peers=peers),
        replace(OWN, before=peers),
        replace(OWN, peers=peers[:1]),
    ]
    assert len({view.id for view in views}) == len(views)
    assert replace(OWN, home="dc9").id == OWN.id


@pytest.mark.parametrize("parent", [ASKED, OWN], ids=["let in", "a member"])
def test_who_voted_and_asked_elsewhere_since_follows_what_was_elected(parent: View) -> None:
    """It stood still for ever: it neither followed that view nor voted for another one (seen in the weather)."""
    elected = View(epoch=5, members=("m1", "m3", "m4"), parent=parent.id, home="dc1")
    views = Views(
        "m4",
        MASTERS,
        HardState(view=OWN, ballot=elected, joining=OTHER),
        settings=SETTINGS,
        near=10,
        idle=20.0,
        put_off=4,
    )
    members = {"m1": posted("m1", elected), "m2": posted("m2", OTHER)}
    for member in members.values():
        assert member.said is not None
        views.failure_detector.on_post(member.said, views.view, 1.0)
    assert views.tick(members, NOBODY, 2.0, last=0)
    assert views.standing.joining == (elected if parent is ASKED else None)
    assert not views.tick(members, NOBODY, 3.0, last=0), "and stays with it"


@pytest.mark.parametrize("own", [NOWHERE, OF_A_BRANCH])
@pytest.mark.parametrize("other", [NOWHERE, OF_A_BRANCH])
def test_a_home_has_the_effects_of_the_log_if_any_data_centre_has(
    own: EffectsPosition, other: EffectsPosition
) -> None:
    """Who gave way with the last view has not copied them yet when the home that brought them is gone."""
    view = View(epoch=4, members=("m1", "m2", "m3"), home="dc2")
    views = Views(
        "m1",
        MASTERS,
        HardState(view=view, given_up=("m2",)),
        settings=SETTINGS,
        near=10,
        idle=20.0,
        put_off=4,
    )
    views.view_election.status = LocalStatus(effects=own)
    members = {"m3": posted("m3", view, effects=other)}
    assert members["m3"].said is not None
    views.failure_detector.on_post(members["m3"].said, views.view, 1.0)
    assert views.vote(members, 0, 2.0)
    ballot = views.standing.ballot
    assert ballot is not None
    assert ballot.members == ("m1", "m3")
    assert ballot.home == ("dc3" if (own, other) == (OF_A_BRANCH, NOWHERE) else "dc1")


@pytest.mark.parametrize(
    ("witnesses", "home", "effects", "expected"),
    [
        ("", "dc1", NOWHERE, "dc1"),
        ("dc1", "dc1", NOWHERE, "dc3"),
        ("dc1", "dc2", NOWHERE, "dc3"),
        ("dc1 dc3", "dc2", NOWHERE, "dc1"),
        ("dc1 dc3", "dc3", NOWHERE, "dc3"),
        ("dc1", "dc2", OF_A_BRANCH, "dc1"),
    ],
    ids=[
        "none",
        "it was one",
        "the lowest is one",
        "all are",
        "it stays if all are",
        "the other's are of a branch",
    ],
)
def test_no_witness_is_the_home_if_another_stays(
    witnesses: str, home: str, effects: EffectsPosition, expected: str
) -> None:
    """Unless the other one's effects are of a branch: nobody could go on behind them."""
    view = View(epoch=4, members=("m1", "m2", "m3"), home=home)
    ballot = _ballot(view, witnesses, gone="m2", effects=effects)
    assert ballot is not None
    assert (ballot.members, ballot.home) == (("m1", "m3"), expected)


def _ballot(view: View, witnesses: str, *, gone: str = "", effects: EffectsPosition = NOWHERE) -> View | None:
    """What m1 proposes, which hears all other members but one that is gone."""
    views = Views(
        "m1",
        MASTERS,
        HardState(view=view, given_up=(gone,) if gone else ()),
        settings=SETTINGS,
        near=10,
        idle=20.0,
        put_off=4,
        witnesses=frozenset(witnesses.split()),
    )
    members = {name: posted(name, view, effects=effects) for name in view.members if name != gone}
    for member in members.values():
        assert member.said is not None
        views.failure_detector.on_post(member.said, views.view, 1.0)
    views.vote(members, 0, 2.0)
    return views.standing.ballot


@pytest.mark.parametrize(
    ("witnesses", "moves"),
    [("dc3", True), ("dc1 dc3", False), ("", False), ("dc1", False)],
    ids=["from a witness", "nobody else is there", "from nobody that is one", "not from here"],
)
def test_a_view_that_began_with_witnesses_moves_its_home(witnesses: str, *, moves: bool) -> None:
    """Where only they stayed, nothing is evaluated until another one is let in: from there on it is the home."""
    view = View(epoch=4, members=("m1", "m3"), home="dc3")
    ballot = _ballot(view, witnesses)
    assert (ballot and (ballot.epoch, ballot.members, ballot.home)) == (
        (5, ("m1", "m3"), "dc1") if moves else None
    )


@pytest.mark.parametrize(
    ("own", "other", "home", "epoch"),
    [
        (OF_A_BRANCH, NOWHERE, "dc2", 5),
        (NOWHERE, NOWHERE, "dc2", 5),
        (NOWHERE, OF_A_BRANCH, "dc1", 6),
    ],
    ids=["nothing happens", "a lower one will do by now", "it will not do any more"],
)
def test_what_is_proposed_keeps_its_home_while_that_will_do(
    own: EffectsPosition, other: EffectsPosition, home: str, epoch: int
) -> None:
    """A voter installed it; the others proposed a lower home, and waited for that voter until they gave it up."""
    view = View(epoch=4, members=("m1", "m2", "m3"), home="dc3")
    views = Views(
        "m1",
        MASTERS,
        HardState(view=view),
        settings=SETTINGS,
        near=10,
        idle=20.0,
        put_off=4,
        witnesses=frozenset({"dc3"}),
    )
    views.view_election.status = LocalStatus(effects=OF_A_BRANCH)
    members = {name: posted(name, view) for name in ("m1", "m2", "m3")}
    for member in members.values():
        assert member.said is not None
        views.failure_detector.on_post(member.said, views.view, 1.0)
    assert views.vote(members, 0, 2.0)
    assert (views.standing.voted, views.standing.ballot and views.standing.ballot.home) == (5, "dc2")

    views.view_election.status = LocalStatus(effects=own)
    members["m2"] = posted("m2", view, effects=other)
    views.vote(members, 0, 3.0)
    assert (views.standing.voted, views.standing.ballot and views.standing.ballot.home) == (epoch, home)


FULL = [
    ("dc1", "m1", "", "dc2"),
    ("dc1", "m1 m2", "", "dc3"),
    ("dc1", "m1", "dc2", "dc3"),
    ("dc1", "m1 m2", "dc3", None),
    ("dc1", "m1 m2 m3", "", None),
    ("dc1", "m2 m3", "", None),
    ("dc2", "m2", "", "dc1"),
    ("dc2", "", "", None),
]


@pytest.mark.parametrize(("home", "full", "witnesses", "to"), FULL)
def test_a_view_whose_home_takes_no_effects_moves_its_home(
    home: str, full: str, witnesses: str, to: str | None
) -> None:
    """The duty could not be handed on there.  It stays if nobody else can evaluate."""
    view = View(epoch=4, members=("m1", "m2", "m3"), home=home)
    views = Views(
        "m1",
        MASTERS,
        HardState(view=view),
        settings=SETTINGS,
        near=10,
        idle=20.0,
        put_off=4,
        witnesses=frozenset(witnesses.split()),
    )
    views.view_election.status = LocalStatus(full="m1" in full)
    members = {name: posted(name, view, full=name in full) for name in view.members}
    views.vote(members, 0, 2.0)
    ballot = views.standing.ballot
    assert (ballot and (ballot.epoch, ballot.members, ballot.home)) == (
        None if to is None else (5, view.members, to)
    )


@pytest.mark.parametrize("both", [True, False])
def test_all_masters_of_a_home_have_to_say_that_it_is_full(*, both: bool) -> None:
    """With its vote each of them counts no more effects there: none may go on as if nothing was."""
    masters = {"m1": "dc1", "m2": "dc1", "m3": "dc2"}
    view = View(epoch=4, members=("m1", "m2", "m3"), home="dc1")
    views = Views("m1", masters, HardState(view=view), settings=SETTINGS, near=10, idle=20.0, put_off=4)
    views.view_election.status = LocalStatus(full=True)
    members = {name: posted(name, view, full=both and name == "m2") for name in view.members}
    views.vote(members, 0, 2.0)
    ballot = views.standing.ballot
    assert (ballot and ballot.home) == ("dc2" if both else None)


def test_who_is_let_in_where_it_asked_reads_that_log_on() -> None:
    elected = View(epoch=5, members=("m1", "m3", "m4"), parent=ASKED.id, home="dc1")
    views = Views(
        "m4",
        MASTERS,
        HardState(view=OWN, ballot=elected, joining=ASKED),
        settings=SETTINGS,
        near=10,
        idle=20.0,
        put_off=4,
    )
    members = {"m1": posted("m1", elected)}
    assert members["m1"].said is not None
    views.failure_detector.on_post(members["m1"].said, views.view, 1.0)
    assert not views.tick(members, NOBODY, 2.0, last=0)
    assert views.standing.joining == ASKED
