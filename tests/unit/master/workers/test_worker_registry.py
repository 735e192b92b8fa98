"""Who is asked first: the least busy, then not the one that evaluates, then each in turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from quadlog.core.records import Heartbeat, WorkerState
from quadlog.master.workers.worker_registry import ASK_AGAIN_MS, SINK_MS, Worker, WorkerRegistry
from tests.support.masters.beats import beat

TIMEOUT = 2000.0


def crew_of(*beats: Heartbeat) -> WorkerRegistry:
    worker_registry = WorkerRegistry(timeout_ms=TIMEOUT)
    for one in beats:
        worker_registry.on_heartbeat(one, 0)
    return worker_registry


def names(workers: list[Worker]) -> str:
    return " ".join(worker.beat.worker for worker in workers)


def test_least_busy_then_not_evaluating() -> None:
    worker_registry = crew_of(beat("a", evaluating=True), beat("b"), beat("c"))
    assert names(worker_registry.for_read(0, 0)) == "b c a"
    worker_registry.all()[1].reading = 1
    assert names(worker_registry.for_read(0, 0)) == "c a b"


def test_equals_take_turns() -> None:
    worker_registry, numbers = crew_of(beat("a"), beat("b"), beat("c")), count(1)
    asked = ""
    for _ in range(6):
        worker = worker_registry.for_read(0, 0)[0]
        worker.asked_last = next(numbers)
        asked += worker.beat.worker
    assert asked == "abcabc"


def test_one_out_of_reach_sinks_for_a_while() -> None:
    worker_registry = crew_of(beat("a"), beat("b"))
    first, second = worker_registry.all()
    first.failed_at, second.reading = 0, 5
    assert names(worker_registry.for_read(1, 0)) == "b a"
    for one in (beat("a"), beat("b")):  # heartbeats alone do not lift it: they come another way
        worker_registry.on_heartbeat(one, SINK_MS)
    assert names(worker_registry.for_read(SINK_MS - 1, 0)) == "b a"
    assert names(worker_registry.for_read(SINK_MS, 0)) == "a b"


def test_why_not() -> None:
    worker_registry = crew_of(beat("a"), beat("b", index=7), beat("c", index=9, state=WorkerState.STOPPING))
    worker_registry.on_heartbeat(beat("b", index=7), 1500)
    assert worker_registry.for_read(2500, 9) == []
    assert [worker_registry.why_not(worker, 2500, 9) for worker in worker_registry.all()] == [
        "is down: last heard of 2.5 s ago",
        "is at index 7, behind 9",
        "is stopping",
    ]
    assert [worker_registry.silent_in(worker, 2500) for worker in worker_registry.all()] == [-500, 1000, -500]


def test_a_worker_is_asked_to_evaluate_once_a_while_in_each_term() -> None:
    worker_registry = crew_of(beat("a", index=3), beat("b", index=4))
    asked = [
        worker_registry.to_appoint(moment, term) for moment, term in ((0, b"one"), (ASK_AGAIN_MS - 1, b"one"))
    ]
    assert [worker and worker.beat.worker for worker in asked] == ["b", None]
    again = [worker_registry.to_appoint(moment, b"two") for moment in (1, 2, ASK_AGAIN_MS, 1 + ASK_AGAIN_MS)]
    assert [worker and worker.beat.worker for worker in again] == ["b", None, None, "b"]


def test_it_is_news_who_begins_and_who_ends_to_evaluate() -> None:
    worker_registry = crew_of(beat("a"), beat("b", evaluating=True))
    said = [beat("a"), beat("a", evaluating=True), beat("a", evaluating=True), beat("b"), beat("c")]
    assert [worker_registry.on_heartbeat(one, 1) for one in said] == [False, True, False, True, False]
    assert worker_registry.on_heartbeat(beat("d", evaluating=True), 1)


def test_who_was_not_heard_is_asked_to_evaluate_if_nobody_else_is_there() -> None:
    """Its effects topic took nothing of it: another worker's way may be free."""
    one = replace(beat("a", index=4), unsaid="nothing was taken")
    both = crew_of(one, beat("b", index=3)).to_appoint(0, b"term")
    alone = crew_of(one).to_appoint(0, b"term")
    assert [worker and worker.beat.worker for worker in (both, alone)] == ["b", "a"]
