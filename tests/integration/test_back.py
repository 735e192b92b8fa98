"""A worker whose data centre gave way: it undoes what it applied of the branch, and goes on with the other history."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from quadlog import codec
from quadlog.codec.envelope import EPOCH
from quadlog.core.model import GENESIS
from quadlog.core.records import Rewind
from quadlog.worker.repair.scrub import Scrubber
from tests.support.workers.pieces import seed
from tests.support.workers.rehearsal import TOPICS, Worker
from tests.support.workers.sides import (
    COMMON,
    EPOCH_2,
    OURS,
    THEIRS,
    Split,
    copy_of,
    say,
    whole_of,
    write_cut,
    write_handover,
    write_rewind,
)
from tests.support.workers.updates import Generator

if TYPE_CHECKING:
    from pathlib import Path


def test_behind_a_rewind_a_worker_is_what_the_other_sides_workers_are(split: Split) -> None:
    split.give_way()
    split.a.catch_up()
    assert whole_of(split.a) == whole_of(split.b)
    assert split.a.store.applied.in_effects.rewound == EPOCH_2
    late = Worker(split.path, split.ours, "late")
    late.catch_up()
    assert whole_of(late) == whole_of(split.b)


@pytest.mark.parametrize("cut_first", [True, False], ids=["cut-first", "rewind-first"])
@pytest.mark.parametrize("heard", ["entries", "effects", "both", "none"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_whichever_is_heard_first(split: Split, cut_first: bool, heard: str, index: int) -> None:  # noqa: FBT001
    """Cut and rewind come by two topics; before them all of the branch may be applied, or not yet heard.

    The states may fork before the logs do: entries that were undone are applied again.
    """
    lagging = Worker(split.path, split.ours, "lags")
    lagging.hear(TOPICS.agreed, 3)
    lagging.hear(TOPICS.effects, 4)
    lagging.turn()
    if heard in {"entries", "both"}:
        lagging.hear(TOPICS.agreed)
    if heard in {"effects", "both"}:
        lagging.hear(TOPICS.effects)
    split.give_way(index)
    for worker in (split.a, lagging):
        for topic in (TOPICS.agreed, TOPICS.effects) if cut_first else (TOPICS.effects, TOPICS.agreed):
            while len(split.ours.records[topic]) > worker._read[topic]:
                worker.hear(topic, 1)
                worker.turn()
        assert whole_of(worker) == whole_of(split.b)
        worker.close()
        again = Worker(split.path, split.ours, "a" if worker is split.a else "lags")
        again.catch_up()
        assert whole_of(again) == whole_of(split.b)


def test_record_by_record_in_any_order(tmp_path: Path) -> None:
    """Started again here and there, and going on in either topic."""
    for number in range(12):
        chance = random.Random(number)
        path = tmp_path / str(number)
        split = Split(path, COMMON, OURS, THEIRS)
        split.give_way(chance.choice((0, 1, 2)))
        worker = split.a
        while left := [t for t, read in worker._read.items() if read < len(split.ours.records[t])]:
            worker.hear(chance.choice(left), chance.randint(1, 3))
            if chance.random() < 0.7:
                worker.turn()
            if chance.random() < 0.2:
                worker.close()
                worker = Worker(path, split.ours, "a")
        worker.turn()
        assert whole_of(worker) == whole_of(split.b)
        worker.close()
        split.b.close()


@pytest.mark.parametrize("run", range(8))
def test_random_updates_on_two_branches(tmp_path: Path, run: int) -> None:
    generator = Generator(run)
    counts = [generator.chance.randint(*bounds) for bounds in ((1, 25), (0, 40), (0, 25))]
    split = Split(tmp_path, *([generator.update() for _ in range(count)] for count in counts))
    split.give_way(generator.chance.choice((split.fork, generator.chance.randint(0, split.fork))))
    split.a.catch_up()
    assert whole_of(split.a) == whole_of(split.b)
    split.close()


@pytest.mark.parametrize("count", [1, 2, pytest.param(3, marks=pytest.mark.soak)])
def test_large_effects_are_undone_in_pieces(tmp_path: Path, count: int) -> None:
    many = " ".join(f"<urn:{n}> <urn:p> {n} ." for n in range(30_000))
    ours = [
        f"INSERT DATA {{ {many} GRAPH <urn:{n}> {{ {many} }} }} ; DROP GRAPH <urn:{n - 1}>"
        for n in range(1, count)
    ]
    split = Split(
        tmp_path,
        [COMMON[0], "CREATE GRAPH <urn:0>"],
        [*ours, f"DELETE WHERE {{ ?s ?p ?o }} ; {COMMON[1]}"],
        THEIRS,
    )
    split.give_way()
    split.a.catch_up()
    assert whole_of(split.a) == whole_of(split.b)
    split.close()


def test_controls_go_back_too(tmp_path: Path) -> None:
    """Set, changed and deleted on the branch, and before it, also where the state before stands long ago."""
    yes, no = "control ASK { ?s ?p ?o }", "control ASK { FILTER NOT EXISTS { ?s <urn:never> ?o } }"
    branches = [[yes], [no, yes], ["control -"], [no, "control -", yes], ["control -", "control -", no]]
    for number, ours in enumerate(branches):
        for common in (
            COMMON,
            [*COMMON, yes, *THEIRS],
            [*COMMON, yes, no],
            [*COMMON, yes, "control -", THEIRS[0]],
        ):
            path = tmp_path / f"{number}-{len(common)}-{no in common}"
            split = Split(path, common, [*OURS[:1], *ours, *OURS[1:]], THEIRS)
            before = split.b.store.controls
            assert bool(before) is (yes in common and "control -" not in common)
            split.give_way()
            split.a.catch_up()
            assert whole_of(split.a) == whole_of(split.b)
            assert split.a.store.controls == before
            split.close()


def test_a_side_gives_way_twice(tmp_path: Path) -> None:
    """It goes on alone with the other history, and gives way again: to a point of that, or of its own."""
    split = Split(tmp_path, COMMON, OURS, THEIRS)
    split.give_way()
    third = copy_of(split.theirs)
    c = Worker(tmp_path, third, "c")
    c.replica.evaluator_term.take_over(write_handover(third, epoch=2))
    c.catch_up()
    say(third, c, ["INSERT DATA { <urn:c> a 1 }", "DROP GRAPH <urn:g>"])
    split.a.replica.evaluator_term.take_over(write_handover(split.ours, epoch=3))
    split.a.catch_up()
    say(split.ours, split.a, ["INSERT DATA { <urn:o> a 1 }", "CLEAR ALL"])
    split.a.close()
    for name, index in (("a", split.fork + len(THEIRS)), ("late", 1), ("later", split.fork + 1)):
        ours = copy_of(split.ours)
        write_cut(ours, third, epoch=4)
        write_rewind(ours, third, index, epoch=4)
        for _ in range(2):
            worker = Worker(tmp_path, ours, name)
            worker.catch_up()
            assert whole_of(worker) == whole_of(c)
            worker.close()
    c.close()


def test_a_seed_is_what_it_goes_back_to(tmp_path: Path) -> None:
    for name in ("a", "b"):
        seed(tmp_path / name)
    split = Split(tmp_path, ["INSERT DATA { <urn:s> a 1 }"], ["DROP ALL", *OURS[:1]], THEIRS[:1])
    split.give_way(0)
    split.a.catch_up()
    assert whole_of(split.a) == whole_of(split.b)


def test_what_a_scrub_counted_before_is_not_held_against_what_is_there_now(split: Split) -> None:
    """It was right, and at its index the log has another state now: the worker was quarantined for that."""
    worker = Worker(split.path, split.ours, "z")
    worker.catch_up()
    scrubber = Scrubber(worker.store, split.path / "scrub", worker.replica.health, period=0, share=1)
    health, before = worker.replica.health, scrubber.scrub()
    health.scrub = before
    assert worker.replica.beat().scrub == before
    split.give_way()
    worker.catch_up()
    assert worker.store.applied.in_effects.rewound > before.rewound
    assert worker.replica.beat().scrub is None
    health.scrub = replace(before, found=bytes(32))
    assert worker.replica.beat().scrub == health.scrub, "what was wrong then is wrong"
    health.scrub = scrubber.scrub()
    assert worker.replica.beat().scrub == health.scrub
    worker.close()


def test_a_rewind_that_leaves_all_that_was_applied_is_told_at_once(split: Split) -> None:
    """Without any effect after it: a master that starts again knows no better than that the worker has to go back."""
    worker = Worker(split.path, split.ours, "waits")
    worker.hear(TOPICS.agreed, split.fork)
    worker.hear(TOPICS.effects)
    worker.turn()
    applied = worker.store.applied.index
    assert worker.replica.beat().epoch < EPOCH_2
    rewind = Rewind(epoch=EPOCH_2, index=applied, term=GENESIS, attempt=0, cut=EPOCH_2)
    headers = [(EPOCH, b"%d" % EPOCH_2)]
    split.ours.produce(TOPICS.effects, key=b"rewind", values=[codec.encode(rewind)], headers=headers)
    worker.hear(TOPICS.effects)
    worker.turn()
    assert (worker.store.applied.index, worker.replica.beat().epoch) == (applied, EPOCH_2)
    worker.close()
