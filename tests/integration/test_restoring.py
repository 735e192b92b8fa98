"""A worker takes its store from the newest backup that is of use, and says of each other one why it is not."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from quadlog.cli.backing_up import run_backup
from quadlog.errors import QuadlogError, Unavailable
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quadstore import QuadStore
from quadlog.snapshots.backups import SAID, Backup, LogExtent
from quadlog.topics import Topics
from quadlog.worker.catchup import partial_copy, stream
from quadlog.worker.catchup.restoring import COMING, Restoring
from quadlog.worker.catchup.store_copying import CopyOffer
from quadlog.worker.repair.mender import QUADS
from tests.support.workers.copies import FED, Taker, filled, giving

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.worker.catchup.store_copying import CopiedStore


@dataclass
class Shelf:
    """Backups in a directory, and a worker that looks for one."""

    path: Path
    taker: Taker
    monkeypatch: pytest.MonkeyPatch
    effects: tuple[int, int] = (0, 1000)
    """What that topic has."""

    def __post_init__(self) -> None:
        """Nothing is there."""
        self.directory = self.path / "backups"
        self.settings = self.taker.settings.model_copy(update={"backups": self.directory})
        self.monkeypatch.setattr(stream, "PAUSE_S", 0.0)
        self.monkeypatch.setattr(Restoring, "_log", lambda _: LogExtent(FED, (0, 1000), self.effects))
        self.restoring = Restoring(self.settings, Topics("main", "dc1"))
        self.room = 0

    def add(self, index: int, *, quads: int = 300) -> Backup:
        """One more, of a store that goes on at the offset that is ten times its index."""
        store = filled(self.path / f"store{index}", quads, index=index, effects_offset=10 * index)
        with giving(store, self.path / f"out{index}") as giver:
            backup = run_backup(self.directory, giver.url, print)
        store.close()
        return backup

    def make_room(self) -> None:
        self.room += 1

    def take(self) -> tuple[CopiedStore | str, dict[str, str]]:
        """What came, or why nothing; and what is said of those that were of no use."""
        store = self.taker.opened()
        applied = store.applied
        store.close()
        with capture_logs() as said:
            try:
                found: CopiedStore | str = self.restoring.restore(applied, self.make_room)
            except Unavailable as error:
                found = str(error)
        refused = [one for one in said if one["event"] == "backup_refused"]
        return found, {Path(one["backup"]).name: str(one["reason"]) for one in refused}

    def check(self, backup: Backup) -> None:
        """The worker's store is this one, and nothing else is left."""
        store = QuadStore.open(self.taker.directory / QUADS)
        assert store.applied == backup.applied
        assert store.recount() == (store.applied.signature, backup.label.quads)
        assert set(store.controls) == {"one"}
        store.close()
        assert sorted(path.name for path in self.taker.directory.iterdir()) == ["quads", "quads.wrong"]


@pytest.fixture
def shelf(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    return Shelf(tmp_path, taker, monkeypatch)


def test_the_newest_is_taken(shelf: Shelf) -> None:
    shelf.add(7)
    newest = shelf.add(9, quads=400)
    shelf.add(8)
    assert shelf.restoring.offer(Applied()) == CopyOffer(
        donor=str(newest.path), index=9, size=newest.label.size, is_backup=True
    )
    found, refused = shelf.take()
    assert (found, refused) == ((newest.applied, newest.label.size, newest.label.size), {})
    shelf.check(newest)
    assert shelf.room == 1
    assert shelf.restoring.progress.percent == 100


def turned(path: Path) -> None:
    largest = max(path.rglob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)


def shorter(path: Path) -> None:
    largest = max(path.rglob("*.sst"), key=lambda file: file.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1])


def without_a_file(path: Path) -> None:
    next(path.rglob("*.sst")).unlink()


def with_another_applied(path: Path) -> None:
    """Told by the store alone: the digest is of its files."""
    told(path, applied=replace(Backup.load(path).applied, index=11).encode())


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (turned, "its files are not those that were counted"),
        (shorter, "its files are not those that were counted"),
        (without_a_file, "its files are not those that were counted"),
        (with_another_applied, "the copy is at effect 9, and was said to be at 11"),
    ],
)
def test_a_damaged_one_is_said_once_and_the_next_one_is_taken(
    damage: Callable[[Path], None], why: str, shelf: Shelf
) -> None:
    """And it is not read a second time."""
    older, damaged = shelf.add(7), shelf.add(9)
    damage(damaged.path)
    shelf.effects = 80, 1000
    found, refused = shelf.take()
    assert refused[damaged.path.name] == f"it is damaged: {why}"
    assert refused[older.path.name] == "it goes on at offset 70 of the effects topic, which has 80 to 1000"
    assert str(found).startswith("no backup is usable: main.dc1-")
    assert why in str(found)
    assert (shelf.restoring.progress.percent, shelf.restoring.progress.left_s) == (0, None)
    shelf.effects = 70, 1000
    with shelf.monkeypatch.context() as patched:
        whole = Restoring._whole

        def once(here: Restoring, backup: Backup) -> CopiedStore:
            assert backup.path == older.path
            return whole(here, backup)

        patched.setattr(Restoring, "_whole", once)
        found, refused = shelf.take()
    assert (found, refused) == (
        (older.applied, older.label.size, older.label.size),
        {damaged.path.name: f"it is damaged: {why}"},
    )
    shelf.check(older)


def told(path: Path, **changes: object) -> None:
    """What it says of itself is other."""
    said = json.loads((path / SAID).read_text())
    (path / SAID).write_text(json.dumps(said | changes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"repository": "other"}, "it is of the repository other, and this one is main"),
        ({"dc": "dc2"}, "it was taken in dc2, and dc1 has other offsets"),
        ({"agreed_id": "B"}, "the topics of this data centre were created again since"),
        ({"effects_id": "B"}, "the topics of this data centre were created again since"),
        ({"store": "oxigraph 0.4"}, "its store is of oxigraph 0.4, and here is oxigraph 0."),
        ({"format": 2}, "it is of format 2, and this version reads 1"),
        ({"applied": "nonsense"}, "its backup.json cannot be read: ValueError"),
        ({"label": {}}, "its backup.json cannot be read: TypeError"),
    ],
)
def test_one_that_is_not_for_this_worker_is_passed_over(
    changes: dict[str, object], why: str, shelf: Shelf
) -> None:
    older, other = shelf.add(7), shelf.add(9)
    told(other.path, **changes)
    found, refused = shelf.take()
    assert list(refused) == [other.path.name]
    assert refused[other.path.name].startswith(why)
    assert not isinstance(found, str)
    shelf.check(older)


@pytest.mark.parametrize(
    ("effects", "why"),
    [
        ((91, 1000), "it goes on at offset 90 of the effects topic, which has 91 to 1000"),
        ((0, 89), "it goes on at offset 90 of the effects topic, which has 0 to 89"),
    ],
)
def test_one_that_the_log_does_not_go_on_behind(effects: tuple[int, int], why: str, shelf: Shelf) -> None:
    """The log was shortened since, or has lost its end: nothing comes, and the old store stays."""
    backup = shelf.add(9)
    shelf.effects = effects
    assert shelf.restoring.offer(Applied()) is None
    found, refused = shelf.take()
    assert refused == {backup.path.name: why}
    assert found == f"no backup is usable: {backup.path.name}: {why}"
    assert shelf.room == 0
    store = shelf.taker.opened()
    assert store.applied.index == 3
    store.close()


def test_one_that_is_no_newer(shelf: Shelf) -> None:
    backup = shelf.add(9)
    shelf.take()
    _, refused = shelf.take()
    assert refused == {backup.path.name: "it is no newer than the store here, with entry 9"}


def test_where_there_is_no_room_a_smaller_one_is_taken(shelf: Shelf) -> None:
    smaller, larger = shelf.add(7), shelf.add(9, quads=5000)
    free = (larger.label.size + smaller.label.size) // 2
    with shelf.monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
        _, refused = shelf.take()
    assert list(refused) == [larger.path.name]
    assert refused[larger.path.name].startswith(f"{free} bytes are free on the disk of ")
    shelf.check(smaller)
    _, refused = shelf.take()
    assert refused == {smaller.path.name: "it is no newer than the store here, with entry 7"}
    shelf.check(larger)


def test_who_dies_goes_on_afterwards(shelf: Shelf) -> None:
    backup = shelf.add(9, quads=20_000)

    class _Dies(BaseException):
        pass

    def dying() -> float:
        clock.append(time.monotonic())
        if len(clock) > 20:
            raise _Dies
        return clock[-1]

    clock: list[float] = []
    with shelf.monkeypatch.context() as patched:
        patched.setattr(partial_copy, "time", SimpleNamespace(monotonic=dying, time=time.time))
        with pytest.raises(_Dies):
            shelf.take()
    assert (shelf.taker.directory / COMING).exists()
    found, _ = shelf.take()
    assert not isinstance(found, str)
    assert 0 < found.came < found.size
    shelf.check(backup)


def test_where_none_is_there_it_says_so(shelf: Shelf) -> None:
    assert shelf.take()[0] == f"{shelf.directory} cannot be read, where backups must be: {missing(shelf)}"
    shelf.directory.mkdir()
    assert shelf.take()[0] == f"no backup is usable: there is none in {shelf.directory}"
    assert shelf.restoring.offer(Applied()) is None
    (shelf.directory / "lost+found").mkdir()
    assert shelf.take() == (f"no backup is usable: there is none in {shelf.directory}", {})
    names = [f"main.dc1-{number:012d}-20260101T000000Z" for number in range(5)]
    for name in names:
        (shelf.directory / name).mkdir()
    found, refused = shelf.take()
    assert list(refused) == names
    assert str(found).endswith("; and 2 more, see this worker's log")


def missing(shelf: Shelf) -> OSError:
    return FileNotFoundError(2, "No such file or directory", str(shelf.directory))


def test_where_nothing_is_set_nothing_is_looked_at(taker: Taker) -> None:
    here = Restoring(taker.settings, Topics("main", "dc1"))
    assert (here.is_set, here.offer(Applied())) == (False, None)


def test_where_kafka_does_not_answer_none_is_considered(shelf: Shelf) -> None:
    shelf.add(9)

    def gone(_: Restoring) -> LogExtent:
        raise QuadlogError("no broker answers")

    shelf.monkeypatch.setattr(Restoring, "_log", gone)
    assert shelf.restoring.offer(Applied()) is None
