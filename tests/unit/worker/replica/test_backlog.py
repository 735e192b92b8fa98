"""What a worker holds of what it heard: how much of it at once, and what belongs together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quadlog.core.model import START, LogPosition, TransactionKind
from quadlog.quadstore.applied import InAgreed, InEffects
from quadlog.worker.replica import backlog as backlog_module
from quadlog.worker.replica.backlog import (
    BATCH,
    BATCH_LINES,
    EFFECTS,
    EFFECTS_LINES,
    WAITING,
    WAITING_BYTES,
    Backlog,
    EntryWithEffect,
)
from tests.support.agreement.topics import entries, forked
from tests.support.masters.effects import effect_of
from tests.support.workers.rehearsal import Log

if TYPE_CHECKING:
    import pytest

    from quadlog.core.records import Effect, LoggedEntry


def backlog_of(*lines: int) -> Backlog:
    """Entries with effects of so many lines, and one entry more."""
    backlog = Backlog()
    log = entries(len(lines) + 1)
    for entry in log:
        backlog.add_entry(entry, place_of(entry))
    for entry, count in zip(log, lines, strict=False):
        backlog.add_effect(effect_of(entry.index, entry.chain, lines=count), InEffects(entry.index * 100))
    return backlog


def place_of(entry: LoggedEntry) -> InAgreed:
    return InAgreed(entry.index * 10, LogPosition(entry.index, entry.chain))


def applied(backlog: Backlog) -> list[int]:
    """Batches, until nothing is left to apply: how many pairs each."""
    sizes: list[int] = []
    point = START
    while pairs := backlog.batch(point):
        point = LogPosition(pairs[-1].entry.index, pairs[-1].entry.chain)
        backlog.drop(point.index)
        sizes.append(len(pairs))
    return sizes


def test_entries_and_effects_go_in_pairs_with_the_offsets_behind_them() -> None:
    backlog = backlog_of(1, 1)
    pairs = backlog.batch(START)
    assert [(pair.entry.index, pair.effect.index) for pair in pairs] == [(1, 1), (2, 2)]
    last = pairs[-1]
    assert (last.in_agreed, last.in_effects) == (place_of(last.entry), InEffects(200))
    assert applied(backlog) == [2]
    assert [entry.index for entry in backlog.behind(place_of(last.entry).last)] == [3]
    assert not backlog.has_effects


def test_a_batch_is_bounded_in_effects_and_in_lines() -> None:
    assert applied(backlog_of(*[1] * (BATCH + 1))) == [BATCH, 1]
    half = BATCH_LINES // 2
    assert applied(backlog_of(half, half, 1, half)) == [2, 2]
    assert applied(backlog_of(1, BATCH_LINES * 2, 1)) == [1, 1, 1], "one that is longer goes alone"


def test_entries_are_held_up_to_so_many_bytes() -> None:
    backlog = Backlog()
    [small, large] = entries(2)
    full: list[bool] = []
    for entry in (small, replace(large, body=bytes(WAITING_BYTES))):
        backlog.add_entry(entry, InAgreed())
        full.append(backlog.is_full)
    assert full == [False, True]
    for entry in (small, large):
        backlog.add_effect(effect_of(entry.index, entry.chain), InEffects())
    assert applied(backlog) == [2]
    assert not backlog.is_full, "what is applied is held no more"


def test_effects_are_held_up_to_so_many_and_so_many_lines() -> None:
    one = backlog_of(EFFECTS_LINES + 1)
    rich = [one.is_rich]
    one.drop(1)
    rich.append(one.is_rich)
    many = backlog_of(*[1] * (EFFECTS + 2))
    rich.append(many.is_rich)
    many.rewind(EFFECTS)
    rich.append(many.is_rich)
    assert rich == [True, False, True, False]


def test_an_entry_is_never_paired_with_another_ones_effect() -> None:
    """The effect is ahead of a cut, or the entry of a rewind: it waits until that is heard."""
    log, other = forked(4, at=1)
    backlog = Backlog()
    for entry in log:
        backlog.add_entry(entry, place_of(entry))
    for entry in other:
        backlog.add_effect(effect_of(entry.index, entry.chain), InEffects())
    assert [pair.entry for pair in backlog.batch(START)] == log[:1]
    assert applied(backlog) == [1]
    backlog.truncate(1)
    for entry in other[1:]:
        backlog.add_entry(entry, place_of(entry))
    fork = LogPosition(1, log[0].chain)
    assert [pair.entry for pair in backlog.batch(fork)] == other[1:]
    assert backlog.batch(START) == []
    backlog.rewind(2)
    assert [pair.entry for pair in backlog.batch(fork)] == other[1:2]
    assert [effect.index for effect in backlog.effects()] == [2]


def test_only_what_follows_the_store_is_paired_and_evaluated() -> None:
    """A cut was heard and no rewind yet: the entries of the other log begin below what is applied."""
    log, other = forked(4, at=1)
    backlog = Backlog()
    for entry in other[1:]:
        backlog.add_entry(entry, place_of(entry))
    old = LogPosition(3, log[2].chain)
    backlog.add_effect(effect_of(4, log[3].chain), InEffects())
    assert not backlog.batch(old)
    assert not list(backlog.behind(old))
    assert not list(backlog.behind(LogPosition(5, log[3].chain)))
    assert list(backlog.behind(LogPosition(3, other[2].chain))) == other[3:], (
        "it was the store's own log after all"
    )


def test_what_was_applied_stands_before_the_rest_again() -> None:
    log = entries(4)
    backlog = Backlog()
    for entry in log[2:]:
        backlog.add_entry(entry, place_of(entry))
    behind = place_of(log[1])
    backlog.put_before(reversed(log[:2]), behind)
    assert list(backlog.behind(START)) == log
    for entry in log:
        backlog.add_effect(effect_of(entry.index, entry.chain), InEffects())
    assert [pair.in_agreed for pair in backlog.batch(START)] == [behind, behind, *map(place_of, log[2:])]


def test_a_full_backlog_of_a_branch_hears_on_until_the_cut() -> None:
    """Else the cut that drops it would never be heard."""
    backlog = Backlog()
    [first, *rest], other = forked(WAITING + 2, at=1)
    for entry in (first, *rest):
        backlog.add_entry(entry, InAgreed())
    full = [backlog.is_full]
    backlog.add_effect(effect_of(1, first.chain), InEffects())
    full.append(backlog.is_full)
    backlog.drop(1)
    backlog.add_effect(effect_of(2, other[1].chain), InEffects())
    full.append(backlog.is_full)
    assert full == [True, True, False]
    backlog.truncate(1)
    backlog.add_entry(other[1], InAgreed())
    assert [pair.entry for pair in backlog.batch(LogPosition(1, first.chain))] == other[1:2]


def test_a_batch_looks_at_no_more_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def counted(
        entry: LoggedEntry, effect: Effect, in_agreed: InAgreed, in_effects: InEffects
    ) -> EntryWithEffect:
        looked_at.append(entry.index)
        return EntryWithEffect(entry, effect, in_agreed, in_effects)

    monkeypatch.setattr(backlog_module, "EntryWithEffect", counted)
    backlog = backlog_of(*[1] * (4 * BATCH))
    assert len(backlog.batch(START)) == BATCH
    assert len(looked_at) <= BATCH + 1


def test_decisions_stay_with_their_entries() -> None:
    """Entries that are put back, after a rewind, bring theirs along."""
    log = Log()
    first = log.synchronous("a")
    committed = log.decide(TransactionKind.COMMIT, first)
    second = log.synchronous("b")
    cancelled = log.decide(TransactionKind.ROLLBACK, second)
    backlog = Backlog()
    for entry in (first, committed, second, cancelled):
        backlog.add_entry(entry, place_of(entry))

    def kinds() -> list[TransactionKind | None]:
        found = (backlog.decision_on(entry) for entry in (first, second))
        return [None if decision is None else decision.kind for decision in found]

    assert kinds() == [TransactionKind.COMMIT, TransactionKind.ROLLBACK]
    backlog.drop(committed.index)
    assert kinds() == [TransactionKind.ROLLBACK] * 2, "the first one is applied, and forgotten"
    backlog.put_before([committed, first], place_of(committed))
    assert kinds() == [TransactionKind.COMMIT, TransactionKind.ROLLBACK]
    backlog.truncate(second.index)
    assert kinds() == [TransactionKind.COMMIT, None]
    assert backlog.decision_on(first, epoch=0) is None
