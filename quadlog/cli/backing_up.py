"""`quadlog backup`: a worker's whole store, counted as stored on disk, in a directory from which workers restore it.

An interrupted transfer resumes where it stopped, also if the command is run again within ten minutes.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import httpx

from quadlog.core.effects.signature import LineCount, render
from quadlog.damage import told_of
from quadlog.errors import SetupError, StateError, StoreDamaged, Unavailable
from quadlog.progress import Phases
from quadlog.quadstore.quaddir import STORE_HERE, sync, sync_store
from quadlog.quadstore.store_reader import StoreReader
from quadlog.snapshots.backups import STORE, Backup, SourceTopicIds
from quadlog.snapshots.chunk_codec import WINDOW, Compression
from quadlog.worker.catchup.stream import CopyStream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from quadlog.worker.catchup.partial_copy import PartialCopy

COMING: Final = "coming."
"""Prefix of the name of a directory with an incomplete backup."""


def run_backup(directory: Path, worker: str, say: Callable[[str], None]) -> Backup:
    """Add one complete backup to a directory, or none.

    Raises:
        SetupError: the directory cannot be used, or another backup of this worker writes to it.
        Unavailable: the worker sends no copy now.
        StateError: the copy is not in the state that the worker announced.

    """
    phases, worker = Phases(), worker.rstrip("/")
    with _room(directory, worker) as room:
        stream = CopyStream(room / "copy", compression=Compression.AUTO, window=WINDOW)
        try:
            coming = _taken(stream, worker, phases)
            try:
                backup = _proven(coming, room / "copy", phases)
            except BaseException:
                stream.forget()  # it is not known which part is wrong
                raise
            there = _named(backup, directory)
        except OSError as error:
            raise SetupError(
                f"{directory} cannot have this backup: {error}. There is no new backup: make room, or give another"
                " directory. Given again within ten minutes it goes on where it was"
            ) from error
    say(
        f"{there.path}: up to entry {there.applied.index}, {there.label.quads} quads, {there.label.size} bytes"
    )
    say(f"signature {there.label.signature}, proven")
    return there


@contextmanager
def _room(directory: Path, worker: str) -> Generator[Path]:
    """Provide a directory for the transfer from a worker, locked against other processes."""
    room = directory / (COMING + re.sub(r"\W+", "-", worker.partition("://")[2]))
    try:
        room.mkdir(parents=True, exist_ok=True)
        opened = os.open(room, os.O_RDONLY)
    except OSError as error:
        raise SetupError(f"{directory} cannot have backups: {error}; give another directory") from error
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(opened)
        raise SetupError(
            f"another `quadlog backup` of {worker} writes to {room}: wait until it is done"
        ) from error
    try:
        yield room
        shutil.rmtree(room, ignore_errors=True)
    finally:
        os.close(opened)


def _taken(stream: CopyStream, worker: str, phases: Phases) -> PartialCopy:
    try:
        with phases.phase("taking", 100, lambda: (stream.progress.percent, 0)):
            return stream.receive(worker)
    except (httpx.HTTPError, Unavailable) as error:
        raise Unavailable(
            f"{worker} gives no copy: {error}. There is no new backup; try again, or another worker"
        ) from error


def _proven(coming: PartialCopy, path: Path, phases: Phases) -> Backup:
    """Count the copy as stored on disk: a faulty store must not become a backup."""
    announced, store = coming.announced, coming.whole()
    if (fed_from := SourceTopicIds.decode(announced.fed_from)) is None:
        raise StateError(
            f"{announced.donor} does not say from which topics it is fed: it was just started. There is no new backup;"
            " try again"
        )
    count = LineCount()
    try:
        with told_of(store):
            stored = StoreReader.read_copy(store)
            with phases.phase("counting", announced.label.quads, lambda: (count.quads, count.quads)):
                count.add(line.encode() for line in stored.lines())
            applied = stored.said()
    except StoreDamaged as error:
        raise StoreDamaged(
            f"the store of {announced.donor} is damaged: {error}. There is no new backup; take another worker, and see"
            " to the disk of this one"
        ) from error
    if applied is None or applied.encode() != announced.applied:
        raise StateError(
            f"what {announced.donor} gave is at another entry than it said: there is no new backup"
        )
    found = render(count.signature)
    if (found, count.quads) != (announced.label.signature, announced.label.quads):
        raise StateError(
            f"{announced.donor} has {count.quads} quads with the signature {found[:16]}…, and applied"
            f" {announced.label.quads} with {announced.label.signature[:16]}…: there is no new backup. It is rebuilt"
            " when its scrub finds that; take another worker"
        )
    return Backup(
        path=path,
        fed_from=fed_from,
        made=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        store=STORE_HERE,
        label=announced.label,
        applied=applied,
        reserved=announced.reserved,
    )


def _named(backup: Backup, directory: Path) -> Backup:
    """Make the files and their description durable, then name the backup, then make the name durable."""
    for path in backup.path.iterdir():
        if path.name != STORE:
            path.unlink()  # needed only to resume the transfer
    backup.save()
    sync_store(backup.path / STORE)
    for path in (*(path for path in backup.path.iterdir() if path.is_file()), backup.path):
        sync(path)
    there = directory / backup.name
    try:
        backup.path.rename(there)
    except OSError as error:
        raise SetupError(f"{backup.path} cannot be named {there}: {error}; rename it, it is whole") from error
    sync(directory)
    return replace(backup, path=there)
