"""Pending requests: who waited for what is told once, and told the truth.  On a real store."""

from __future__ import annotations

from quadlog.core.model import (
    body_hash,
)
from quadlog.errors import KeyReused, Rejected
from quadlog.master.clients.pending_requests import PendingRequests, TxAnswer, TxState, Waiter
from tests.support.masters.desks import Client, Log, agree, payload_of


def test_an_answer_comes_when_it_is_agreed_decided_and_applied(
    log: Log, pending_requests: PendingRequests
) -> None:
    payload, client = payload_of(1, b"a"), Client(b"a")
    assert pending_requests.wait(payload.transaction.id, client.waiter) is True
    assert pending_requests.is_known(payload.transaction.id)
    assert pending_requests.state_of(payload.transaction.id, queued=False).state is TxState.PENDING
    entry = agree(log, pending_requests, payload)
    assert pending_requests.state_of(payload.transaction.id, queued=False).state is TxState.PENDING
    pending_requests.complete(decided=0, applied=1)
    pending_requests.complete(decided=1, applied=0)
    assert client.told == []
    pending_requests.complete(decided=1, applied=1)
    assert client.told == [TxAnswer(index=1, chain=entry.chain)]
    assert len(pending_requests) == 0
    status = pending_requests.state_of(payload.transaction.id, queued=False)
    assert (status.state, status.index, status.chain) == (TxState.APPLIED, 1, entry.chain)


def test_nothing_goes_back(log: Log, pending_requests: PendingRequests) -> None:
    """A worker that comes back behind the others does not unsettle anything."""
    agree(log, pending_requests, payload_of(1, b"a"))
    pending_requests.complete(decided=5, applied=5)
    pending_requests.complete(decided=3, applied=2)
    assert (pending_requests.decided, pending_requests.settled) == (5, 5)


def test_all_who_wait_for_one_id_are_told_once(log: Log, pending_requests: PendingRequests) -> None:
    payload, clients = payload_of(1, b"a"), [Client(b"a") for _ in range(3)]
    assert [pending_requests.wait(payload.transaction.id, client.waiter) for client in clients] == [
        True,
        False,
        False,
    ]
    agree(log, pending_requests, payload)
    for _ in range(2):
        pending_requests.complete(decided=1, applied=1)
    assert [len(client.told) for client in clients] == [1, 1, 1]


def test_answers_come_in_the_order_of_the_log(log: Log, pending_requests: PendingRequests) -> None:
    told: list[int] = []
    for number in (3, 1, 2):
        waiter = Waiter(body_hash=body_hash(b"x"), tell=lambda _, number=number: told.append(number))  # type: ignore[misc]
        pending_requests.wait(payload_of(number, b"x").transaction.id, waiter)
    for number in (1, 2, 3):
        agree(log, pending_requests, payload_of(number, b"x"))
    pending_requests.complete(decided=2, applied=3)
    assert told == [1, 2]
    pending_requests.complete(decided=3, applied=3)
    assert told == [1, 2, 3]


def test_a_key_with_another_body_is_told_so_whoever_came_first(
    log: Log, pending_requests: PendingRequests
) -> None:
    """What is agreed decides, not what this master heard first."""
    first, second = Client(b"a"), Client(b"b")
    assert pending_requests.wait(payload_of(1, b"a").transaction.id, first.waiter)
    assert not pending_requests.wait(payload_of(1, b"b").transaction.id, second.waiter)
    entry = agree(log, pending_requests, payload_of(1, b"b"))
    assert [type(told) for told in first.told] == [KeyReused]
    assert second.told == []
    pending_requests.complete(decided=1, applied=1)
    assert second.told == [TxAnswer(index=1, chain=entry.chain)]
    assert len(first.told) == 1


def test_a_retry_has_another_creation_time_and_is_the_same(
    log: Log, pending_requests: PendingRequests
) -> None:
    client = Client(b"a")
    pending_requests.wait(payload_of(1, b"a", created=10).transaction.id, client.waiter)
    agree(log, pending_requests, payload_of(1, b"a", created=99))
    pending_requests.complete(decided=1, applied=1)
    assert [type(told) for told in client.told] == [TxAnswer]


def test_who_asks_later_is_told_from_the_log(log: Log, pending_requests: PendingRequests) -> None:
    entry = agree(log, pending_requests, payload_of(1, b"a"))
    early, other, late = Client(b"a"), Client(b"b"), Client(b"a")
    assert pending_requests.wait(entry.pair.id, early.waiter) is False
    assert early.told == []
    assert pending_requests.wait(entry.pair.id, other.waiter) is False
    assert [type(told) for told in other.told] == [KeyReused]
    pending_requests.complete(decided=1, applied=1)
    assert pending_requests.wait(entry.pair.id, late.waiter) is False
    assert early.told == late.told == [TxAnswer(index=1, chain=entry.chain)]
    assert pending_requests.is_known(entry.pair.id)


def test_a_rejection_is_told_to_all_and_for_ever(log: Log, pending_requests: PendingRequests) -> None:
    """From memory until it is saved, from the store then; after a restart too."""
    payload, client, late = payload_of(1, b"a"), Client(b"a"), Client(b"a")
    pending_requests.wait(payload.transaction.id, client.waiter)
    agree(log, pending_requests, payload)
    pending_requests.rejected[1] = "the shape S failed"
    pending_requests.complete(decided=1, applied=1)
    assert [str(told) for told in client.told if isinstance(told, Rejected)] == ["the shape S failed"]
    log.agree(payload_of(2, b"b"), rejected=pending_requests.rejected)
    pending_requests.rejected = {}
    for one in (pending_requests, PendingRequests(log.store)):
        one.complete(decided=2, applied=2)
        status = one.state_of(payload.transaction.id, queued=False)
        assert (status.state, status.reason) == (TxState.REJECTED, "the shape S failed")
        one.wait(payload.transaction.id, late.waiter)
    assert [type(told) for told in late.told] == [Rejected, Rejected]
    assert (
        pending_requests.state_of(payload_of(2, b"b").transaction.id, queued=False).state is TxState.APPLIED
    )


def test_who_leaves_is_forgotten_and_the_transaction_is_not(
    log: Log, pending_requests: PendingRequests
) -> None:
    """Before it is queued, while it waits, and between agreement and effect."""
    payload, client = payload_of(1, b"a"), Client(b"a")
    name, waiter = payload.transaction.id, client.waiter
    assert pending_requests.wait(name, waiter) is True
    pending_requests.leave(name, waiter, queued=False)
    assert pending_requests.is_known(name), "its payload is on its way"
    second, third = Client(b"a").waiter, client.waiter
    assert pending_requests.wait(name, second) is False
    pending_requests.leave(name, second, queued=True)
    assert len(pending_requests) == 0
    pending_requests.wait(name, third)
    agree(log, pending_requests, payload)
    pending_requests.leave(name, third, queued=False)
    pending_requests.complete(decided=1, applied=1)
    assert client.told == []
    assert pending_requests.state_of(name, queued=False).state is TxState.APPLIED


def test_what_is_not_known_is_unknown(pending_requests: PendingRequests) -> None:
    assert not pending_requests.is_known(b"?" * 16)
    assert pending_requests.state_of(b"?" * 16, queued=False).state is TxState.UNKNOWN
    assert pending_requests.state_of(b"?" * 16, queued=True).state is TxState.PENDING


def test_a_read_shows_what_was_acknowledged_before_the_last_start(log: Log) -> None:
    """The first heartbeat after a start may be that of a worker that is behind."""
    pending_requests = PendingRequests(log.store, decided_before=1000)
    pending_requests.complete(decided=1000, applied=900)
    assert (pending_requests.settled, pending_requests.shown) == (900, 1000)
    pending_requests.complete(decided=1200, applied=1100)
    assert pending_requests.shown == 1100
    pending_requests.go_back(700)
    assert pending_requests.shown == 700, "what was decided behind it is decided anew"
