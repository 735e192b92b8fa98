"""Damage planted into the files of a store, as a disk or a careless hand does it."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

from pyoxigraph import Literal, NamedNode, Quad

from quadlog.core.effects.effect import Change
from quadlog.core.effects.lines import lines_of
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings import WorkerSettings
from tests.support.workers.stores import after

if TYPE_CHECKING:
    from pathlib import Path

LEAST = 20_000
"""Bytes of a table that has quads of the default graph."""
BLOCK = 4096
"""About the bytes of a block of RocksDB's."""


def large_store(path: Path, quads: int = 4_000) -> QuadStore:
    """One whose quads are in files."""
    chance = random.Random(1)
    change = Change(
        inserted=tuple(
            Quad(NamedNode(f"urn:s{n}"), NamedNode("urn:p"), Literal(chance.randbytes(40).hex()))
            for n in range(quads)
        )
    )
    store = QuadStore.open(path)
    store.apply([lines_of(change)], after(store.applied, change))
    store._store.flush()
    return store


def zero(file: Path, at: int, size: int = 16) -> None:
    """Write zeros, from the end where `at` is below 0."""
    with file.open("r+b") as opened:
        opened.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        opened.write(bytes(size))


def tables(files: Path) -> list[Path]:
    """The largest first, once the store no longer replaces any by others."""
    before: list[Path] = []
    while (found := sorted(files.glob("*.sst"))) != before:
        before = found
        time.sleep(0.3)
    return sorted(found, key=lambda file: -file.stat().st_size)


def harm_blocks(files: Path) -> None:
    """In each large table of quads of the default graph some bytes of each block.

    The store opens: what is read at a start is in other tables.  A table ends with the name of what is in it.
    """
    harmed = [
        table
        for table in tables(files)
        if table.stat().st_size > LEAST
        and any(name in table.read_bytes()[-LEAST:] for name in (b"dspo", b"dpos", b"dosp"))
    ]
    assert harmed, "the store is too small"
    for table in harmed:
        size = table.stat().st_size
        for at in range(BLOCK // 4, int(size * 0.9) - 2 * BLOCK, BLOCK // 2):
            zero(table, at)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def harm_all(files: Path, names: str, size: int = 16) -> None:
    for file in files.glob(names):
        zero(file, file.stat().st_size // 2, size)


def remove_all(files: Path, names: str) -> None:
    for file in files.glob(names):
        file.unlink()


def settings_of(data: Path) -> WorkerSettings:
    return WorkerSettings(
        node_id="w1", dc="dc1", kafka="127.0.0.1:1", port=1, data_dir=data, worker_url="http://127.0.0.1:1"
    )
