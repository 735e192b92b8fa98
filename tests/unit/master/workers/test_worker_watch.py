"""What the watch tells of workers that are not there, not in time, or not right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from consumers.effects_ledger import EffectsLedger
from quadlog.codec.envelope import text_id
from quadlog.core.messages import Now
from quadlog.core.model import GENESIS, LogPosition
from quadlog.core.records import CatchUpProgress, Effect, Heartbeat, Outcome, Scrub, WorkerState
from quadlog.master.workers.worker_registry import Divergence, ProbeResult, Worker, WorkerRegistry
from quadlog.master.workers.worker_watch import KNOCK_MS, LOOK_MS, MEND_MS, SOW_MS, WorkerActions, WorkerWatch
from tests.support.agreement.topics import effects_topic, fence, seed, topic_with
from tests.support.masters.watched import beat, state

if TYPE_CHECKING:
    from quadlog.ports import Record

TIMEOUT, LAG = 2000.0, 3000.0


def effect(index: int, *, lines: int = 1) -> Effect:
    return Effect(
        index=index,
        id=bytes([index]) * 16,
        entry_chain=state(100 + index),
        term=GENESIS,
        attempt=1,
        outcome=Outcome.APPLIED,
        inserted=tuple(f'<urn:s> <urn:p> "{number} {"x" * 300}" .' for number in range(lines)),
        quads=index,
        signature_before=state(index - 1),
        signature_after=state(index),
        chain=GENESIS,
    )


class Cluster:
    """A watch over workers, and what it asked for."""

    def __init__(self, *effects: Effect) -> None:
        self.worker_registry = WorkerRegistry(timeout_ms=TIMEOUT)
        self.ledger = EffectsLedger()
        self.knocked: list[str] = []
        self.mended: list[str] = []
        self.sown: list[Worker] = []
        self.watch = WorkerWatch(
            self.worker_registry,
            self.ledger,
            WorkerActions(knock=self.knock, mend=self.mend, sow=self.sown.append),
            max_lag_ms=LAG,
        )
        self.now = 0.0
        self.agreed = 0
        self.hear(*effects)

    def knock(self, worker: Worker) -> None:
        self.knocked.append(worker.beat.worker)

    def mend(self, worker: Worker, wrong: Divergence) -> None:
        self.mended.append(f"{worker.beat.worker} {wrong.store}")

    def hear(self, *effects: Effect) -> None:
        records: list[Record] = effects_topic(fence(1), *effects)
        for record in records:
            self.ledger.on_record(record)
        self.agreed = max(self.agreed, self.ledger.index)

    def beat(self, *beats: Heartbeat) -> None:
        for one in beats:
            self.worker_registry.on_heartbeat(one, self.now)
        self.watch.compare()

    def alarms(self, after: float = LOOK_MS, *, leads: bool = True) -> list[str]:
        """Names, workers and indexes once so many milliseconds have passed."""
        self.now += after
        self.watch.compare()
        self.watch.check(Now(self.now, int(self.now)), agreed=self.agreed, leads=leads)
        return [f"{a.trouble.name} {a.trouble.worker} {a.trouble.index}" for a in self.watch.alarms.all()]

    def run(self, seconds: float, *beats: Heartbeat) -> list[str]:
        """Workers that say the same all the time."""
        found: list[str] = []
        for _ in range(int(seconds * 4)):
            self.beat(*beats)
            found = self.alarms()
        return found


def test_equal_states_are_no_news() -> None:
    cluster = Cluster(effect(1), effect(2))
    assert cluster.run(10, beat("a", 2), beat("b", 2)) == []
    assert cluster.knocked == cluster.mended == []


@pytest.mark.parametrize("wrong", [
    beat("a", 2, signature=9),
    beat("a", 1, signature=9),  # also behind the others
    beat("a", 0, signature=9),  # and before anything was applied
    replace(beat("a", 2), applied=LogPosition(2, state(9))),
])  # fmt: skip
def test_who_contradicts_the_effect_is_quarantined(wrong: Heartbeat) -> None:
    cluster = Cluster(effect(1), effect(2))
    cluster.beat(wrong, beat("b", 1))
    index = wrong.applied.index
    assert cluster.alarms() == [f"worker-diverged a {index}"]
    assert [worker.beat.worker for worker in cluster.worker_registry.for_read(cluster.now, 0)] == ["b"]
    assert cluster.worker_registry.applied() == 1
    told = cluster.watch.alarms.all()[0].as_json()
    assert told["transaction"] == (text_id(bytes([index]) * 16) if index else None)
    assert told["since"] == "1970-01-01T00:00:00.250Z"
    assert "rebuilt" in told["what_to_do"]
    [one, _] = cluster.worker_registry.all()
    assert cluster.worker_registry.state(one, cluster.now) == "quarantined"
    assert "quarantined" in cluster.worker_registry.why_not(one, cluster.now, 0)


def test_of_two_workers_the_odd_one_protects_and_of_three_none() -> None:
    cluster = Cluster(effect(1), effect(2))
    cluster.beat(beat("a", 2))
    cluster.beat(beat("b", 2, signature=9))
    assert cluster.alarms() == ["worker-diverged b 2"]
    odd = cluster.worker_registry.odd_one
    assert odd is not None
    assert odd.beat.worker == "b"
    cluster.beat(beat("c", 2))
    assert cluster.worker_registry.odd_one is None, "two are left that prove each other"


def test_a_heartbeat_may_come_before_its_effect() -> None:
    cluster = Cluster(effect(1))
    cluster.beat(beat("a", 2, signature=9), beat("b", 2))
    assert cluster.alarms() == []
    cluster.hear(effect(2))
    assert cluster.alarms() == ["worker-diverged a 2"]


def test_a_large_effect_counts_too() -> None:
    cluster = Cluster(effect(1, lines=2500))
    cluster.beat(beat("a", 1, signature=9), beat("b", 1))
    assert cluster.alarms() == ["worker-diverged a 1"]


def test_what_is_forgotten_is_not_guessed() -> None:
    cluster = Cluster()
    cluster.ledger.index = 7  # as after a start
    cluster.beat(beat("a", 7, signature=9))
    assert cluster.alarms() == []
    cluster.ledger.recall(effects_topic(fence(1), effect(6), effect(7), effect(8)))
    assert cluster.alarms() == ["worker-diverged a 7"]
    assert cluster.ledger.state_after(8) is None


def test_a_wrong_worker_does_not_evaluate() -> None:
    cluster = Cluster(effect(1))
    cluster.beat(replace(beat("a", 1, signature=9), evaluating=True), beat("b", 0))
    appointed = cluster.worker_registry.to_appoint(cluster.now, b"t")
    assert appointed is not None
    assert appointed.beat.worker == "b"


def test_only_a_store_made_anew_ends_the_quarantine() -> None:
    cluster = Cluster(effect(1), effect(2))
    cluster.beat(beat("a", 2, signature=9), beat("b", 2))
    cluster.hear(effect(3))
    assert cluster.run(1, beat("a", 3), beat("b", 3)) == ["worker-diverged a 2"]  # right again, by chance
    assert cluster.run(1, beat("a", 1, store="second"), beat("b", 3)) == ["worker-diverged a 2"]
    assert "index 1 of 2" in cluster.watch.alarms.all()[0].trouble.reason
    assert cluster.run(1, beat("a", 2, store="second"), beat("b", 3)) == []


def test_a_new_store_may_be_wrong_too() -> None:
    cluster = Cluster(effect(1), effect(2))
    cluster.beat(beat("a", 2, signature=9))
    assert cluster.alarms() == ["worker-diverged a 2"]
    cluster.beat(beat("a", 1, signature=9, store="second"))
    assert cluster.alarms() == ["worker-diverged a 1"]
    assert cluster.mended == ["a first", "a second"]


def test_one_leads_and_asks_for_the_rebuild_now_and_then() -> None:
    cluster = Cluster(effect(1))
    cluster.beat(beat("a", 1, signature=9))
    cluster.alarms(leads=False)
    assert cluster.mended == []
    cluster.run(MEND_MS / 1000 * 1.5, beat("a", 1))
    assert cluster.mended == ["a first"] * 2
    cluster.run(MEND_MS / 1000 * 1.5, beat("a", 0, store="second"))
    assert cluster.mended == ["a first"] * 2


def test_why_it_cannot_be_rebuilt_is_told() -> None:
    cluster = Cluster(effect(1))
    cluster.beat(replace(beat("a", 1, signature=9), mend="the beginning of the log is gone"))
    cluster.alarms()
    advice = cluster.watch.alarms.all()[0].as_json()["what_to_do"]
    assert "the beginning of the log is gone" in advice
    assert "remove its data-dir" in advice


def test_what_was_set_aside_is_told_until_it_is_removed() -> None:
    cluster = Cluster(effect(1), effect(2))
    aside = replace(beat("a", 2), set_aside="/d/quads.damaged-1 was set aside: Corruption in 000014.sst")
    assert cluster.run(1, aside) == ["store-set-aside a 2"]
    told = cluster.watch.alarms.all()[0].as_json()
    assert told["reason"] == aside.set_aside
    assert "remove it" in told["what_to_do"]
    assert cluster.run(1, beat("a", 2)) == []


def scrubbed(index: int, found: int, expected: int) -> Scrub:
    return Scrub(index=index, at=0, expected=state(expected), found=state(found), quads=3)


def test_what_a_scrub_found() -> None:
    cluster = Cluster(effect(1), effect(2))
    clean = replace(beat("a", 2), scrub=scrubbed(1, 1, 1))
    assert cluster.run(1, clean) == []
    damaged = replace(beat("a", 2), scrub=scrubbed(1, 9, 1))
    assert cluster.run(1, damaged) == ["worker-damaged a 1"]
    assert cluster.run(1, clean) == ["worker-damaged a 1"]
    # The effect has the last word, where it is remembered; else what the worker itself applied.
    other = Cluster(effect(1), effect(2))
    assert other.run(1, replace(beat("a", 2), scrub=scrubbed(1, 9, 9))) == ["worker-damaged a 1"]
    assert other.run(1, replace(beat("b", 2), scrub=scrubbed(7, 9, 9))) == ["worker-damaged a 1"]
    assert other.run(1, replace(beat("b", 2), scrub=scrubbed(7, 8, 9))) == [
        "worker-damaged a 1",
        "worker-damaged b 7",
    ]


def test_a_scrub_that_fails_is_told_and_harmless() -> None:
    cluster = Cluster(effect(1))
    assert cluster.run(1, replace(beat("a", 1), scrub_failure="no space")) == ["worker-unscrubbed a 0"]
    assert len(cluster.worker_registry.for_read(cluster.now, 1)) == 1
    assert cluster.run(1, beat("a", 1)) == []


@pytest.mark.parametrize(("door", "name"), [
    (ProbeResult.REFUSED, "worker-dead"), (ProbeResult.HANGS, "worker-hung"), (ProbeResult.ANSWERS, "worker-unheard"),
])  # fmt: skip
def test_a_silent_worker_is_knocked_at(door: ProbeResult, name: str) -> None:
    cluster = Cluster(effect(1))
    cluster.beat(beat("a", 1), beat("b", 1))
    while cluster.now < TIMEOUT - LOOK_MS:
        cluster.beat(beat("b", 1))
        assert cluster.alarms() == []
    assert cluster.knocked == []
    cluster.run(KNOCK_MS / 1000, beat("b", 1))
    assert set(cluster.knocked) == {"a"}
    cluster.worker_registry.all()[0].door = door
    assert cluster.run(0.25, beat("b", 1)) == [f"{name} a 1"]
    assert len(cluster.knocked) <= 3
    assert cluster.run(0.25, beat("a", 1), beat("b", 1)) == []


def test_who_said_that_it_stops() -> None:
    cluster = Cluster(effect(1))
    cluster.beat(replace(beat("a", 1), state=WorkerState.STOPPING))
    assert cluster.alarms() == ["worker-stopped a 1"]
    assert cluster.knocked == []


def test_who_lags_is_told_and_who_catches_up_is_not() -> None:
    cluster = Cluster(effect(1))
    cluster.run(5, beat("a", 1), beat("b", 1))
    cluster.hear(effect(2))
    assert cluster.run(LAG / 1000 - 0.25, beat("a", 2), beat("b", 1)) == []
    assert cluster.run(1, beat("a", 2), beat("b", 1)) == ["worker-lagging b 1"]
    assert cluster.run(0.25, beat("a", 2), beat("b", 2)) == []


def test_who_is_always_a_little_behind_does_not_lag() -> None:
    cluster = Cluster(effect(1))
    for index in range(2, 40):
        cluster.hear(effect(index))
        assert cluster.run(0.5, beat("a", index - 1)) == []


def test_entries_without_effects_are_told() -> None:
    cluster = Cluster(effect(1))
    cluster.run(5, beat("a", 1))
    cluster.agreed = 3
    assert cluster.run(LAG / 1000 - 0.25, beat("a", 1)) == []
    assert cluster.run(1, beat("a", 1)) == ["entries-undecided None 2"]
    cluster.hear(effect(2), effect(3))
    assert cluster.run(1, beat("a", 3)) == []


def catching_up(worker: str, index: int, way: CatchUpProgress) -> Heartbeat:
    return replace(beat(worker, index), state=WorkerState.STARTING, catching_up=way)


def test_who_catches_up_before_it_serves_is_there_and_behind() -> None:
    """Neither dead nor hung, as long as it says so; no read goes to it."""
    cluster = Cluster(effect(1), effect(2), effect(3))
    way = CatchUpProgress(way="full", behind=2, percent=40, left_s=90)
    found = cluster.run(2 * LAG / 1000, beat("a", 3), catching_up("b", 1, way))
    assert found == ["worker-lagging b 1"]
    assert cluster.watch.alarms.all()[0].trouble.reason.endswith(
        "it catches up: full, 40 %, about 90 s to go"
    )
    assert [worker.beat.worker for worker in cluster.worker_registry.for_read(cluster.now, 0)] == ["a"]
    [_, one] = cluster.worker_registry.all()
    assert cluster.worker_registry.state(one, cluster.now) == "catching up"
    assert cluster.worker_registry.why_not(one, cluster.now, 0) == "catches up (full, 40 %, about 90 s to go)"
    assert not cluster.knocked
    cluster.run(TIMEOUT / 1000 + 1, beat("a", 3))
    assert set(cluster.knocked) == {"b"}
    assert cluster.worker_registry.state(one, cluster.now) == "down"


def test_workers_that_cannot_go_on_are_told_once_for_each_reason() -> None:
    """To the clients whose writes are refused meanwhile."""
    cluster = Cluster(effect(1))
    stuck = CatchUpProgress(way="full", behind=1, percent=0, left_s=None, obstacle="nobody gives a copy")
    goes_on = CatchUpProgress(way="full", behind=1, percent=9, left_s=None)
    cluster.run(
        1, *(catching_up(name, 0, stuck) for name in "ab"), catching_up("c", 0, goes_on), beat("d", 1)
    )
    assert cluster.worker_registry.obstacles(cluster.now) == [
        "a, b catches up (full, but nobody gives a copy)"
    ]
    assert cluster.worker_registry.obstacles(cluster.now + TIMEOUT + 1000) == []


def test_who_catches_up_without_anything_does_not_wait_for_the_seed() -> None:
    cluster = sown(replace(effect(1), signature_before=state(9)))
    way = CatchUpProgress(way="full", behind=1, percent=0, left_s=None, obstacle="nobody gives a copy")
    found = cluster.run(2 * LAG / 1000, beat("a", 1), catching_up("b", 0, way))
    assert found == ["worker-lagging b 0"]
    assert "full, but nobody gives a copy" in cluster.watch.alarms.all()[0].trouble.reason
    assert not cluster.sown


# --- seeds ----------------------------------------------------------------------------------------------


def sown(*effects: Effect) -> Cluster:
    """A cluster whose log begins with the seed of signature 9."""
    cluster = Cluster()
    for record in topic_with(replace(seed(), signature=state(9))):
        cluster.ledger.on_record(record)
    cluster.worker_registry.seed = state(9)
    cluster.hear(*effects)
    return cluster


def waiting(worker: str) -> Heartbeat:
    return replace(beat(worker, 0), state=WorkerState.STARTING, mend="it lacks the seed")


def test_who_has_the_seed_is_right_and_who_has_not_heard_of_it_is_not_served() -> None:
    cluster = sown()
    assert cluster.run(5, beat("a", 0, signature=9), beat("b", 0)) == []
    assert [worker.beat.worker for worker in cluster.worker_registry.for_read(cluster.now, 0)] == ["a"]
    assert not cluster.mended
    assert not cluster.sown


def test_the_seed_is_brought_to_who_waits_for_it() -> None:
    cluster = sown()
    assert cluster.run(SOW_MS / 1000 - 1, beat("a", 0, signature=9), waiting("b")) == ["worker-unseeded b 0"]
    assert [worker.beat.worker for worker in cluster.sown] == ["b"]
    [_, lacking] = cluster.worker_registry.all()
    assert cluster.worker_registry.state(lacking, cluster.now) == "starting"
    assert "lacks the seed" in cluster.worker_registry.why_not(lacking, cluster.now, 0)
    cluster.run(5, beat("a", 0, signature=9), waiting("b"))
    assert len(cluster.sown) == 2
    assert cluster.run(1, beat("a", 0, signature=9), beat("b", 0, signature=9)) == []


def test_a_scrub_of_the_empty_store_is_not_held_against_the_seed() -> None:
    cluster = sown()
    empty = Scrub(index=0, at=0, expected=state(0), found=state(0), quads=0)
    assert (
        cluster.run(1, replace(beat("a", 0), scrub=empty), replace(waiting("b"), scrub=empty, mend="")) == []
    )
    damaged = replace(empty, expected=state(9), found=state(8))
    assert cluster.run(1, replace(beat("a", 0, signature=9), scrub=damaged)) == ["worker-damaged a 0"]


def test_a_worker_that_hears_of_the_seed_before_its_master_is_not_wrong() -> None:
    cluster = Cluster()
    assert cluster.run(2, beat("a", 0, signature=9)) == []
    assert cluster.mended == []


def test_a_worker_that_begins_with_something_else_than_the_log_is_never_served() -> None:
    on_seed = replace(effect(1), signature_before=state(9))
    cluster = sown(on_seed)
    cluster.run(2, beat("a", 1), beat("b", 0, signature=8))
    assert [worker.beat.worker for worker in cluster.worker_registry.live(cluster.now)] == ["a"]


def test_a_worker_that_is_not_heard_is_told_with_its_reason_while_it_serves() -> None:
    cluster = Cluster(effect(1), effect(2))
    unsaid = replace(beat("a", 2), unsaid="main.dc1.effects has taken nothing for 1.0 s")
    assert cluster.run(1, unsaid, beat("b", 2)) == ["effects-topic-full a 2"]
    told = cluster.watch.alarms.all()[0].as_json()
    assert told["reason"] == unsaid.unsaid
    assert "min.insync.replicas" in told["what_to_do"]
    assert [worker.beat.worker for worker in cluster.worker_registry.for_read(cluster.now, 2)] == ["a", "b"]
    assert cluster.run(1, beat("a", 2), beat("b", 2)) == []


def test_a_worker_that_keeps_a_branch_takes_no_part_and_is_not_rebuilt() -> None:
    """Whatever it contradicts: an operator decides."""
    cluster = Cluster(effect(1), effect(2))
    kept = replace(beat("a", 2, signature=9), fork=1)
    found = cluster.run(20, kept, beat("b", 1))
    assert found == ["worker-diverged a 1", "worker-lagging b 1"]
    assert cluster.mended == []
    registry = cluster.worker_registry
    assert [worker.beat.worker for worker in registry.live(cluster.now)] == ["b"]
    assert registry.applied() == 1
    assert registry.odd_one is None
    [one, _] = registry.all()
    assert registry.state(one, cluster.now) == "diverged"
    assert registry.why_not(one, cluster.now, 0).startswith("keeps the branch after entry 1: read that at ")
    told = cluster.watch.alarms.all()[0].as_json()
    assert "quadlog worker rebuild a --at MASTER" in told["what_to_do"]
    cluster.beat(replace(kept, mend="the log is gone"))
    cluster.alarms()
    assert cluster.watch.alarms.all()[0].trouble.reason.endswith("it was not rebuilt: the log is gone")
    assert "worker-diverged a 1" not in cluster.run(1, beat("a", 2, store="second"))
