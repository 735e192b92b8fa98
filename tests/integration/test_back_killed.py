"""A worker that dies on its way back, at any commit, goes on from where it stands."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from quadlog.quadstore.quadstore import QuadStore
from tests.support.workers.pieces import dying
from tests.support.workers.rehearsal import TOPICS, Worker
from tests.support.workers.sides import (
    COMMON,
    OURS,
    THEIRS,
    Split,
    copy_of,
    whole_of,
    write_cut,
    write_rewind,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("small", [False, True], ids=["whole", "in-pieces"])
@pytest.mark.parametrize("cut_first", [True, False], ids=["cut-first", "rewind-first"])
def test_killed_at_every_commit_on_the_way(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small: bool,  # noqa: FBT001
    cut_first: bool,  # noqa: FBT001
) -> None:
    """It goes on from the earlier state that it has come to; what is half undone is not read, nor built on."""
    monkeypatch.setattr("quadlog.worker.replica.rollback.BATCH", 2)
    if small:
        monkeypatch.setattr("quadlog.quadstore.commit.WHOLE", 2)
        monkeypatch.setattr("quadlog.quadstore.commit.PIECE", 2)
    split = Split(tmp_path, COMMON, OURS, THEIRS)
    before, after = copy_of(split.ours), 0
    split.give_way()
    stands: set[int] = set()
    while True:
        follower = Worker(tmp_path, before, f"f{after}")
        follower.hear(TOPICS.agreed)
        follower.hear(TOPICS.effects, len(before.records[TOPICS.effects]) - 1)
        follower.turn()
        assert follower.store.applied.index == split.fork + len(OURS) - 1
        follower.log = split.ours
        follower.replica._returning._past._backwards = split.ours.backwards
        if cut_first:
            follower.hear(TOPICS.agreed)
        if not dying(follower, after):
            break
        store = QuadStore.open(tmp_path / f"f{after}")
        stands.add(store.applied.index)
        assert store.is_ahead or store.recount() == (store.applied.signature, store.applied.quads)
        assert store.gate.is_open is not store.is_ahead
        store.close()
        again = Worker(tmp_path, split.ours, f"f{after}")
        again.hear(TOPICS.agreed, len(before.records[TOPICS.agreed]) - again._read[TOPICS.agreed])
        for _ in split.ours.records[TOPICS.effects]:
            again.hear(TOPICS.effects, 1)
            again.turn()
            if again.store.gate.is_open:
                applied = again.store.applied
                assert again.store.recount() == (applied.signature, applied.quads)
        again.catch_up()
        assert whole_of(again) == whole_of(split.b)
        again.close()
        after += 1
    assert whole_of(follower) == whole_of(split.b)
    follower.close()
    assert stands >= {split.fork, split.fork + 2, split.fork + 4}
    assert after >= (10 if small else 3)
    split.close()


def test_a_batch_that_was_half_made_is_undone_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died while it applied the branch, hears of the rewind before it has made the rest, and dies again."""
    monkeypatch.setattr("quadlog.quadstore.commit.WHOLE", 2)
    monkeypatch.setattr("quadlog.quadstore.commit.PIECE", 2)
    split = Split(tmp_path, COMMON, OURS, THEIRS)
    before, chance = copy_of(split.ours), random.Random(3)
    for index in (1, 2, 1, 2):
        after, ours = 0, copy_of(split.ours)
        write_cut(ours, split.theirs)
        write_rewind(ours, split.theirs, index)
        while True:
            name = f"f{chance.random()}"
            follower = Worker(tmp_path, before, name)
            follower.hear(TOPICS.agreed, 2)
            follower.hear(TOPICS.effects, 3)
            follower.turn()
            if not dying(follower, after):
                break
            again = Worker(tmp_path, ours, name)
            again.hear(TOPICS.effects, len(before.records[TOPICS.effects]) - 3)
            again_after = chance.randint(0, 9)
            if dying(again, again_after):
                again = Worker(tmp_path, ours, name)
                again.catch_up()
            assert whole_of(again) == whole_of(split.b)
            again.close()
            after += 1
        follower.close()
        assert after >= 6
    split.close()
