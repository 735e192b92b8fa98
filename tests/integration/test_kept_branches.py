"""A worker whose data centre gave way, where branches are kept: it stays as it is until it is rebuilt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from quadlog.clock import wall
from quadlog.worker.repair.kept_branch import KeptBranch, saved_branch
from tests.support.workers.rehearsal import TOPICS, Worker
from tests.support.workers.sides import EPOCH_2, Split, say, whole_of, write_cut, write_rewind

if TYPE_CHECKING:
    from pathlib import Path

LATER_MS = 60_000


def test_it_keeps_what_it_had_applied_and_applies_nothing_more(split: Split) -> None:
    before, applied = whole_of(split.a), split.a.store.applied
    split.give_way(kept_at=wall() + LATER_MS)
    split.a.catch_up()
    assert whole_of(split.a) == before
    assert split.a.store.applied == applied
    assert split.a.replica.beat().fork == split.fork
    assert split.a.replica.full() == {TOPICS.agreed, TOPICS.effects}, "it reads no more"
    kept = KeptBranch(fork=split.fork, epoch=EPOCH_2, store=split.a.store.name)
    assert saved_branch(split.path, split.a.store.name) == kept
    assert saved_branch(split.path, "another one") is None
    say(split.theirs, split.b, ["INSERT DATA { <urn:later> a 1 }"])
    split.a.close()
    again = Worker(split.path, split.ours, "a")
    again.catch_up()
    assert whole_of(again) == before
    assert again.replica.beat().fork == split.fork


def test_one_that_had_not_applied_any_of_the_branch_goes_with_the_log(split: Split) -> None:
    lagging = Worker(split.path, split.ours, "lags")
    lagging.hear(TOPICS.agreed, split.fork)
    lagging.hear(TOPICS.effects, split.fork + 1)
    lagging.turn()
    assert lagging.store.applied.index == split.fork
    split.give_way(kept_at=wall() + LATER_MS)
    lagging.catch_up()
    assert whole_of(lagging) == whole_of(split.b)
    assert lagging.replica.beat().fork is None


def test_one_that_reads_the_branch_only_later_goes_back(split: Split) -> None:
    """It is new, or was away for so long: nobody was ever shown the branch by it."""
    split.give_way(kept_at=wall() - LATER_MS)
    late = Worker(split.path, split.ours, "late")
    for topic in (TOPICS.agreed, TOPICS.effects):
        late.hear(topic, split.fork + 3)
    late.turn()
    assert late.store.applied.index > split.fork, "it has applied some of the branch"
    late.catch_up()
    assert whole_of(late) == whole_of(split.b)


def test_one_that_dies_on_the_branch_keeps_it(split: Split) -> None:
    """It served the branch before its side gave way, and reads of that when it is started again."""
    before = whole_of(split.a)
    split.a.close()
    time.sleep(0.05)
    split.give_way(kept_at=wall())
    time.sleep(0.05)
    again = Worker(split.path, split.ours, "a")
    again.catch_up()
    assert whole_of(again) == before
    assert again.replica.beat().fork == split.fork


def test_one_that_is_started_again_while_it_reads_an_old_branch_goes_back(split: Split) -> None:
    """What is in its store was applied after the rewind was written: a new, a rebuilt or a late worker."""
    split.give_way(kept_at=wall() - LATER_MS)
    late = Worker(split.path, split.ours, "late")
    for topic in (TOPICS.agreed, TOPICS.effects):
        late.hear(topic, split.fork + 3)
    late.turn()
    assert late.store.applied.index > split.fork
    late.close()
    again = Worker(split.path, split.ours, "late")
    again.catch_up()
    assert whole_of(again) == whole_of(split.b)


def test_where_only_effects_give_way_workers_go_back(split: Split) -> None:
    """No entry leaves the log with that rewind: none was cut since what was applied."""
    write_cut(split.ours, split.theirs)
    write_rewind(split.ours, split.theirs, split.fork, cut=1, kept_at=wall() + LATER_MS)
    split.a.catch_up()
    assert split.a.replica.beat().fork is None
    assert whole_of(split.a) == whole_of(split.b)


def test_parts_of_what_it_had_not_applied_are_undone(tmp_path: Path) -> None:
    """A large effect is applied in pieces; here some of them when the rewind comes."""
    many = " ".join(f"<urn:{n}> <urn:p> {n} ." for n in range(60_000))
    split = Split(tmp_path, ["INSERT DATA { <urn:a> a 1 }"], ["INSERT DATA { <urn:b> a 1 }"], [])
    before = whole_of(split.a)
    split.a.replica.evaluator_term.retire()
    other = Worker(tmp_path, split.ours, "other")
    other.catch_up()
    split.ours.agree(f"INSERT DATA {{ {many} }}")
    split.a.take_over()
    assert split.a.store.applied.index == split.fork + 2
    other.hear(TOPICS.agreed)
    other.hear(TOPICS.effects)
    store = other.store
    carry_out, count = store._carry_out, iter(range(100))

    def dies_after_one(update: object) -> None:
        if next(count):
            raise OSError("killed")
        carry_out(update)  # type: ignore[arg-type]

    store._carry_out = dies_after_one  # type: ignore[method-assign]
    with pytest.raises(OSError, match="killed"):
        other.turn()
    other.close()
    again = Worker(tmp_path, split.ours, "other")
    assert again.store.half_made == split.fork + 2
    again.hear(TOPICS.agreed)
    again.hear(TOPICS.effects)
    split.give_way(kept_at=wall() + LATER_MS)
    again.hear(TOPICS.agreed)
    again.hear(TOPICS.effects)
    again.turn()
    assert again.replica.beat().fork == split.fork
    assert again.store.half_made == 0
    assert {**whole_of(again), "effects": None} == {**before, "effects": None}
