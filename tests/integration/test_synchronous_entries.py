"""What the evaluating worker does with synchronous transactions: nothing undecided is evaluated, or shown anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from producers.effects import EffectsMirror
from quadlog.core.cluster_settings import options_of
from quadlog.core.model import TransactionKind
from quadlog.core.records import Handover, Outcome
from quadlog.core.synchronous import ROLLED_BACK, SUSPENDED
from quadlog.worker.replica import backlog, synchrony
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.suspects import successor, until

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.core.records import LoggedEntry

COMMIT, ROLLBACK = TransactionKind.COMMIT, TransactionKind.ROLLBACK
IN_GRAPH = "INSERT DATA { GRAPH <urn:s> { <urn:a> <urn:p> 1 } }"


def insert(number: int) -> str:
    return f"INSERT DATA {{ <urn:a> <urn:p> {number} }}"


def outcomes(log: Log) -> list[Outcome]:
    return [effect.outcome for effect in log.effects()]


def test_nothing_from_an_undecided_one_on_is_evaluated(worker: Worker, log: Log) -> None:
    log.agree(insert(1))
    sync = log.synchronous(insert(2))
    log.agree(insert(3))
    worker.catch_up()
    assert (worker.store.applied.index, worker.store.applied.quads) == (1, 1)
    log.decide(COMMIT, sync)
    worker.catch_up()
    assert (worker.store.applied.index, worker.store.applied.quads) == (4, 3)
    assert outcomes(log) == [Outcome.APPLIED] * 4
    assert log.undecided() == [], "the masters know it from the log"


def test_what_is_rolled_back_changes_nothing_and_the_asynchronous_stays(worker: Worker, log: Log) -> None:
    log.synchronous(insert(1))
    log.agree(insert(2))
    last = log.synchronous(insert(3))
    log.decide(ROLLBACK, last)
    log.decide(COMMIT, last)
    worker.catch_up()
    assert outcomes(log) == [
        Outcome.ROLLED_BACK,
        Outcome.APPLIED,
        Outcome.ROLLED_BACK,
        Outcome.APPLIED,
        Outcome.APPLIED,
    ]
    assert [effect.reason for effect in log.effects()][:3] == [ROLLED_BACK, None, ROLLED_BACK]
    assert (worker.store.applied.index, worker.store.applied.quads) == (5, 1)


def test_a_follower_applies_the_same(tmp_path: Path, worker: Worker, log: Log) -> None:
    sync = log.synchronous(insert(1))
    log.decide(ROLLBACK, sync)
    other = log.synchronous(insert(2))
    log.decide(COMMIT, other)
    worker.catch_up()
    follower = Worker(tmp_path, log, "w2")
    follower.catch_up()
    assert follower.store.applied.index == 4
    assert follower.store.applied.signature == worker.store.applied.signature


def test_without_a_majority_all_are_set_aside_that_none_has_decided_before(tmp_path: Path, log: Log) -> None:
    worker = Worker(tmp_path, log, "w1")
    committed = log.synchronous(insert(1))
    log.decide(COMMIT, committed)
    late = log.synchronous(insert(2))
    log.epoch = 2
    log.decide(COMMIT, late)
    log.agree(insert(3))
    log.agree(IN_GRAPH)
    asked = EvaluateRequest(TERM, epoch=2, decides_to=1, suspends=True, sync_graphs=("urn:s",))
    EffectsMirror(log, TOPICS.effects, "m1").publish_handover(
        Handover(index=0, term=TERM, dc="dc1", epoch=2), at=0
    )
    worker.hear(TOPICS.effects)
    worker.replica.evaluator_term.take_over(asked)
    worker.catch_up()
    applied, suspended = Outcome.APPLIED, Outcome.SUSPENDED
    assert outcomes(log) == [applied, applied, suspended, applied, applied, suspended]
    assert {effect.reason for effect in log.effects()} == {SUSPENDED, None}
    assert worker.store.applied.quads == 2


def test_an_old_evaluator_does_not_act_on_decisions_of_a_later_view(worker: Worker, log: Log) -> None:
    sync = log.synchronous(insert(1))
    log.epoch = 2
    log.decide(COMMIT, sync)
    worker.catch_up()
    assert worker.store.applied.index == 0


@pytest.mark.parametrize(
    "text",
    [
        IN_GRAPH,
        "INSERT { GRAPH <urn:s> { ?s ?p 2 } } WHERE { ?s ?p 1 }",
        "CREATE GRAPH <urn:s>",
        "COPY DEFAULT TO <urn:s>",
    ],
)
def test_an_effect_may_show_that_a_transaction_is_synchronous(
    tmp_path: Path, log: Log, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(tmp_path, log, "w1")
    worker.take_over(sync_graphs=("urn:s",))
    log.agree(insert(1))
    sync = log.agree(text)
    log.agree("INSERT { <urn:b> ?p ?o } WHERE { ?s ?p ?o }")
    worker.catch_up()
    assert worker.store.applied.index == 1
    reported = log.undecided()
    assert {(one.index, one.entry_chain, one.id) for one in reported} == {(2, sync.chain, sync.id)}
    monkeypatch.setattr(synchrony, "AGAIN_MS", 0.0)
    worker.replica._evaluate()
    assert len(log.undecided()) > len(reported), "a master that was started again hears it, too"
    log.decide(COMMIT, sync)
    worker.catch_up()
    assert outcomes(log) == [Outcome.APPLIED] * 4
    marked = [
        r.header("index") for r in log.records[TOPICS.effects] if r.header("synchronous") == b"by-effect"
    ]
    assert marked == [b"2"], "masters tell clients so"
    assert worker.store.recount()[0] == worker.store.applied.signature


@pytest.mark.parametrize("before", ["", "INSERT DATA { <urn:c> <urn:p> 1 } ; "])
def test_one_that_is_synchronous_by_its_effect_is_rolled_back_like_others(
    tmp_path: Path, log: Log, before: str
) -> None:
    worker = Worker(tmp_path, log, "w1")
    worker.take_over(sync_graphs=("urn:s",))
    log.agree(insert(1))
    sync = log.agree(f"{before}INSERT {{ GRAPH <urn:s> {{ ?s ?p 2 }} }} WHERE {{ ?s ?p 1 }}")
    log.agree("INSERT { <urn:b> ?p ?o } WHERE { ?s ?p ?o }")
    worker.catch_up()
    assert not worker.store.is_ahead, "what it would do is in no store meanwhile"
    log.decide(ROLLBACK, sync)
    worker.catch_up()
    assert outcomes(log)[1] is Outcome.ROLLED_BACK
    assert worker.store.applied.quads == 2
    assert worker.store.recount()[0] == worker.store.applied.signature


@pytest.mark.parametrize(
    "text",
    [
        "INSERT { ?s <urn:q> 1 } WHERE { GRAPH <urn:s> { ?s ?p ?o } }",
        "INSERT DATA { GRAPH <urn:other> { <urn:a> <urn:p> 1 } }",
        "DELETE DATA { GRAPH <urn:s> { <urn:a> <urn:p> 7 } }",
    ],
)
def test_reading_a_graph_or_changing_nothing_in_it_is_asynchronous(
    tmp_path: Path, log: Log, text: str
) -> None:
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    log.agree(IN_GRAPH)
    log.agree("", options=options_of("sync-graphs", "urn:s", by=""), kind=TransactionKind.CONFIG)
    log.agree(text)
    worker.catch_up()
    assert worker.store.applied.index == 3


def test_the_setting_counts_from_its_entry_on(tmp_path: Path, log: Log) -> None:
    worker = Worker(tmp_path, log, "w1")
    worker.take_over(sync_graphs=("default",))
    log.agree(IN_GRAPH)
    log.agree("", options=options_of("sync-graphs", "urn:s", by=""), kind=TransactionKind.CONFIG)
    log.agree(insert(1))
    log.agree(IN_GRAPH.replace("1 }", "2 }"))
    worker.catch_up()
    assert worker.store.applied.index == 3
    assert {one.index for one in log.undecided()} == {4}


def test_a_suspect_waits_for_its_decision_too(tmp_path: Path, log: Log) -> None:
    """Who takes over tries entries without effects in another process; that knows nothing of decisions."""
    worker = successor(tmp_path, log, insert(1), sync_graphs=("urn:s",))
    first = log.agree(IN_GRAPH)
    log.agree(insert(2))
    worker.hear(TOPICS.agreed)
    until(worker, lambda: bool(log.undecided()))
    log.decide(ROLLBACK, first)
    worker.hear(TOPICS.agreed)
    until(worker, lambda: worker.store.applied.index == first.index + 2)
    assert outcomes(log)[first.index - 1] is Outcome.ROLLED_BACK
    assert worker.store.recount()[0] == worker.store.applied.signature


def test_a_full_backlog_does_not_hide_the_decision(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "WAITING", 10)
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()

    def hear() -> None:
        """As the tail does: not while the topic is to wait."""
        while worker._read[TOPICS.agreed] < len(log.records[TOPICS.agreed]):
            if TOPICS.agreed in worker.replica.full():
                return
            worker.hear(TOPICS.agreed, most=1)
            worker.replica._following.apply()

    sync: LoggedEntry = log.synchronous(insert(0))
    for number in range(1, 30):
        log.agree(insert(number))
    log.decide(COMMIT, sync)
    hear()
    assert worker._read[TOPICS.agreed] == len(log.records[TOPICS.agreed])
    worker.turn()
    worker.catch_up()
    assert worker.store.applied.quads == 30


def test_a_cut_takes_a_decision_back(tmp_path: Path, log: Log) -> None:
    worker = Worker(tmp_path, log, "w1")
    sync = log.synchronous(insert(1))
    log.decide(COMMIT, sync)
    worker.hear(TOPICS.agreed)
    waiting = worker.replica._counted_records.backlog
    decision = waiting.decision_on(sync)
    assert decision is not None
    waiting.truncate(sync.index)
    assert waiting.decision_on(sync) is None
