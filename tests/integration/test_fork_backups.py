"""Fork backups: what a worker goes back to, on a real store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.errors import Unavailable
from quadlog.quadstore.quadstore import QuadStore
from quadlog.worker.repair.fork_backups import FORKS, KEPT, ForkBackups
from tests.support.workers.rehearsal import Log, Worker
from tests.support.workers.sides import COMMON, OURS, THEIRS, Split, say, whole_of

if TYPE_CHECKING:
    from pathlib import Path


class Ended:
    """Whether a process was to end."""

    asked = 0

    def __call__(self) -> None:
        self.asked += 1


def worker_in(path: Path, log: Log) -> Worker:
    """A worker that evaluates; its store is where a process has it."""
    worker = Worker(path, log, "quads")
    worker.take_over()
    return worker


def does(worker: Worker, *texts: str) -> None:
    for text in texts:
        worker.log.agree(f"INSERT DATA {{ {text} }}")
        worker.catch_up()


def test_it_goes_back_and_applies_the_same_log_again(tmp_path: Path) -> None:
    log = Log()
    worker = worker_in(tmp_path, log)
    does(worker, "<urn:a> a 1", "<urn:b> a 1")
    ended = Ended()
    forks = ForkBackups(tmp_path, worker.store, ended)
    assert forks.make(4, most=2)
    does(worker, "<urn:c> a 1", "<urn:d> a 1")
    after, name = whole_of(worker), worker.store.name
    assert forks.go_back(5) is not None
    assert ended.asked == 1
    worker.close()
    forks.put_back()
    again = Worker(tmp_path, log, "quads")
    assert again.store.applied.index == 2
    assert again.store.name not in {name, ""}, "masters see that it is another one"
    again.catch_up()
    assert whole_of(again) == after
    forks = ForkBackups(tmp_path, again.store, ended)
    assert [(one.name, one.is_used) for one in forks.kept()] == [("fork-4-2", True)]
    assert forks.go_back(6) is None, "it was there already"
    assert ended.asked == 1


def test_a_backup_stays_what_it_is_whatever_becomes_of_the_store(tmp_path: Path) -> None:
    log = Log()
    worker = worker_in(tmp_path, log)
    does(worker, "<urn:a> a 1")
    forks = ForkBackups(tmp_path, worker.store, Ended())
    forks.make(4, most=1)
    forks.go_back(5)
    does(worker, *(f"<urn:{n}> a {n}" for n in range(50)))
    worker.close()
    for _ in range(2):  # it stays, and can be used once more by hand
        forks.wanted = forks.kept()[0]
        forks.put_back()
        store = QuadStore.open(tmp_path / "quads")
        assert store.applied.index == 1
        assert store.recount() == (store.applied.signature, store.applied.quads)
        store.close()


def test_nothing_of_a_branch_is_in_it(tmp_path: Path) -> None:
    """The request names the last entry that was agreed while all were together."""
    worker = worker_in(tmp_path, Log())
    does(worker, "<urn:a> a 1", "<urn:b> a 1")
    forks = ForkBackups(tmp_path, worker.store, Ended())
    with pytest.raises(Unavailable, match="effect 2 is applied, which may be of a branch"):
        forks.make(4, most=1)
    assert forks.kept() == []


def test_one_for_each_view_and_the_newest_stay(tmp_path: Path) -> None:
    worker = worker_in(tmp_path, Log())
    ended = Ended()
    forks = ForkBackups(tmp_path, worker.store, ended)
    does(worker, "<urn:a> a 1")
    assert forks.make(1, most=9)
    assert not forks.make(1, most=9), "it is there"
    does(worker, "<urn:b> a 1")
    assert forks.make(1, most=9)
    assert [one.name for one in forks.kept()] == ["fork-1-2"]
    for epoch in (3, 5):
        does(worker, f"<urn:{epoch}> a 1")
        assert forks.make(epoch, most=9)
    assert [one.name for one in forks.kept()] == ["fork-3-3", "fork-5-4"][-KEPT:]
    assert sorted(path.name for path in (tmp_path / FORKS).iterdir()) == ["fork-3-3", "fork-5-4"]
    assert forks.go_back(3) is None, "there is none from before that view"
    assert [one.is_used for one in forks.kept()] == [False, False]


def test_one_that_has_undone_its_branch_has_gone_back(tmp_path: Path) -> None:
    """By the rewind: its state is that of the log."""
    split, ended = Split(tmp_path, COMMON, [], THEIRS), Ended()
    forks = ForkBackups(tmp_path, split.a.store, ended)
    forks.make(1, most=split.fork)
    say(split.ours, split.a, OURS)
    split.give_way()
    split.a.catch_up()
    assert split.a.store.applied.index > split.fork
    assert forks.go_back(9) is None
    assert [one.is_used for one in forks.kept()] == [True]
    assert ended.asked == 0
