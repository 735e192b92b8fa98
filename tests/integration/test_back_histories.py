"""Entries and effects of two histories beside each other: only what belongs together counts, in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from producers.agreed import AgreedProducer
from producers.effects import EffectsMirror, EffectsProducer
from quadlog.codec.envelope import EPOCH
from quadlog.core.records import Fence, Handover, Outcome
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.sides import (
    COMMON,
    EPOCH_2,
    OURS,
    THEIRS,
    Split,
    agreed,
    copy_of,
    fork_of,
    say,
    whole_of,
    write_cut,
    write_handover,
    write_rewind,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_an_entry_that_one_side_rejected_is_what_the_other_side_made_of_it(split: Split) -> None:
    """One entry, two effects: the states fork before the logs do."""
    log = Log()
    a = Worker(split.path, log, "x")
    a.take_over()
    say(log, a, COMMON)
    other = copy_of(log)
    b = Worker(split.path, other, "y")
    b.catch_up()
    b.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    b.catch_up()
    same_text = "INSERT DATA { <urn:both> a 1 }"
    say(log, a, [same_text, OURS[0]])
    entry = other.agree(same_text)
    b.hear(TOPICS.agreed)
    assert b.replica.evaluator_term.evaluator is not None
    b.replica.evaluator_term.evaluator.reject(entry, "it ended its evaluator")
    say(other, b, ["INSERT DATA { <urn:after> a 1 }"])
    assert fork_of(log, other) == entry
    write_cut(log, other)
    write_rewind(log, other, len(COMMON))
    for first in (TOPICS.effects, TOPICS.agreed):
        worker = Worker(split.path, log, f"z-{first}")
        worker.hear(TOPICS.agreed, 4)
        worker.hear(TOPICS.effects, 5)
        worker.turn()
        assert worker.store.applied.index == len(COMMON) + 2
        worker.hear(first)
        worker.catch_up()
        assert whole_of(worker) == whole_of(b)
        worker.close()
    outcomes = [effect.outcome for effect in other.effects()]
    assert outcomes == [Outcome.APPLIED, Outcome.APPLIED, Outcome.REJECTED, Outcome.APPLIED]


def test_a_zombies_records_behind_are_void(split: Split) -> None:
    """The old evaluator and the old master wake up in the middle of what follows."""
    log = split.ours
    split.give_way()
    zombie = EffectsProducer(log, TOPICS.effects, "z", "dc1")
    zombie.publish_fence(Fence(term=TERM, attempt=9, worker="z"), at=0)
    ours = [effect for effect in copy_of(log).effects() if effect.attempt == 1]
    for effect in ours:
        zombie.publish(effect, at=0)
    late = agreed(log)[split.fork : split.fork + len(OURS)]
    for entry in late:
        AgreedProducer(log, TOPICS.agreed, "m2").publish(entry, lambda _: None)
    EffectsMirror(log, TOPICS.effects, "m2").publish_handover(
        Handover(index=9, term=b"x" * 32, dc="dc1"), at=0
    )
    say(split.theirs, split.b, ["INSERT DATA { <urn:s> <urn:n> 3 }"])
    more = agreed(split.theirs)[-1]
    AgreedProducer(log, TOPICS.agreed, "m1").publish(replace(more, epoch=EPOCH_2), lambda _: None)
    record = split.theirs.records[TOPICS.effects][-1]
    log.produce(
        TOPICS.effects, key=record.key, values=[record.value], headers=[*record.headers, (EPOCH, b"2")]
    )
    split.a.catch_up()
    assert whole_of(split.a) == whole_of(split.b)
    assert split.a.replica.void_effects()["old epoch"] >= len(ours) + 2
    split.a.close()
    started_again = Worker(split.path, log, "a")
    zombie.publish_fence(Fence(term=TERM, attempt=10, worker="z"), at=0)
    started_again.catch_up()
    assert started_again.replica.void_effects() == {"old epoch": 1}
    assert whole_of(started_again) == whole_of(split.b)
    again = Worker(split.path, log, "again")
    again.catch_up()
    assert whole_of(again) == whole_of(split.b)


def test_entries_that_come_back_are_those_that_were_heard(tmp_path: Path) -> None:
    """Between them stand late copies of a branch that was cut; whether it is started again meanwhile, or not."""
    split = Split(tmp_path, COMMON, OURS, THEIRS)
    log, late = copy_of(split.ours), agreed(split.ours)[split.fork - 1 :]
    write_cut(split.ours, split.theirs)
    cut, *new = split.ours.records[TOPICS.agreed][len(log.records[TOPICS.agreed]) :]
    for record in (cut, *new):
        log.produce(TOPICS.agreed, key=record.key, values=[record.value], headers=[])
        for entry in late:
            AgreedProducer(log, TOPICS.agreed, "m2").publish(entry, lambda _: None)
    write_rewind(log, split.theirs, split.fork)
    names = ("goes-on", "starts-again")
    workers = {name: Worker(tmp_path, log, name) for name in names}
    for worker in workers.values():
        worker.catch_up()
        assert whole_of(worker) == whole_of(split.b)
    write_rewind(log, split.theirs, 1, epoch=3)
    for name, worker in workers.items():
        worker.hear(TOPICS.effects, 1)
        assert worker.store.applied.index == 1
        if name == "starts-again":
            worker.close()
            workers[name] = Worker(tmp_path, log, name)
    write_cut(log, split.theirs, epoch=3)
    for worker in workers.values():
        worker.catch_up()
        assert whole_of(worker) == whole_of(split.b)


def test_only_entries_of_the_log_that_there_is_now_wait_again(split: Split) -> None:
    """The branch may be long: it is not read into memory for the cut to drop it."""
    a = split.a
    split.give_way(1)
    a.hear(TOPICS.effects)
    a.turn()
    rewind = [record.key for record in split.ours.records[TOPICS.effects]].index(b"rewind")
    assert (a.store.applied.index, a.store.applied.effects_offset) == (1, rewind + 1)
    assert a.replica._counted_records.backlog.has_effects
    assert a.replica._counted_records.backlog.first_entry is None
    a.hear(TOPICS.agreed)
    a.replica._returning.take_up()
    assert list(a.replica._counted_records.backlog.behind(a.store.applied.point)) == [
        replace(entry, epoch=1 if entry.index <= split.fork else EPOCH_2)
        for entry in agreed(split.theirs)[1:]
    ]
    a.turn()
    assert whole_of(a) == whole_of(split.b)


def test_who_waits_for_a_cut_hears_on_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of the branch waits: there may be no effect that shows it to be of one, and the duty is here."""
    monkeypatch.setattr("quadlog.worker.replica.backlog.WAITING", 3)
    split = Split(tmp_path, COMMON, [], [])
    for number in range(5):
        split.ours.agree(f"INSERT DATA {{ <urn:ours> a {number} }}")
    worker = Worker(tmp_path, split.ours, "w")
    worker.hear(TOPICS.agreed)
    worker.hear(TOPICS.effects)
    worker.turn()
    assert worker.replica.full() == {TOPICS.agreed}
    split.theirs.agree(THEIRS[0])
    split.give_way()
    asked = write_handover(split.ours)
    worker.replica.evaluator_term.take_over(asked)
    worker.hear(TOPICS.effects)
    worker.turn()
    assert worker.replica.full() == set()
    worker.catch_up()
    split.b.catch_up()
    assert split.ours.effects()[-1].term == asked.term
    assert worker.store.applied.effects_chain == split.b.store.applied.effects_chain


@pytest.mark.parametrize("starts_again", [False, True], ids=["goes on", "starts again"])
@pytest.mark.parametrize("first", [TOPICS.agreed, TOPICS.effects])
def test_behind_a_rewind_of_a_later_view_than_the_cut_nobody_has_to_write(
    split: Split, first: str, *, starts_again: bool
) -> None:
    """The view changed once more before its effects were copied: entries that both sides have wait again."""
    worker = split.a
    write_cut(split.ours, split.theirs)
    write_rewind(split.ours, split.theirs, 1, epoch=EPOCH_2 + 1, cut=EPOCH_2)
    if starts_again:
        worker.hear(TOPICS.effects, 1)
        worker.close()
        worker = Worker(split.path, split.ours, "a")
    worker.hear(first)
    worker.turn()
    worker.catch_up()
    assert whole_of(worker) == whole_of(split.b)
