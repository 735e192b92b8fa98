"""Pending requests where the log is cut: nobody is told an index that is void.  On a real store."""

from __future__ import annotations

from quadlog.core.messages import Save
from quadlog.errors import KeyReused, OutcomeUnknown
from quadlog.master.clients.pending_requests import PendingRequests, TxAnswer, TxState, TxStatus
from quadlog.masterstore.store import Taken
from tests.support.masters.desks import Client, Log, agree, give_way, payload_of


def test_what_was_settled_on_a_branch_that_is_cut_waits_again(
    log: Log, pending_requests: PendingRequests
) -> None:
    """It was told its index already; whoever asks now is not told that any more."""
    one, two = payload_of(1, b"a"), payload_of(2, b"b")
    agree(log, pending_requests, one)
    agree(log, pending_requests, two)
    pending_requests.complete(decided=2, applied=2)
    entries = give_way(log, 1, [payload_of(7, b"x"), payload_of(8, b"y")], [two])
    pending_requests.truncate(1, waits=two.transaction.id.__eq__, dequeued=[])
    assert pending_requests.state_of(one.transaction.id, queued=False).state is TxState.APPLIED
    assert pending_requests.state_of(two.transaction.id, queued=True) == TxStatus(state=TxState.PENDING)
    status = pending_requests.state_of(entries[0].pair.id, queued=False)
    assert (status.state, status.index, status.chain) == (TxState.PENDING, 2, entries[0].chain)
    assert (pending_requests.settled, pending_requests.shown) == (1, 1)
    late = Client(b"b")
    assert pending_requests.wait(two.transaction.id, late.waiter)
    log.index, log.chain = 3, entries[-1].chain
    again = agree(log, pending_requests, two)
    pending_requests.complete(decided=4, applied=4)
    assert late.told == [TxAnswer(index=4, chain=again.chain)]


def test_who_waits_for_what_is_elsewhere_now_is_told_where(
    log: Log, pending_requests: PendingRequests
) -> None:
    """Agreed here and there, or waiting here and agreed there; with another body the key was used before."""
    agree(log, pending_requests, payload_of(9, b"z"))
    one, two, three = payload_of(1, b"a"), payload_of(2, b"b"), payload_of(3, b"c")
    clients = [Client(b"a"), Client(b"b"), Client(b"c"), Client(b"other")]
    for payload, client in zip([one, two, three, three], clients, strict=True):
        pending_requests.wait(payload.transaction.id, client.waiter)
    agree(log, pending_requests, one)
    agree(log, pending_requests, two)
    entries = give_way(log, 1, [payload_of(8, b"y"), three, one], [two])
    pending_requests.truncate(1, waits=two.transaction.id.__eq__, dequeued=[three.transaction.id])
    pending_requests.complete(decided=4, applied=4)
    assert clients[0].told == [TxAnswer(index=4, chain=entries[2].chain)]
    assert clients[1].told == [], "it waits again"
    assert clients[2].told == [TxAnswer(index=3, chain=entries[1].chain)]
    assert [type(told) for told in clients[3].told] == [KeyReused]


def test_a_control_entry_ends_with_its_branch_and_whoever_waits_is_told(
    log: Log, pending_requests: PendingRequests
) -> None:
    """Agreed or waiting: only transactions are submitted anew.  Others may have it, and agree on it later."""
    agreed, waiting, early = payload_of(1, b"a"), payload_of(2, b"b"), payload_of(3, b"c")
    clients = [Client(b"a"), Client(b"b"), Client(b"c")]
    for payload, client in zip([agreed, waiting, early], clients, strict=True):
        pending_requests.wait(payload.transaction.id, client.waiter)
    agree(log, pending_requests, agreed)
    give_way(log, 0, [payload_of(8, b"y")], [])
    pending_requests.truncate(0, waits=lambda _: False, dequeued=[waiting.transaction.id])
    assert [[type(told) for told in client.told] for client in clients] == [
        [OutcomeUnknown],
        [OutcomeUnknown],
        [],
    ]
    assert pending_requests.state_of(agreed.transaction.id, queued=False).state is TxState.UNKNOWN
    assert pending_requests.state_of(early.transaction.id, queued=False).state is TxState.PENDING, (
        "it is on its way"
    )


def test_what_ended_with_its_branch_says_so_until_it_is_agreed_elsewhere(
    log: Log, pending_requests: PendingRequests
) -> None:
    """It is no secret that it was agreed: its client was told that it is done."""
    change, later = payload_of(1, b"a"), payload_of(8, b"y")
    agree(log, pending_requests, change)
    entries = give_way(log, 0, [later], [], {change.transaction.id: 1})
    pending_requests.truncate(0, waits=lambda _: False, dequeued=[])
    status = pending_requests.state_of(change.transaction.id, queued=False)
    assert (status.state, status.index) == (TxState.SUPERSEDED, None)
    assert status.reason is not None
    assert status.reason.startswith("it was entry 1 of a log that gave way")
    assert pending_requests.state_of(change.transaction.id, queued=True).state is TxState.PENDING
    assert pending_requests.state_of(later.transaction.id, queued=False).state is TxState.PENDING
    log.index, log.chain = 1, entries[-1].chain
    agree(log, pending_requests, change)
    pending_requests.complete(decided=2, applied=2)
    assert pending_requests.state_of(change.transaction.id, queued=False).state is TxState.APPLIED


def test_a_rejection_that_is_void_is_told_to_nobody(log: Log, pending_requests: PendingRequests) -> None:
    """Effects went back: the entry is decided anew.  Also before that is saved, and after a restart."""
    payload = payload_of(1, b"a")
    agree(log, pending_requests, payload)
    log.agree(payload_of(2, b"b"), rejected={1: "it was wrong there", 2: "so was this"})
    pending_requests.complete(decided=2, applied=2)
    assert pending_requests.state_of(payload.transaction.id, queued=False).state is TxState.REJECTED
    pending_requests.go_back(0)
    assert pending_requests.state_of(payload.transaction.id, queued=False).state is TxState.PENDING
    nothing = Save(counter=9, sequence=9, acquired=(), enqueued=(), dequeued=(), entries=(), released=())
    taken = Taken(positions={}, effects=(0, 0, 0), rejected={}, back=pending_requests.back)
    log.store.save(nothing, payloads={}, taken=taken, unneeded=())
    pending_requests.saved()
    pending_requests.complete(decided=2, applied=2)
    assert pending_requests.state_of(payload.transaction.id, queued=False).state is TxState.APPLIED
