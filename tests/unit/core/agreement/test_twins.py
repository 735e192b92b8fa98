"""Two payloads of one id: one is agreed, and the other one stays as long as that entry may be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from quadlog.core.agreement.inheritance import RebasedQueue, rebased_queue
from quadlog.core.agreement.local_state import LocalState
from quadlog.core.messages import RecoveredState
from quadlog.core.model import START, LogPosition, Pair, Transaction, View
from quadlog.core.queues.queue import IncomingQueue

if TYPE_CHECKING:
    from quadlog.core.messages import JoinedLog

NAME = bytes(16)
ONE, TWIN = (Transaction(id=NAME, digest=bytes([number]) * 32) for number in (1, 2))
AGREED = Pair(1, *ONE.key)
VIEW = View(epoch=1, members=("m1",), parent=bytes(32), home="dc1")


def state_of(
    *, acquired: tuple[Transaction, ...] = (), tail: tuple[tuple[LogPosition, Pair], ...] = ()
) -> LocalState:
    durable = RecoveredState(tail=tail, last=tail[-1][0] if tail else START, acquired=acquired)
    return LocalState(durable, logged={}, length=10)


class Beside:
    """A branch with one entry, next to a log with another one."""

    fork = own = START
    last = LogPosition(1, bytes([9]) * 32)

    def __init__(self, theirs: Transaction, own: Transaction | None) -> None:
        self._theirs, self._own = Pair(1, *theirs.key), own

    def digests(self, index: int) -> dict[bytes, bytes]:
        return {self._theirs.id: self._theirs.digest} if index else {}

    def given_way(self, index: int) -> list[tuple[Pair, Transaction]]:
        return [] if self._own is None else [(Pair(1, *self._own.key), self._own)][index - 1 :]

    def tail(self, index: int, length: int) -> list[tuple[LogPosition, Pair]]:
        return [(self.last, self._theirs)][:index][:length]

    def marks(self, index: int) -> list[tuple[LogPosition, Pair]]:
        del index
        return []


def gives_way(queue: IncomingQueue, beside: Beside) -> RebasedQueue:
    found = rebased_queue(queue, cast("JoinedLog", beside), beside.last, frozenset(), lambda: 9)
    assert found is not None
    return found


def test_a_twin_stays_until_the_entry_is_never_cut() -> None:
    state = state_of()
    state.acquire(ONE)
    state.acquire(TWIN)
    state.enqueue(AGREED)
    state.append(AGREED, ONE, VIEW, 0.0)
    assert state.take_changes().released == [ONE.key]
    state.release_twins(0)
    assert state.queue.has_payload(TWIN.key)
    state.release_twins(1)
    assert not state.queue.has_payload(TWIN.key)
    assert state.take_changes().released == [TWIN.key]
    assert not state.has_twins


def test_a_restart_knows_its_twins() -> None:
    state = state_of(acquired=(TWIN,), tail=((LogPosition(1, bytes(32)), AGREED),))
    state.release_twins(0)
    assert state.queue.has_payload(TWIN.key)
    state.release_twins(1)
    assert not state.queue.has_payload(TWIN.key)


def test_what_gives_way_to_its_twin_is_kept() -> None:
    """The sides may part again, and the entry that won may be the one that is cut then."""
    kept = gives_way(IncomingQueue((), ()), Beside(theirs=TWIN, own=ONE))
    assert (kept.pairs, kept.acquired, kept.regained, kept.twins) == ([], [ONE], [ONE], [ONE.key])


def test_what_both_sides_agreed_on_is_not_kept_twice() -> None:
    kept = gives_way(IncomingQueue((), (ONE,)), Beside(theirs=ONE, own=ONE))
    assert (kept.pairs, kept.acquired, kept.twins, kept.released) == ([], [], [], [ONE.key])


def test_a_twin_that_came_with_another_log_goes_with_its_entry() -> None:
    state, beside = state_of(acquired=(ONE,)), Beside(theirs=TWIN, own=None)
    state.adopt(cast("JoinedLog", beside), beside.last, gives_way(state.queue, beside))
    state.take_changes()
    state.release_twins(0)
    assert state.queue.has_payload(ONE.key)
    state.release_twins(1)
    assert not state.queue.has_payload(ONE.key)
    assert state.take_changes().released == [ONE.key]
