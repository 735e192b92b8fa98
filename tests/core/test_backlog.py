"""What a worker holds of what it heard: how much of it at once, and what belongs together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.core.model import Effect, Outcome
from quadlog.errors import StateError
from quadlog.worker.backlog import BATCH, BATCH_LINES, WAITING_BYTES, Backlog
from tests.core.test_consumers import entries


def effect_of(index: int, chain: bytes, *, lines: int = 1) -> Effect:
    """The effect of an entry, which inserted so many lines."""
    return Effect(
        index=index,
        id=bytes(16),
        entry_chain=chain,
        term=bytes(32),
        attempt=1,
        outcome=Outcome.APPLIED,
        inserted=("<urn:s> <urn:p> <urn:o> .",) * lines,
        quads=0,
        signature_before=bytes(32),
        signature_after=bytes(32),
        chain=bytes(32),
    )


def backlog_of(*lines: int) -> Backlog:
    """Entries with effects of so many lines, and one entry more."""
    backlog = Backlog()
    log = entries(len(lines) + 1)
    for entry in log:
        backlog.add_entry(entry, entry.index * 10)
    for entry, count in zip(log, lines, strict=False):
        backlog.add_effect(effect_of(entry.index, entry.chain, lines=count), entry.index * 100)
    return backlog


def applied(backlog: Backlog) -> list[int]:
    """Batches, until nothing is left to apply: how many pairs each."""
    sizes: list[int] = []
    while pairs := backlog.batch():
        backlog.drop(len(pairs))
        sizes.append(len(pairs))
    return sizes


def test_entries_and_effects_go_in_pairs_with_the_offsets_behind_them() -> None:
    backlog = backlog_of(1, 1)
    pairs = backlog.batch()
    assert [(pair.entry.index, pair.effect.index) for pair in pairs] == [(1, 1), (2, 2)]
    assert (pairs[-1].agreed_offset, pairs[-1].effects_offset) == (20, 200)
    assert applied(backlog) == [2]
    assert [entry.index for entry in backlog.entries()] == [3]
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
        backlog.add_entry(entry, 1)
        full.append(backlog.is_full)
    assert full == [False, True]
    for entry in (small, large):
        backlog.add_effect(effect_of(entry.index, entry.chain), 1)
    assert applied(backlog) == [2]
    assert not backlog.is_full, "what is applied is held no more"


def test_an_effect_of_another_log_is_not_applied() -> None:
    backlog = Backlog()
    [entry] = entries(1)
    backlog.add_entry(entry, 1)
    backlog.add_effect(effect_of(1, b"x" * 32), 1)
    with pytest.raises(StateError, match="is of an entry with chain"):
        backlog.batch()
