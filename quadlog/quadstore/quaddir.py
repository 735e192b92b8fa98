"""The directory of a quad store: its lock, its name, and the name of its reserved graph."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import pyoxigraph
from pyoxigraph import NamedNode, Store

from quadlog.core.sparql.text.syntax import RESERVED_PREFIX
from quadlog.damage import refuse_damage
from quadlog.errors import SetupError, StoreDamaged

if TYPE_CHECKING:
    from pathlib import Path


FILES: Final = "quads"
"""pyoxigraph's subdirectory in the directory of a store."""

STORE_HERE: Final = "oxigraph " + ".".join(pyoxigraph.__version__.split(".")[:2])
"""Version of the stores that can be used here: another version's store might open, and become unreadable to that
version once it is written."""

_NAME: Final = "reserved-graph"
_COPY_ID: Final = "copy-id"


def open_locked(path: Path) -> Store:
    """Open pyoxigraph's files.

    Raises:
        SetupError: another process holds them, or they cannot be opened.
        StoreDamaged: they are damaged.

    """
    owner = path / "owner"
    try:
        store = Store(path / FILES)
    except (OSError, RuntimeError) as error:
        refuse_damage(error, path)
        if "lock" not in str(error).lower():
            raise SetupError(f"StoreUnusable: {path}: {error}") from error
        held_by = "another process"
        with suppress(OSError):
            held_by = f"process {owner.read_text().strip()}"
        raise SetupError(
            f"StoreLocked: {path} is held by {held_by}; stop it, or give this worker another directory"
        ) from error
    owner.write_text(f"{os.getpid()}\n")
    return store


def reserved_graph(path: Path, store: Store) -> NamedNode:
    """Return the name of the reserved graph, which is generated with the store and cannot be guessed."""
    file = path / _NAME
    if file.exists():
        try:
            return NamedNode(file.read_text().strip())
        except ValueError as error:
            raise StoreDamaged(f"{file} does not hold the name of a graph: {error}") from error
    if next(store.named_graphs(), None) is not None or len(store):
        raise StoreDamaged(f"{path}: the file {file.name} is missing beside the quads")
    return new_reserved_graph(path)


def new_reserved_graph(path: Path, value: str | None = None) -> NamedNode:
    """Write the name of the reserved graph of the store in this directory: `value`, or a generated name."""
    file = path / _NAME
    name = NamedNode(value or f"{RESERVED_PREFIX}{secrets.token_hex(16)}")
    draft = file.with_suffix(".new")
    draft.write_text(f"{name.value}\n")
    with draft.open() as written:
        os.fsync(written.fileno())
    draft.replace(file)
    return name


def copy_name(path: Path, copy: Path) -> None:
    """Copy the name of the reserved graph into the copy of a store."""
    (copy / _NAME).write_bytes((path / _NAME).read_bytes())


def new_copy_id(path: Path) -> None:
    """Give the copy in this directory another name than its original and all earlier copies have (see `name_of`)."""
    (path / _COPY_ID).write_text(f"{secrets.token_hex(16)}\n")


def name_of(path: Path, reserved: NamedNode) -> str:
    """Return a name that distinguishes the store in this directory from earlier ones there.

    It is a hash, which does not reveal the name of the reserved graph.
    """
    copy_id = b""  # a store that was created here has none
    with suppress(FileNotFoundError):
        copy_id = (path / _COPY_ID).read_bytes()
    return blake2b(reserved.value.encode() + copy_id, digest_size=8).hexdigest()


def sync_store(store: Path) -> None:
    """Make all files of a store, and their names, durable."""
    for path in (*(store / FILES).iterdir(), store / FILES, *store.iterdir(), store):
        sync(path)


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def link_tables(source: Path, target: Path) -> None:
    """Copy pyoxigraph's files: tables are shared, because they are never written again; the rest is small."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix == ".sst":
            os.link(file, target / file.name)
        else:
            shutil.copyfile(file, target / file.name)


def link_store(source: Path, target: Path) -> None:
    """Make an independent store of one that no process has open, with another name (see `name_of`), durable."""
    link_tables(source / FILES, target / FILES)
    copy_name(source, target)
    new_copy_id(target)
    sync_store(target)


def touched_at(path: Path) -> int:
    """Return when pyoxigraph's files here were last changed, in milliseconds since 1970; 0: there are none."""
    times = [0]
    with suppress(OSError), os.scandir(path / FILES) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                times.append(entry.stat().st_mtime_ns // 1_000_000)
    return max(times)


def bytes_of(path: Path) -> int:
    """Return the bytes of pyoxigraph's files in the directory of a store, without the write-ahead log.

    Files may disappear while they are counted.
    """
    size = 0
    with os.scandir(path / FILES) as entries:
        for entry in entries:
            if entry.name.endswith(".log"):
                continue
            with suppress(FileNotFoundError):
                size += entry.stat().st_size
    return size
