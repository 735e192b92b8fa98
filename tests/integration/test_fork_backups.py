"""Fork backups: what a worker goes back to, on a real store."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import Unavailable
from quadlog.quadstore.quadstore import QuadStore
from quadlog.worker.repair import fork_backups
from quadlog.worker.repair.fork_backups import KEPT, ForkBackups, finish_return
from quadlog.worker.repair.mender import FORKS
from tests.support.workers.rehearsal import Log, Worker
from tests.support.workers.sides import COMMON, OURS, THEIRS, Split, say, whole_of

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.quadstore.applied import Applied


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


ONE, TWO, THREE = ("01" * 32, "02" * 32, "03" * 32)
"""Ids of views."""


def split_in(path: Path, log: Log, ended: Ended | None = None) -> tuple[Worker, ForkBackups]:
    """A worker with a backup of what it had applied before a split, and one more effect applied since."""
    worker = worker_in(path, log)
    does(worker, "<urn:a> a 1")
    forks = ForkBackups(path, worker.store, ended or Ended())
    forks.make(ONE, 1, most=9)
    forks.confirm(ONE)
    does(worker, "<urn:b> a 1")
    return worker, forks


def test_it_goes_back_and_applies_the_same_log_again(tmp_path: Path) -> None:
    log = Log()
    worker = worker_in(tmp_path, log)
    does(worker, "<urn:a> a 1", "<urn:b> a 1")
    ended = Ended()
    forks = ForkBackups(tmp_path, worker.store, ended)
    assert forks.make(ONE, 4, most=2)
    assert forks.confirm(ONE)
    does(worker, "<urn:c> a 1", "<urn:d> a 1")
    after, name = whole_of(worker), worker.store.name
    assert forks.end(goes_back=True) is not None
    assert forks.end(goes_back=True) is not None, "a request that is repeated has the same answer"
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
    assert forks.end(goes_back=True) is None, "it was there already"
    assert ended.asked == 1


def test_one_that_dies_on_the_way_goes_back_when_it_is_asked_again(tmp_path: Path) -> None:
    log = Log()
    worker, forks = split_in(tmp_path, log)
    assert forks.end(goes_back=True)
    worker.close()  # and the process is killed
    again = Worker(tmp_path, log, "quads")
    assert ForkBackups(tmp_path, again.store, Ended()).end(goes_back=True)


def test_a_backup_stays_what_it_is_whatever_becomes_of_the_store(tmp_path: Path) -> None:
    log = Log()
    worker = worker_in(tmp_path, log)
    does(worker, "<urn:a> a 1")
    forks = ForkBackups(tmp_path, worker.store, Ended())
    forks.make(ONE, 4, most=1)
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
        forks.make(ONE, 4, most=1)
    assert forks.kept() == []
    forks.make(ONE, 4, most=2)
    forks.confirm(ONE)
    does(worker, "<urn:c> a 1")
    assert not forks.make(ONE, 4, most=3), "that view is over: a late request replaces nothing"


def test_one_for_each_view_and_the_newest_stay(tmp_path: Path) -> None:
    worker = worker_in(tmp_path, Log())
    forks = ForkBackups(tmp_path, worker.store, Ended())
    does(worker, "<urn:a> a 1")
    assert forks.make(ONE, 1, most=9)
    assert not forks.make(ONE, 1, most=9), "it is there"
    does(worker, "<urn:b> a 1")
    assert forks.make(ONE, 1, most=9)
    assert [one.name for one in forks.kept()] == ["fork-1-2"]
    for epoch, view in ((3, TWO), (5, THREE)):
        does(worker, f"<urn:{epoch}> a 1")
        assert forks.make(view, epoch, most=9)
    assert [one.name for one in forks.kept()] == ["fork-3-3", "fork-5-4"][-KEPT:]
    assert sorted(path.name for path in (tmp_path / FORKS).iterdir()) == ["fork-3-3", "fork-5-4"]


@pytest.mark.parametrize("is_split", [False, True])
def test_only_what_a_split_followed_on_is_gone_back_to(tmp_path: Path, is_split: bool) -> None:  # noqa: FBT001
    """A member that was silent for some rounds, and was heard again, leaves a backup that nobody needs."""
    worker = worker_in(tmp_path, Log())
    ended = Ended()
    forks = ForkBackups(tmp_path, worker.store, ended)
    does(worker, "<urn:a> a 1")
    forks.make(ONE, 1, most=9)
    assert forks.confirm(ONE if is_split else TWO) == is_split
    does(worker, "<urn:b> a 1")
    assert (forks.end(goes_back=True) is not None) == is_split
    assert ended.asked == is_split


def test_of_two_splits_one_after_the_other_the_first_one_counts(tmp_path: Path) -> None:
    """All were together before it; what followed is done again in any case."""
    worker = worker_in(tmp_path, Log())
    forks = ForkBackups(tmp_path, worker.store, Ended())
    for epoch, view in ((1, ONE), (3, TWO)):
        does(worker, f"<urn:{epoch}> a 1")
        forks.make(view, epoch, most=9)
        forks.confirm(view)
    does(worker, "<urn:a> a 1")
    found = forks.end(goes_back=True)
    assert found is not None
    assert found.name == "fork-1-1"
    assert [one.is_used for one in forks.kept()] == [False, True], "the first one once it is there"


def test_with_smart_it_stays_where_it_is_also_if_simple_is_set_later(tmp_path: Path) -> None:
    ended = Ended()
    _, forks = split_in(tmp_path, Log(), ended)
    assert forks.end(goes_back=False) is None
    assert forks.end(goes_back=True) is None
    assert ended.asked == 0


def test_one_that_the_log_does_not_reach_back_to_is_no_way_back(tmp_path: Path) -> None:
    """The store that is served may be the last one of its data centre."""
    worker = worker_in(tmp_path, Log())
    ended, said = Ended(), list[str]()

    def lacks(_: Applied) -> str:
        if not said:
            raise Unavailable("no broker answers")
        return said[0]

    forks = ForkBackups(tmp_path, worker.store, ended, lacks=lacks)
    does(worker, "<urn:a> a 1")
    forks.make(ONE, 1, most=9)
    forks.confirm(ONE)
    does(worker, "<urn:b> a 1")
    with pytest.raises(Unavailable):
        forks.end(goes_back=True)
    assert [one.is_used for one in forks.kept()] == [False], "it is asked again"
    said.append("main.dc1.effects begins at offset 7")
    assert forks.end(goes_back=True) is None
    assert [one.is_used for one in forks.kept()] == [True]
    assert ended.asked == 0


def test_that_of_a_split_stays_while_it_may_be_needed(tmp_path: Path) -> None:
    """Members that are silent for a while, and are heard again, push out no other."""
    worker = worker_in(tmp_path, Log())
    forks = ForkBackups(tmp_path, worker.store, Ended())
    for number in range(1, 6):
        does(worker, f"<urn:{number}> a 1")
        forks.make(f"{number:02}" * 32, number, most=9)
        if number == 1:
            forks.confirm(ONE)
    assert [one.epoch for one in forks.kept()] == [1, 4, 5]
    found = forks.end(goes_back=True)
    assert found is not None
    assert found.epoch == 1
    does(worker, "<urn:more> a 1")
    assert not forks.make("06" * 32, 6, most=9), "it goes"
    assert forks.wanted in forks.kept()


def test_what_a_crash_left_is_removed(tmp_path: Path) -> None:
    worker = worker_in(tmp_path, Log())
    does(worker, "<urn:a> a 1")
    forks = ForkBackups(tmp_path, worker.store, Ended())
    forks.make(ONE, 1, most=9)
    broken = tmp_path / FORKS / "fork-8-2"
    shutil.copytree(tmp_path / FORKS / "fork-1-1", broken)
    (broken / "fork.json").write_text("")
    (tmp_path / FORKS / "making").mkdir()
    again = ForkBackups(tmp_path, worker.store, Ended())
    assert [one.name for one in again.kept()] == ["fork-1-1"]
    assert [path.name for path in (tmp_path / FORKS).iterdir()] == ["fork-1-1"]


@pytest.mark.parametrize("step", ["put_aside", "finish_return"])
def test_one_that_dies_between_two_steps_has_one_of_both_stores(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    worker, forks = split_in(tmp_path, log)
    after = whole_of(worker)
    forks.end(goes_back=True)
    worker.close()
    monkeypatch.setattr(fork_backups, step, dies)
    with pytest.raises(KeyboardInterrupt):
        forks.put_back()
    finish_return(tmp_path)
    again = Worker(tmp_path, log, "quads")
    assert again.store.applied.index == (2 if step == "put_aside" else 1)
    again.catch_up()
    assert whole_of(again) == after
    ForkBackups(tmp_path, again.store, Ended())
    assert not [path for path in tmp_path.glob("quads.*") if path.name != "quads.wrong"]


def dies(_: Path) -> None:
    raise KeyboardInterrupt


def test_where_there_is_no_space_the_store_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    worker, forks = split_in(tmp_path, log)
    forks.end(goes_back=True)
    worker.close()

    def no_space(source: Path, target: Path) -> None:
        raise OSError(f"no space for {target}, of {source}")

    monkeypatch.setattr(fork_backups, "link_store", no_space)
    forks.put_back()
    again = Worker(tmp_path, log, "quads")
    assert again.store.applied.index == 2
    assert [one.is_used for one in forks.kept()] == [True], "it is not asked for ever"


def test_one_put_back_by_hand_is_another_store(tmp_path: Path) -> None:
    """As `docs/operating.md` has it: masters and the worker itself know the store by its name."""
    log = Log()
    worker = worker_in(tmp_path, log)
    does(worker, "<urn:a> a 1")
    forks = ForkBackups(tmp_path, worker.store, Ended())
    forks.make(ONE, 1, most=9)
    name = worker.store.name
    worker.close()
    shutil.rmtree(tmp_path / "quads")
    shutil.copytree(tmp_path / FORKS / "fork-1-1" / "quads", tmp_path / "quads")
    assert QuadStore.open(tmp_path / "quads").name != name


def test_one_that_has_undone_its_branch_has_gone_back(tmp_path: Path) -> None:
    """By the rewind: its state is that of the log."""
    split, ended = Split(tmp_path, COMMON, [], THEIRS), Ended()
    forks = ForkBackups(tmp_path, split.a.store, ended)
    forks.make(ONE, 1, most=split.fork)
    forks.confirm(ONE)
    say(split.ours, split.a, OURS)
    split.give_way()
    split.a.catch_up()
    assert split.a.store.applied.index > split.fork
    assert forks.end(goes_back=True) is None
    assert [one.is_used for one in forks.kept()] == [True]
    assert ended.asked == 0
