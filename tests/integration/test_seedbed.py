"""A worker takes a seed up whole or not at all, begins with it again when it is rebuilt, and takes no other one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import NotEmpty, Unavailable
from quadlog.snapshots.store_archive import pieces_of
from quadlog.worker.repair import mender
from tests.support.workers.ground import Ground, built, check, seed_of

if TYPE_CHECKING:
    from pathlib import Path


def test_first_the_files_then_the_word(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    name = ground.store.name
    ground.take(label, files)
    assert ground.bed.kept() == [label.signature]
    assert not ground.left, "nobody has agreed on it"
    assert ground.bed.on_seed(seed_of(label))
    assert (ground.left, ground.health.mend) == (1, "")
    ground = ground.end()
    check(ground, label)
    assert ground.store.name != name
    assert not ground.bed.on_seed(seed_of(label)), "it hears it again, and has it"
    assert ground.bed.kept() == [label.signature], "for the day when it is rebuilt"
    assert {path.name for path in ground.data_dir.iterdir()} == {"quads", "seeds"}


def test_first_the_word_then_the_files(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    assert ground.bed.on_seed(seed_of(label))
    assert ground.bed.wanted is None
    assert "lacks the seed" in ground.health.mend
    ground.take(label, files)
    assert ground.left == 1
    check(ground.end(), label)


def test_not_agreed_on_it_changes_nothing(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground = ground.end()
    assert (ground.store.applied.quads, ground.bed.kept()) == (0, [label.signature])
    other, _ = built(tmp_path, "other")
    assert ground.bed.on_seed(seed_of(other))
    assert ground.bed.kept() == [], "another one was agreed on"


def test_two_imports_at_once_leave_both_until_one_is_agreed_on(tmp_path: Path) -> None:
    seeds = [built(tmp_path, name) for name in ("a", "b", "c")]
    ground = Ground(tmp_path / "w")
    for number, (label, files) in enumerate(seeds):
        ground.take(label, files)
        os.utime(ground.bed._place(label.signature), (number, number))
    assert ground.bed.kept() == sorted(label.signature for label, _ in seeds[1:])
    assert ground.bed.begin(seeds[1][0]) is None, "it is here"
    assert ground.bed.on_seed(seed_of(seeds[1][0]))
    check(ground.end(), seeds[1][0])


def test_the_same_seed_twice_at_once_is_one(tmp_path: Path) -> None:
    """And keeps nobody else's out."""
    (first, files), (other, others_files) = built(tmp_path, "a"), built(tmp_path, "b")
    ground = Ground(tmp_path / "w")
    ground.take(other, others_files)
    drafts = [ground.bed.begin(first) for _ in range(2)]
    for draft in drafts:
        assert draft is not None
        for piece in pieces_of(files):
            draft.feed(piece)
    for draft in drafts:
        assert draft is not None
        draft.end()
        draft.close()
    assert ground.bed.kept() == sorted([first.signature, other.signature])


def test_a_rebuilt_worker_begins_with_the_seed_again(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground.bed.on_seed(seed_of(label))
    ground = ground.end()
    ground.store.close()
    mender.empty(ground.data_dir)
    ground = Ground(ground.data_dir)
    assert ground.store.applied.quads == 0
    assert ground.bed.on_seed(seed_of(label))
    assert ground.left == 1
    check(ground.end(), label)


def test_a_kept_seed_that_the_disk_has_changed_is_not_taken_up(tmp_path: Path) -> None:
    """Its tables are the store's own: where one is damaged, so is the other."""
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground = ground.end()
    [table, *_] = sorted(ground.bed._place(label.signature).rglob("*.sst"))
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    assert ground.bed.on_seed(seed_of(label))
    ground = ground.end()
    assert (ground.store.applied.quads, ground.bed.kept()) == (0, [])
    ground.bed.on_seed(seed_of(label))
    ground.take(label, files)
    check(ground.end(), label)


def test_who_has_begun_takes_no_seed(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    other, _ = built(tmp_path, "other")
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground.bed.on_seed(seed_of(label))
    with pytest.raises(NotEmpty, match="begins with the seed"):
        ground.bed.begin(other)
    ground = ground.end()
    with pytest.raises(NotEmpty, match="1000 quads"):
        ground.bed.begin(other)


def test_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    label, _ = built(tmp_path)
    ground = Ground(tmp_path / "w")
    monkeypatch.setattr("shutil.disk_usage", lambda _: _Usage)
    with pytest.raises(Unavailable, match="the seed has"):
        ground.bed.begin(label)


class _Usage:
    free = 1000
