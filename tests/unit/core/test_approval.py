"""Approvals as options of a CONFIG entry, and what they let a master do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from quadlog.core.agreement.inheritance import rebased_queue
from quadlog.core.approval import (
    AFTER,
    DROP,
    PLAN,
    Approval,
    approval_in,
    dropped,
    implied_by,
    implied_payload,
)
from quadlog.core.cluster_settings import ClusterSettings, SplitApproval, SplitRecovery
from quadlog.core.membership.failure_detector import NOBODY
from quadlog.core.membership.views import Views
from quadlog.core.model import (
    START,
    HardState,
    LogPosition,
    Pair,
    Post,
    Rank,
    Transaction,
    TransactionKind,
    View,
    first_view,
)
from quadlog.core.queues.progress import Progress
from quadlog.core.queues.queue import IncomingQueue
from quadlog.core.synchronous import decision_on

if TYPE_CHECKING:
    from quadlog.core.messages import JoinedLog

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
BEFORE = LogPosition(7, bytes(range(32)))
APPROVAL = Approval(bytes(32), BEFORE, frozenset({bytes(16)}))


@pytest.mark.parametrize(
    "wrong",
    [
        {PLAN: "x"},
        {AFTER: "7"},
        {AFTER: f"-7:{'00' * 32}"},
        {AFTER: f"7:{'00' * 31}"},
        {AFTER: f"7:{'00' * 32} "},
        {DROP: "zz"},
    ],
)
def test_options_of_another_version_approve_nothing(wrong: dict[str, str]) -> None:
    assert approval_in(APPROVAL.options) == APPROVAL
    assert approval_in({**APPROVAL.options, **wrong}) is None
    assert approval_in({}) is None


def test_what_its_digest_determines_needs_no_payload() -> None:
    update = Transaction(id=bytes(16), digest=bytes(range(32)), options={"commit": "sync"})
    assert implied_by(update.key) is None
    assert implied_payload(update.key) is None
    gone = dropped(update)
    assert dropped(gone) == gone, "once"
    assert gone.kind is TransactionKind.TX
    assert not gone.options
    decision = decision_on(TransactionKind.ROLLBACK, BEFORE)
    for one in (gone, decision.transaction):
        assert implied_by(one.key) == one
        payload = implied_payload(one.key)
        assert payload is not None
        assert (payload.transaction, payload.body) == (one, b"")


def alone(*, fork: int | None, approval: SplitApproval, masters: dict[str, str] = MASTERS) -> Views:
    """m3, alone in its view."""
    settings = ClusterSettings(split_recovery=SplitRecovery.SMART, split_approval=approval, max_peer_lag=2.0)
    view = replace(first_view(masters), epoch=3, members=("m3",))
    return Views(
        "m3",
        masters,
        HardState(view=view, fork=fork),
        settings=settings,
        near=10,
        idle=20.0,
        put_off=4,
        witnesses=frozenset(),
    )


def is_held(views: Views, *, last: int, now: float = 1.0) -> bool:
    """Whether it does not join a stronger side that it hears."""
    other = View(epoch=4, members=("m1", "m2"), home="dc1")
    member = Progress(bytes(16))
    post = Post(
        node="m1",
        incarnation=bytes(16),
        sequence=1,
        view=other,
        base=START,
        counter=1,
        queue=(),
        rank=Rank(epoch=4, decided=True, members=2, ids=other.members),
    )
    member.on_post(post, post.base)
    member.understand(post, ())
    views.failure_detector.wake(now)
    views.failure_detector.on_post(post, views.view, now)
    views.tick({"m1": member}, NOBODY, now, last=last)
    assert (views.held is None) == (views.standing.joining is not None)
    return views.held is not None


@pytest.mark.parametrize(
    ("fork", "last", "approval", "held"),
    [
        (5, 7, SplitApproval.MANUAL, True),
        (7, 7, SplitApproval.MANUAL, False),  # it has no entries of its own
        (None, 7, SplitApproval.MANUAL, False),  # its view held a majority
        (5, 7, SplitApproval.AUTO, False),
    ],
)
def test_a_side_with_entries_of_its_own_waits(
    fork: int | None, last: int, approval: SplitApproval, *, held: bool
) -> None:
    views = alone(fork=fork, approval=approval)
    assert is_held(views, last=last) == held


def approve(views: Views, approval: Approval, before: LogPosition) -> bool:
    transaction = Transaction(
        id=bytes(16), digest=bytes(32), kind=TransactionKind.CONFIG, options=approval.options
    )
    return views.configure(transaction, before, 0)


def test_an_approval_counts_directly_behind_the_entry_that_it_names() -> None:
    views = alone(fork=5, approval=SplitApproval.MANUAL)
    assert is_held(views, last=7)
    for before in (LogPosition(8, BEFORE.chain), LogPosition(7, bytes(32))):
        assert not approve(views, APPROVAL, before)
        assert is_held(views, last=before.index + 1)
    assert approve(views, APPROVAL, BEFORE)
    assert is_held(views, last=9), "it is not the last entry any more"
    assert not is_held(views, last=8)


def test_nothing_is_added_behind_an_approval_for_some_time() -> None:
    views = alone(fork=5, approval=SplitApproval.MANUAL)
    views.failure_detector.wake(1_000.0)
    assert not views.is_paused(0)
    assert approve(views, APPROVAL, BEFORE)
    assert views.is_paused(8)
    assert not views.is_paused(9)
    views.failure_detector.wake(2_999.0)
    assert views.is_paused(8)
    views.failure_detector.wake(3_000.0)
    assert not views.is_paused(8), "max-peer-lag has passed, and no other side was there"


@pytest.mark.parametrize(("late", "held"), [(1_999.0, False), (2_000.0, True)])
def test_an_approval_lapses_even_if_nothing_follows_it(late: float, *, held: bool) -> None:
    """The other side may have moved on meanwhile."""
    views = alone(fork=5, approval=SplitApproval.MANUAL)
    views.failure_detector.wake(0.0)
    assert approve(views, APPROVAL, BEFORE)
    assert views.is_paused(8)
    assert is_held(views, last=8, now=late) == held
    if not held:
        assert not is_held(views, last=8, now=5_000.0), "who gives way already goes on"


class _Nothing:
    """A log without entries, beside one without."""

    fork = own = last = START

    def given_way(self, index: int) -> list[tuple[Pair, Transaction]]:
        del index
        return []

    def digests(self, index: int) -> dict[bytes, bytes]:
        del index
        return {}


def test_a_dropped_update_that_waits_is_kept_by_a_side_that_gives_way_again() -> None:
    gone = dropped(Transaction(id=bytes(16), digest=bytes(range(32))))
    queue = IncomingQueue([Pair(1, *gone.key)], [])
    kept = rebased_queue(queue, cast("JoinedLog", _Nothing()), START, frozenset(), lambda: 9)
    assert kept is not None
    assert kept.pairs == [Pair(9, *gone.key)]
