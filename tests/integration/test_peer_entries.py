"""Entries that add or remove a peer: workers hear them, change nothing, and go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.membership.electorate import options_of
from quadlog.core.model import TransactionKind
from quadlog.core.records import Outcome
from tests.support.workers.controlled import BOTH, NAMED, after_control, after_update, breaks, outcome
from tests.support.workers.rehearsal import Worker
from tests.support.workers.sides import COMMON, THEIRS, Split, say, whole_of
from tests.support.workers.updates import state_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.workers.rehearsal import Log


def name_peer(log: Log, peer: str, dc: str = "") -> None:
    log.agree("", options=options_of(peer, dc), media_type="application/json", kind=TransactionKind.CONFIG)


def test_it_is_applied_and_changes_nothing(worker: Worker, log: Log, tmp_path: Path) -> None:
    """Neither quads nor controls, at who evaluates and at who follows."""
    assert after_update(worker, BOTH) is None
    assert after_control(worker, "names", NAMED) is None
    before, controls = state_of(worker), dict(worker.store.controls)
    for index, dc in enumerate(("dc4", "dc4", ""), start=3):
        name_peer(log, "m4", dc)
        assert outcome(worker) is None
        assert worker.store.applied.index == index
        effect = log.effects()[-1]
        assert effect.outcome is Outcome.APPLIED
        assert not (*effect.deleted, *effect.inserted, *effect.emptied, *effect.filled, *effect.dropped)
        assert effect.signature_before == effect.signature_after
    assert (state_of(worker), worker.store.controls) == (before, controls)
    assert breaks(worker, "DELETE DATA { <urn:eve> <urn:name> 'Eve' }").startswith("control names: ")
    follower = Worker(tmp_path, log, "w2")
    follower.catch_up()
    assert whole_of(follower) == whole_of(worker)
    assert not (*worker.failures, *follower.failures)


def test_it_stands_among_updates_that_are_evaluated_ahead(worker: Worker, log: Log) -> None:
    log.control("names", NAMED)
    log.agree(BOTH)
    name_peer(log, "m4", "dc4")
    log.agree("INSERT DATA { <urn:a> a 1 }")
    assert outcome(worker) is None
    assert [effect.outcome for effect in log.effects()] == [Outcome.APPLIED] * 4


def test_an_entry_of_neither_is_rejected(worker: Worker, log: Log) -> None:
    log.agree("", options={"colour": "red"}, kind=TransactionKind.CONFIG)
    assert outcome(worker) == "this CONFIG entry is not known to this version"
    log.agree("", options=options_of("", "dc4"), kind=TransactionKind.CONFIG)
    assert outcome(worker) == "this CONFIG entry is not known to this version"


def test_it_is_undone_with_its_branch(tmp_path: Path) -> None:
    """A worker goes back over it, where one side has it and where both have."""
    split = Split(tmp_path, COMMON, ["control ASK {}"], [*THEIRS, "control ASK { }"])
    name_peer(split.ours, "m4", "dc4")
    name_peer(split.theirs, "m2")
    say(split.ours, split.a, ["INSERT DATA { <urn:a> a 1 }", "control -"])
    say(split.theirs, split.b, ["INSERT DATA { <urn:b> a 1 }"])
    split.give_way()
    split.a.catch_up()
    assert not split.a.failures
    assert whole_of(split.a) == whole_of(split.b)
    split.close()
