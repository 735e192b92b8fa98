"""The duty to evaluate where a side gives way: it ends with its view, and begins with the next one's handover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.codec.envelope import EPOCH
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
    whole_of,
    write_cut,
    write_handover,
    write_rewind,
)
from tests.support.workers.updates import state_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


COUNT = "DELETE { ?s <urn:n> ?n } INSERT { ?s <urn:n> ?m } WHERE { ?s <urn:n> ?n BIND(?n + 1 AS ?m) }"


def ahead(path: Path) -> Split:
    """Our evaluator has decided what it has not heard back; their last entry nobody has evaluated."""
    split = Split(path, COMMON, [*OURS, COUNT, COUNT], THEIRS)
    for _ in range(3):
        split.ours.agree(COUNT)
    split.a.hear(TOPICS.agreed)
    split.a.turn()
    assert split.a.store.is_ahead
    split.theirs.agree(COUNT)
    return split


def on_trial(path: Path) -> Split:
    """Our evaluator tries what was agreed when it took over; their last entry nobody has evaluated."""
    split = Split(path, COMMON, OURS, THEIRS)
    split.a.close()
    for _ in range(2):
        split.ours.agree(COUNT)
    split.a = worker = Worker(path, split.ours, "a")
    worker.hear(TOPICS.agreed)
    worker.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    worker.hear(TOPICS.effects)
    worker.turn()
    assert worker.replica.evaluator_term.suspects is not None
    assert worker.replica.evaluator_term.suspects._trial is not None
    split.theirs.agree(COUNT)
    return split


def is_idle(worker: Worker) -> bool:
    """Does it neither evaluate, nor try, nor look again and again whether it may?"""
    worker.turn()
    evaluator_term = worker.replica.evaluator_term
    is_at_work = (
        worker.replica._more or evaluator_term.evaluator is not None or evaluator_term.suspects is not None
    )
    return not (is_at_work or worker.store.is_ahead or (worker.settings.data_dir / "trial").exists())


@pytest.mark.parametrize("before", [ahead, on_trial])
@pytest.mark.parametrize("order", [("cut", "rewind"), ("rewind", "cut")], ids=" ".join)
@pytest.mark.parametrize("asked_after", [0, 1, 2, 3])
def test_a_duty_ends_with_its_view_and_begins_in_the_next_ones_term(
    tmp_path: Path, before: Callable[[Path], Split], order: tuple[str, ...], asked_after: int
) -> None:
    """Whatever was under way, whichever is heard first, and whenever it is asked again."""
    split = before(tmp_path)
    worker, log = split.a, split.ours
    said = len(log.effects())
    split.give_way()
    handover = len(log.records[TOPICS.effects])
    asked = write_handover(log)
    for number, event in enumerate((*order, "handover")):
        if number == asked_after:
            worker.replica.evaluator_term.take_over(asked)
        if event == "cut":
            worker.hear(TOPICS.agreed)
        elif event == "rewind":
            worker.hear(TOPICS.effects, handover - worker._read[TOPICS.effects])
        else:
            worker.hear(TOPICS.effects, 1)
        assert is_idle(worker)
    worker.replica.evaluator_term.take_over(asked)
    worker.catch_up()
    mine = log.effects()[said + len(THEIRS) :]
    assert [(effect.entry_chain, effect.term) for effect in mine] == [
        (agreed(split.theirs)[-1].chain, asked.term)
    ]
    split.b.catch_up()
    assert worker.store.applied.effects_chain == split.b.store.applied.effects_chain
    assert state_of(worker) == state_of(split.b)
    assert worker.replica.beat().evaluating


def test_a_duty_that_waits_for_the_cut_begins_with_what_follows_it(tmp_path: Path) -> None:
    """It was handed over by then: nobody has to be asked again."""
    split = ahead(tmp_path)
    write_rewind(split.ours, split.theirs, split.fork)
    split.a.replica.evaluator_term.take_over(write_handover(split.ours))
    split.a.catch_up()
    assert is_idle(split.a)
    assert split.a.replica.evaluator_term.has_duty
    write_cut(split.ours, split.theirs)
    split.a.catch_up()
    split.b.catch_up()
    assert split.a.store.applied.effects_chain == split.b.store.applied.effects_chain
    assert state_of(split.a) == state_of(split.b)


def test_the_duty_comes_back_with_a_handover_of_the_new_view(split: Split) -> None:
    """Asked for before that is heard, by the one that had the duty on the branch."""
    a, before = split.a, len(split.ours.effects())
    split.give_way()
    a.replica.evaluator_term.take_over(write_handover(split.ours))
    a.hear(TOPICS.effects)
    a.hear(TOPICS.effects)
    a.turn()
    assert a.replica.evaluator_term._confirmed_fence is not None
    a.catch_up()
    assert whole_of(a) == whole_of(split.b)
    assert len(split.ours.effects()) == before + len(THEIRS)
    split.ours.agree("INSERT DATA { <urn:s> <urn:n> 77 }")
    a.catch_up()
    last = split.ours.effects()[-1]
    assert (last.index, last.term) == (split.fork + len(THEIRS) + 1, b"%032d" % EPOCH_2)
    assert a.store.applied.index == last.index
    assert split.ours.records[TOPICS.effects][-1].header(EPOCH) == b"2"


def test_behind_a_rewind_nothing_is_evaluated_before_the_cut(tmp_path: Path) -> None:
    """The other side has evaluated nothing of its own: entries of the branch follow the state, for a while."""
    split = Split(tmp_path, COMMON, OURS, [])
    split.theirs.agree(THEIRS[0])
    write_rewind(split.ours, split.theirs, split.fork)
    split.a.replica.evaluator_term.take_over(write_handover(split.ours))
    worker = split.a
    for is_started_again in (False, True):
        if is_started_again:
            worker.close()
            worker = Worker(tmp_path, split.ours, "a")
            worker.replica.evaluator_term.take_over(EvaluateRequest(b"%032d" % EPOCH_2, epoch=EPOCH_2))
        worker.catch_up()
        assert worker.store.applied.index == split.fork
        assert worker.replica.evaluator_term._confirmed_fence is not None
        assert split.ours.effects()[-1].term == TERM
    lags = Worker(tmp_path, split.ours, "lags")
    lags.hear(TOPICS.agreed)
    lags.catch_up()
    assert lags.store.applied.index == split.fork
    assert list(lags.replica._counted_records.backlog.behind(lags.store.applied.point))
    lags.replica.evaluator_term.take_over(EvaluateRequest(b"%032d" % EPOCH_2, epoch=EPOCH_2))
    lags.catch_up()
    assert lags.replica.evaluator_term.has_duty
    assert split.ours.effects()[-1].term == TERM
    worker.catch_up()
    worker.replica.evaluator_term.take_over(EvaluateRequest(b"%032d" % EPOCH_2, epoch=EPOCH_2))
    write_cut(split.ours, split.theirs)
    worker.catch_up()
    last = split.ours.effects()[-1]
    assert (last.entry_chain, last.term) == (agreed(split.theirs)[-1].chain, b"%032d" % EPOCH_2)
    assert worker.store.applied.index == split.fork + 1


def test_what_was_on_trial_when_the_log_was_cut_is_not_what_is_decided(tmp_path: Path) -> None:
    """Nor what was read of it: another entry has its index now."""
    split = Split(tmp_path, COMMON, [], [])
    split.a.close()
    branch = split.ours.agree("INSERT DATA { <urn:s> <urn:n> 'branch' }")
    split.theirs.agree("INSERT DATA { <urn:s> <urn:n> 'log' }")
    worker = Worker(tmp_path, split.ours, "a")
    worker.hear(TOPICS.agreed)
    worker.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    worker.hear(TOPICS.effects)
    worker.turn()
    suspects, evaluator = worker.replica.evaluator_term.suspects, worker.replica.evaluator_term.evaluator
    assert suspects is not None
    assert suspects._trial is not None
    assert evaluator is not None
    worker.replica._evaluate()  # hands over the suspect; a process takes longer to start
    evaluator._operations(branch)
    write_cut(split.ours, split.theirs)
    worker.hear(TOPICS.agreed)
    [entry] = worker.replica._counted_records.backlog.behind(worker.store.applied.point)
    assert evaluator._operations(branch) != evaluator._operations(entry)
    asked = write_handover(split.ours)  # the entry is of the new view
    worker.hear(TOPICS.effects)
    worker.replica.evaluator_term.take_over(asked)
    worker.catch_up()
    last = split.ours.effects()[-1]
    assert (last.index, last.entry_chain) == (branch.index, entry.chain)
    assert last.inserted == ('<urn:s> <urn:n> "log" .',)
    worker.close()


def test_an_entry_that_both_logs_have_is_evaluated_again(tmp_path: Path) -> None:
    """The other side agreed on it too, and had no effect of it: its evaluator is to be here."""
    both = "INSERT DATA { <urn:both> a 1 }"
    split = Split(tmp_path, COMMON, [both, *OURS], [])
    split.theirs.agree(both)
    write_cut(split.ours, split.theirs)
    write_rewind(split.ours, split.theirs, split.fork)
    split.a.replica.evaluator_term.take_over(write_handover(split.ours))
    split.a.catch_up()
    last = split.ours.effects()[-1]
    assert (last.index, last.term) == (split.fork + 1, b"%032d" % EPOCH_2)
    split.b.catch_up()
    assert state_of(split.a) == state_of(split.b)
    assert split.a.store.applied.effects_chain == split.b.store.applied.effects_chain


@pytest.mark.parametrize(("cut", "evaluated"), [(0, 2), (1, 2), (2, 1)])
def test_behind_a_rewind_without_a_cut_it_evaluates_if_that_says_so(
    tmp_path: Path, cut: int, evaluated: int
) -> None:
    """The home was gone, and the next one is, too: no log was cut, and nobody may ever write again."""
    log = Log()
    first, worker = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    log.agree("INSERT DATA { <urn:s> a 1 }")
    first.catch_up()
    log.agree("INSERT DATA { <urn:s> a 2 }")
    write_rewind(log, copy_of(log), 1, cut=cut)
    asked = write_handover(log, epoch=3)
    worker.catch_up()
    worker.replica.evaluator_term.take_over(asked)
    worker.catch_up()
    assert worker.store.applied.index == evaluated
    log.epoch = 3
    log.agree("INSERT DATA { <urn:s> a 3 }")
    worker.catch_up()
    assert worker.store.applied.index == 3
    first.close()
    worker.close()
