"""A worker whose effects are not taken: it shows nothing of them, and goes on when it is asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.broker import RenewableOutlet, last_records, why_full
from quadlog.worker.evaluate.publish_health import PublishHealth
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from tests.support.masters.outlets import Spout
from tests.support.masters.voices import configure, say, until
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.updates import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def outlet(kafka: str) -> Iterator[RenewableOutlet]:
    outlet = RenewableOutlet(kafka, client="test")
    yield outlet
    outlet.close()


COUNT = "DELETE { ?s <urn:n> ?n } INSERT { ?s <urn:n> ?m } WHERE { ?s <urn:n> ?n BIND(?n + 1 AS ?m) }"


def is_ahead(worker: Worker) -> bool:
    return worker.store.is_ahead


def test_what_was_not_taken_leaves_the_store_and_is_decided_again(tmp_path: Path) -> None:
    log, spout = Log(), Spout()
    publish_health = PublishHealth(spout, topic=TOPICS.effects, why=lambda: "")
    worker = Worker(tmp_path, log, "w1", publish_health=publish_health)
    worker.take_over()
    log.agree("INSERT DATA { <urn:s> <urn:n> 1 }")
    worker.catch_up()
    shown = state_of(worker)
    for _ in range(3):
        log.agree(COUNT)
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert is_ahead(worker), "decided, and not read back"
    lost = len(log.records[TOPICS.effects]) - worker._read[TOPICS.effects]
    assert lost == 3
    del log.records[TOPICS.effects][-lost:]
    spout.refusal = "a record was not taken"
    worker.replica._look_after_publishing()
    assert worker.replica.evaluator_term.evaluator is None
    assert not is_ahead(worker)
    assert state_of(worker) == shown
    beat = worker.replica.beat()
    assert (beat.evaluating, beat.applied.index) == (False, 1)
    assert beat.unsaid == "a record was not taken"
    worker.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    assert len(log.records[TOPICS.effects]) == worker._read[TOPICS.effects], "it is hoarse"
    publish_health._lost_at = float("-inf")
    worker.take_over()
    assert worker.store.applied.index == 4
    worker.close()


def test_a_fence_that_was_given_up_and_comes_late_begins_nothing(tmp_path: Path) -> None:
    """Its master was told that nobody evaluates here, and may have handed the duty on."""
    log, spout = Log(), Spout()
    publish_health = PublishHealth(spout, topic=TOPICS.effects, why=lambda: "")
    worker = Worker(tmp_path, log, "w1", publish_health=publish_health)
    worker.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    spout.refusal = "a record was not taken"
    worker.replica._look_after_publishing()
    worker.catch_up()
    assert not worker.replica.evaluator_term.has_duty
    worker.close()


# --- on a real broker -------------------------------------------------------------------------------


def test_a_refused_record_ends_nothing_and_after_a_renewal_records_are_taken(
    kafka: str, topic: str, outlet: RenewableOutlet
) -> None:
    say(outlet, topic, b"first")
    until(lambda: outlet.waits_since is None)
    configure(kafka, topic, "100")
    assert why_full(kafka, topic) == "max.message.bytes is 100, and 1000000 are needed"
    say(outlet, topic, b"x" * 1000)
    until(lambda: bool(outlet.refusal))
    assert "MSG_SIZE_TOO_LARGE" in outlet.refusal
    outlet.give_up()
    assert (outlet.waits_since, outlet.refusal) == (None, "")
    configure(kafka, topic, None)
    with outlet.together():
        say(outlet, topic, b"nowhere")
    outlet.renew()
    say(outlet, topic, b"last")
    until(lambda: outlet.waits_since is None)
    values = [record.value for record in last_records(kafka, topic, count=10, timeout=20)]
    assert values == [b"first", b"last"]
    assert why_full(kafka, topic) == ""
    assert why_full(kafka, "no.such.topic") == "there is no such topic"
