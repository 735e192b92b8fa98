"""Barriers of strict reads: when they are answered, and with which index.  On a real store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from quadlog.core.model import body_hash
from quadlog.master.clients.pending_requests import TxAnswer, Waiter
from tests.support.masters.desks import Client, Log, give_way, payload_of

if TYPE_CHECKING:
    from quadlog.core.model import Payload
    from quadlog.master.clients.pending_requests import PendingRequests

Told: TypeAlias = list[TxAnswer | Exception]
NOTHING: dict[int, int] = {}
"""No barrier waits whose read index is asked for."""


def barrier(pending_requests: PendingRequests, payload: Payload) -> Told:
    told: Told = []
    waiter = Waiter(body_hash=body_hash(payload.body), tell=told.append, is_barrier=True)
    assert pending_requests.wait(payload.transaction.id, waiter)
    return told


def agree(log: Log, pending_requests: PendingRequests, payload: Payload, *, by_majority: bool = True) -> None:
    entry = log.agree(payload)
    pending_requests.agreed([entry], log.payloads, confirms=lambda _: by_majority)


def indexes(told: Told) -> list[int | None]:
    return [one.index for one in told if isinstance(one, TxAnswer)]


def test_a_barrier_is_answered_once_a_worker_shows_what_its_read_needs(
    log: Log, pending_requests: PendingRequests
) -> None:
    """Here entry 2 is undecided; who waits for a transaction behind it goes on waiting."""
    one, other = payload_of(3, b""), Client(b"b")
    told = barrier(pending_requests, one)
    pending_requests.wait(payload_of(2, b"b").transaction.id, other.waiter)
    agree(log, pending_requests, payload_of(1, b"a"))
    agree(log, pending_requests, payload_of(2, b"b"))
    pending_requests.answer_barriers(lambda _: 1)
    agree(log, pending_requests, one)
    pending_requests.answer_barriers(lambda _: 1)
    assert told == [], "no worker shows it"
    pending_requests.complete(decided=1, applied=1)
    pending_requests.answer_barriers(lambda _: 2)
    assert told == [], "what it needs is known anew each time"
    pending_requests.answer_barriers({3: 1}.__getitem__)
    pending_requests.answer_barriers(NOTHING.__getitem__)
    assert indexes(told) == [1]
    assert other.told == []
    pending_requests.complete(decided=3, applied=3)
    assert (len(told), len(other.told), len(pending_requests)) == (1, 1, 0)


def test_a_barrier_that_is_applied_is_answered_like_others(
    log: Log, pending_requests: PendingRequests
) -> None:
    one = payload_of(1, b"")
    told = barrier(pending_requests, one)
    agree(log, pending_requests, one)
    pending_requests.complete(decided=1, applied=1)
    pending_requests.answer_barriers(NOTHING.__getitem__)
    assert indexes(told) == [1]


def test_a_barrier_without_a_majority_is_answered_at_once(
    log: Log, pending_requests: PendingRequests
) -> None:
    """Its read is refused: there is nothing to wait for."""
    one = payload_of(1, b"")
    told = barrier(pending_requests, one)
    agree(log, pending_requests, one, by_majority=False)
    pending_requests.answer_barriers(NOTHING.__getitem__)
    [answer] = told
    assert isinstance(answer, TxAnswer)
    assert not answer.by_majority


def test_a_barrier_of_a_log_that_gave_way_is_none_of_a_majority(
    log: Log, pending_requests: PendingRequests
) -> None:
    """Whether it waits again or is in the other log: its index is void, and what it confirmed, too."""
    agree(log, pending_requests, payload_of(9, b"z"))
    both, waits = payload_of(1, b""), payload_of(2, b"")
    told = [barrier(pending_requests, payload) for payload in (both, waits)]
    agree(log, pending_requests, both)
    agree(log, pending_requests, waits)
    give_way(log, 1, [payload_of(7, b"x"), both], [waits])
    pending_requests.truncate(1, waits=waits.transaction.id.__eq__, dequeued=[])
    pending_requests.answer_barriers(NOTHING.__getitem__)
    assert [indexes(one) for one in told] == [[3], []]
    assert isinstance(told[0][0], TxAnswer)
    assert not told[0][0].by_majority


def test_a_read_that_leaves_leaves_no_barrier_behind(log: Log, pending_requests: PendingRequests) -> None:
    one, told = payload_of(1, b""), list[object]()
    waiter = Waiter(body_hash=body_hash(b""), tell=told.append, is_barrier=True)
    pending_requests.wait(one.transaction.id, waiter)
    agree(log, pending_requests, one)
    pending_requests.leave(one.transaction.id, waiter, queued=False)
    pending_requests.complete(decided=1, applied=1)
    pending_requests.answer_barriers(NOTHING.__getitem__)
    assert (told, len(pending_requests)) == ([], 0)
