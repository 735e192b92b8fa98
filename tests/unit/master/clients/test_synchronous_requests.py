"""Clients of synchronous and lazy transactions: what they are told, and when.  On a real store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from quadlog.core.model import body_hash
from quadlog.core.synchronous import (
    COMMIT_MODE,
    ROLLED_BACK,
    SUSPENDED,
    is_synchronous,
    marked,
    resumed_id,
    resumed_index,
)
from quadlog.errors import KeyReused, OutcomeUnknown, RolledBack
from quadlog.master.clients.admission import BLOCKED, Admission
from quadlog.master.clients.pending_requests import PendingRequests, TxAnswer, TxState, Waiter
from quadlog.master.clients.suspended import AGAIN_MS, SuspendedTransactions, resumed
from tests.support.masters.desks import Client, Log, agree, payload_of

if TYPE_CHECKING:
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import Payload


def synchronous(number: int, body: bytes = b"a") -> Payload:
    payload = payload_of(number, body)
    options = {COMMIT_MODE: "sync"}
    digest = marked(payload.transaction.digest, options)
    return replace(payload, transaction=replace(payload.transaction, digest=digest, options=options))


def waiter_for(payload: Payload, told: list[TxAnswer | Exception], *, is_lazy: bool = False) -> Waiter:
    return Waiter(body_hash=payload.body_hash, tell=told.append, is_lazy=is_lazy)


def test_an_answer_waits_until_enough_data_centres_have_the_effect(
    log: Log, pending_requests: PendingRequests
) -> None:
    payload, told, other = synchronous(1), list[TxAnswer | Exception](), Client(b"b")
    pending_requests.wait(payload.transaction.id, waiter_for(payload, told))
    pending_requests.wait(payload_of(2, b"b").transaction.id, other.waiter)
    agree(log, pending_requests, payload)
    agree(log, pending_requests, payload_of(2, b"b"))
    pending_requests.complete(decided=2, applied=2, confirmed=0)
    assert (told, len(other.told)) == ([], 1), "an asynchronous one is answered"
    pending_requests.complete(decided=2, applied=2, confirmed=1)
    assert [type(one) for one in told] == [TxAnswer]


@pytest.mark.parametrize(("reason", "error"), [(ROLLED_BACK, RolledBack), (SUSPENDED, OutcomeUnknown)])
def test_what_is_not_applied_is_answered_at_once(
    log: Log, pending_requests: PendingRequests, reason: str, error: type[Exception]
) -> None:
    payload, told = synchronous(1), list[TxAnswer | Exception]()
    pending_requests.wait(payload.transaction.id, waiter_for(payload, told))
    agree(log, pending_requests, payload)
    pending_requests.reject(1, reason)
    pending_requests.complete(decided=1, applied=1, confirmed=0)
    pending_requests.wait(payload.transaction.id, waiter_for(payload, told))
    assert [type(one) for one in told] == [error] * 2
    state = pending_requests.state_of(payload.transaction.id, queued=False).state
    assert state is (TxState.ROLLED_BACK if reason == ROLLED_BACK else TxState.SUSPENDED)
    assert pending_requests.suspended == ({1} if reason == SUSPENDED else set())


def test_one_found_by_its_effect_says_so(log: Log, pending_requests: PendingRequests) -> None:
    payload, told = payload_of(1, b"a"), list[TxAnswer | Exception]()
    pending_requests.wait(payload.transaction.id, waiter_for(payload, told))
    agree(log, pending_requests, payload)
    pending_requests.note_synchronous(1)
    pending_requests.complete(decided=1, applied=1, confirmed=0)
    assert told == []
    pending_requests.complete(decided=1, applied=1, confirmed=1)
    assert cast("TxAnswer", told[0]).is_synchronous


def test_the_first_id_of_a_suspended_one_has_the_outcome_of_the_second(
    log: Log, pending_requests: PendingRequests
) -> None:
    payload, told = synchronous(1), list[TxAnswer | Exception]()
    first = agree(log, pending_requests, payload)
    pending_requests.reject(1, SUSPENDED)
    again = resumed(payload, 1, first.chain)
    second = agree(log, pending_requests, again)
    pending_requests.complete(decided=2, applied=2, confirmed=2)
    status = pending_requests.state_of(payload.transaction.id, queued=False)
    assert (status.state, status.index) == (TxState.APPLIED, 2)
    pending_requests.wait(payload.transaction.id, waiter_for(payload, told))
    assert told == [TxAnswer(index=2, chain=second.chain)]


def test_a_lazy_one_is_answered_once_it_is_durable(pending_requests: PendingRequests) -> None:
    payload, lazy, usual = payload_of(1, b"a"), list[TxAnswer | Exception](), list[TxAnswer | Exception]()
    other = list[TxAnswer | Exception]()
    name = payload.transaction.id
    assert pending_requests.wait(name, waiter_for(payload, lazy, is_lazy=True))
    assert not pending_requests.wait(name, waiter_for(payload, usual))
    wrong = Waiter(body_hash=body_hash(b"other"), tell=other.append, is_lazy=True)
    assert not pending_requests.wait(name, wrong)
    assert [type(one) for one in other] == [KeyReused], "it would never be executed"
    assert lazy == usual == []
    pending_requests.durable(name)
    pending_requests.wait(name, waiter_for(payload, lazy, is_lazy=True))
    assert lazy == [TxAnswer(index=None, chain=b"")] * 2
    assert usual == []


def test_a_lazy_one_that_is_agreed_is_answered_at_once(log: Log, pending_requests: PendingRequests) -> None:
    payload, told = payload_of(1, b"a"), list[TxAnswer | Exception]()
    entry = agree(log, pending_requests, payload)
    pending_requests.wait(payload.transaction.id, waiter_for(payload, told, is_lazy=True))
    assert told == [TxAnswer(index=1, chain=entry.chain)]


class OneView:
    """What suspended transactions ask of an agreement."""

    def __init__(self) -> None:
        self.has_majority = True
        self.queue: set[bytes] = set()
        self.agreed: set[bytes] = set()

    def is_synchronised(self, transaction_id: bytes) -> bool:
        return transaction_id in self.agreed


def test_what_was_set_aside_is_submitted_again_where_that_stays(
    log: Log, pending_requests: PendingRequests
) -> None:
    payload, said, view = synchronous(1), list["Payload"](), OneView()
    entry = agree(log, pending_requests, payload)
    suspended = SuspendedTransactions(
        cast("Agreement", view),
        store=log.store,
        bodies=log.payloads,
        pending_requests=pending_requests,
        submit=said.append,
    )
    pending_requests.reject(1, SUSPENDED)
    assert suspended.first == 1
    suspended.tick(0, leads=True, is_whole=False)
    assert said == [], "its effect may give way, and it would run twice"
    suspended.tick(0, leads=False, is_whole=True)
    view.has_majority = False
    suspended.tick(0, leads=True, is_whole=True)
    assert said == []
    view.has_majority = True
    suspended.tick(0, leads=True, is_whole=True)
    suspended.tick(AGAIN_MS - 1, leads=True, is_whole=True)
    assert [one.transaction.id for one in said] == [resumed_id(entry.chain)]
    again = said[0].transaction
    assert again == resumed(payload, 1, entry.chain).transaction, "the same at all masters"
    pair = entry.pair._replace(id=again.id, digest=again.digest)
    assert (is_synchronous(pair), resumed_index(pair)) == (True, 1)
    view.agreed.add(again.id)
    suspended.tick(9 * AGAIN_MS, leads=True, is_whole=True)
    assert (len(said), suspended.first) == (1, 0)


def test_one_whose_payload_is_elsewhere_holds_up_nothing(log: Log, pending_requests: PendingRequests) -> None:
    agree(log, pending_requests, synchronous(1))
    pending_requests.reject(1, SUSPENDED)
    suspended = SuspendedTransactions(
        cast("Agreement", OneView()),
        store=log.store,
        bodies={},
        pending_requests=pending_requests,
        submit=lambda _: pytest.fail("there is none"),
    )
    suspended.tick(0, leads=True, is_whole=True)
    assert suspended.first == 0


def test_updates_are_refused_while_many_entries_wait_for_a_decision() -> None:
    admission = Admission(max_waiting=10)
    assert admission.refusal(1, queued=0, blocked=BLOCKED) is None
    refusal = admission.refusal(1, queued=0, blocked=BLOCKED + 1)
    assert refusal is not None
    assert "the alarm limbo-waits" in str(refusal)
