"""`quadlog backup` over real HTTP: a whole store that was counted, or nothing, whatever goes wrong on the way."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyoxigraph import Literal, NamedNode, Quad
from typer.testing import CliRunner

from quadlog.cli import app, backing_up
from quadlog.cli.backing_up import COMING, run_backup
from quadlog.errors import QuadlogError, SetupError, StateError, Unavailable
from quadlog.leash import leashed
from quadlog.quadstore.quaddir import STORE_HERE
from quadlog.quadstore.quadstore import QuadStore
from quadlog.snapshots import store_archive
from quadlog.snapshots.backups import Backup, SourceTopicIds, backups_in
from quadlog.snapshots.store_archive import label_of
from quadlog.worker.catchup import stream
from quadlog.worker.catchup.partial_copy import PartialCopy
from tests.support.clusters.cluster import until
from tests.support.workers.copies import FED, SMALL, Giver, dying, filled, giving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store(tmp_path: Path) -> Iterator[QuadStore]:
    opened = filled(tmp_path / "store", 5000)
    yield opened
    opened.close()


@pytest.fixture
def giver(store: QuadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Giver]:
    monkeypatch.setattr(stream, "PAUSE_S", 0.0)
    monkeypatch.setattr(store_archive, "PIECE", SMALL)
    with giving(store, tmp_path / "out") as running:
        yield running


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "a" / "backups"


def check(directory: Path, backup: Backup, store: QuadStore) -> None:
    """It is all that is there, and it is the store."""
    assert list(directory.iterdir()) == [backup.path] == backups_in(directory)
    assert Backup.load(backup.path) == backup
    assert (backup.fed_from, backup.store, backup.applied) == (FED, STORE_HERE, store.applied)
    applied, label = store.applied, backup.label
    assert label_of(backup.files, signature=label.signature, quads=applied.quads) == label
    assert (label.signature, label.quads) == (f"{applied.signature:064x}", applied.quads)
    opened = QuadStore.open(backup.path / "store")
    assert (opened.recount(), opened.controls) == (store.recount(), store.controls)
    opened.close()


def test_a_backup_is_the_whole_store(store: QuadStore, giver: Giver, directory: Path) -> None:
    done = CliRunner().invoke(app, ["backup", str(directory), "--from", f"{giver.url}/"])
    assert done.exit_code == 0, done.output
    [path] = directory.iterdir()
    backup = Backup.load(path)
    assert path.name == backup.name
    assert path.name.startswith("main.dc1-000000000007-2")
    assert f"{path}: up to entry 7, 5000 quads, {backup.label.size} bytes" in done.stdout
    assert f"signature {store.applied.signature:064x}, proven" in done.stdout
    check(directory, backup, store)


def test_it_is_on_the_disk_before_it_has_its_name(
    giver: Giver, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    named: list[Path] = []
    sync, rename = os.fsync, Path.rename

    def syncing(opened: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{opened}").readlink()))
        sync(opened)

    def renaming(path: Path, target: Path) -> Path:
        if target.parent == directory:
            within = {file for file in path.rglob("*") if file.is_file() or file.is_dir()}
            assert {str(file) for file in (path, *within)} <= set(synced)
            assert len(within) > 5
            named.append(target)
            synced.clear()
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Path, "rename", renaming)
    backup = run_backup(directory, giver.url, print)
    assert named == [backup.path]
    assert synced == [str(directory)]


def test_it_goes_on_where_it_was_cut_off(store: QuadStore, giver: Giver, directory: Path) -> None:
    giver.cut_after = [30_000, 0, 50_001]
    check(directory, run_backup(directory, giver.url, print), store)
    assert giver.made == 1
    assert len(giver.asked) == 4
    assert giver.asked == sorted(giver.asked)


def test_who_died_goes_on_when_it_is_given_again(
    store: QuadStore, giver: Giver, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver.cut_after = [40_000]
    with dying(monkeypatch):
        run_backup(directory, giver.url, print)
    assert backups_in(directory) == []
    check(directory, run_backup(directory, giver.url, print), store)
    assert giver.made == 1
    assert giver.asked[-1] > 0


def test_a_command_that_is_killed_goes_on_when_it_is_given_again(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_archive, "PIECE", SMALL)
    store = filled(tmp_path / "store", 20_000)
    with giving(store, tmp_path / "out", bandwidth=1_000_000.0) as giver:
        command = leashed([sys.executable, "-m", "quadlog", "backup", str(directory), "--from", giver.url])
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            until(lambda: sum(file.stat().st_size for file in directory.rglob("*.sst")) > 20 * SMALL)
            running.kill()
        assert backups_in(directory) == []
        check(directory, run_backup(directory, giver.url, print), store)
        assert giver.made == 1
        assert [giver.asked[0], giver.asked[-1] >= 20 * SMALL] == [0, True]
    store.close()


@pytest.mark.parametrize("step", ["unlink", "rename"])
def test_who_died_at_the_end_begins_again(
    step: str, store: QuadStore, giver: Giver, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of it there, but for its name."""

    class _Dies(BaseException):
        pass

    real = getattr(Path, step)

    def dying(path: Path, *said: object, **more: object) -> object:
        if any(part.startswith(COMING) for part in path.parts):
            raise _Dies
        return real(path, *said, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, step, dying)
        with pytest.raises(_Dies):
            run_backup(directory, giver.url, print)
    assert backups_in(directory) == []
    check(directory, run_backup(directory, giver.url, print), store)


def test_what_is_wrong_in_the_store_goes_into_no_backup(
    store: QuadStore, giver: Giver, directory: Path
) -> None:
    store._store.add(Quad(NamedNode("urn:s"), NamedNode("urn:p"), Literal("not agreed")))
    with pytest.raises(
        StateError, match=r"has 5001 quads with the signature .* and applied 5000 with .* no new"
    ):
        run_backup(directory, giver.url, print)
    assert backups_in(directory) == []
    store._store.remove(Quad(NamedNode("urn:s"), NamedNode("urn:p"), Literal("not agreed")))
    check(directory, run_backup(directory, giver.url, print), store)
    assert giver.made == 2, "what was wrong is not taken up again"


@pytest.mark.parametrize("damage", ["turned", "none", "busy", "old", "other version"])
def test_where_there_is_none_it_says_why(
    damage: str, store: QuadStore, tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PAUSE_S", 0.0)
    monkeypatch.setattr(stream, "TRIES", 2)
    fed_from: SourceTopicIds | None = None if damage == "old" else FED
    wanted: dict[str, tuple[type[QuadlogError], str]] = {
        "turned": (Unavailable, "a chunk has not the digest"),
        "none": (Unavailable, "refused, 2 times. There is no new backup; try again, or another worker"),
        "busy": (Unavailable, "gives a copy to another one: .*, 2 times"),
        "old": (StateError, "does not say from which topics it is fed"),
        "other version": (
            QuadlogError,
            r"the store here is of oxigraph \d.*, and the receiver reads oxigraph 0\.4",
        ),
    }
    with giving(store, tmp_path / "out", fed_from=fed_from) as giver:
        if damage == "turned":
            giver.turned = 20
        if damage == "busy":
            giver.door._busy_until = float("inf")
        if damage == "other version":
            monkeypatch.setattr(stream, "STORE_HERE", "oxigraph 0.4")
        url = "http://127.0.0.1:1" if damage == "none" else giver.url
        error, words = wanted[damage]
        with pytest.raises(error, match=words):
            run_backup(directory, url, print)
    assert backups_in(directory) == []


def test_a_directory_that_is_of_no_use(
    giver: Giver, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.parent.mkdir()
    directory.write_text("in the way")
    with pytest.raises(SetupError, match=r"cannot have backups: .* give another directory"):
        run_backup(directory, giver.url, print)
    directory.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000))
        with pytest.raises(QuadlogError, match=r"10000 bytes are free on the disk of .*, the copy has"):
            run_backup(directory, giver.url, print)
    assert backups_in(directory) == []
    assert list(directory.glob(f"{COMING}*/*")) == []
    with (
        backing_up._room(directory, giver.url),
        pytest.raises(SetupError, match=r"another `quadlog backup` of .* wait until it is done"),
    ):
        run_backup(directory, giver.url, print)


def test_a_disk_that_fills_up_while_it_comes(
    store: QuadStore, giver: Giver, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do, and goes on where it was when there is room."""
    feed, taken = PartialCopy.feed, 0

    def full(self: PartialCopy, piece: bytes) -> None:
        nonlocal taken
        if taken == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken += 1
        feed(self, piece)

    with monkeypatch.context() as patched:
        patched.setattr(PartialCopy, "feed", full)
        with pytest.raises(SetupError, match=r"No space left on device.*There is no new backup: make room"):
            run_backup(directory, giver.url, print)
    check(directory, run_backup(directory, giver.url, print), store)
    assert giver.made == 1
    assert giver.asked[-1] > 0
