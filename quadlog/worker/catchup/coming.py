"""What is here of a copy that comes: its files are written in their place as they come, and are a store in the end.

Whoever dies meanwhile goes on behind what is here.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from quadlog.aside import ORIGIN, stores_set_aside
from quadlog.damage import told_of
from quadlog.errors import QuadlogError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES, new_copy_id, new_reserved_graph
from quadlog.quadstore.quadstore import QuadStore
from quadlog.snapshots.parcel import Label, Unpacker
from quadlog.worker.repair.mend import QUADS, put_aside

if TYPE_CHECKING:
    from pathlib import Path

COMING: Final = "copy.coming"
"""In a worker's data-dir."""
_SAID: Final = "copy.json"
_HEADS: Final = "heads"
_STORE: Final = "store"
SPARE: Final = 1.1
"""Of a copy's size, that has to be free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What a copy is to be."""

    donor: str
    """URL of the worker that gives it."""
    label: Label
    applied: str
    reserved: str
    fed_from: str = ""
    """From which topics; empty: it does not say."""

    @staticmethod
    def load(directory: Path) -> Announced | None:
        """What is coming in this directory, if anything is."""
        try:
            said: dict[str, Any] = json.loads((directory / _SAID).read_text())
            said["label"] = Label(**said["label"])
            return Announced(**said)
        except (OSError, ValueError, TypeError, KeyError):
            return None


class Coming:
    """A copy of which not all may be here."""

    def __init__(self, directory: Path, announced: Announced) -> None:
        """Go on where it was.

        Raises:
            UserError: what is here is damaged.
            OSError: it cannot be read.

        """
        self._directory, self.announced = directory, announced
        self._unpacker = Unpacker(
            directory / _STORE / FILES, directory / _HEADS, hashed_by=announced.label.hashed_by
        )
        self._unpacker.end_at(announced.label.size)

    @staticmethod
    def begin(directory: Path, announced: Announced) -> Coming:
        """Nothing is here; the directory may be.

        Raises:
            QuadlogError: there is no room for it.
            OSError: it cannot be written.

        """
        refuse_without_room(directory.parent, announced.label.size)
        (directory / _STORE / FILES).mkdir(parents=True)
        (directory / _SAID).write_text(json.dumps(asdict(announced)))
        return Coming(directory, announced)

    @property
    def size(self) -> int:
        """Bytes that are here."""
        return self._unpacker.size

    @property
    def is_whole(self) -> bool:
        """Whether all is here that was announced."""
        return self._unpacker.size == self.announced.label.size

    def feed(self, piece: bytes) -> None:
        """What comes next; raises as `Unpacker.feed`."""
        self._unpacker.feed(piece)

    def close(self) -> None:
        """What is here stays."""
        self._unpacker.close()

    def whole(self) -> Path:
        """The directory of a store that nobody has opened yet.

        Raises:
            UserError: it is not what was announced.

        """
        self.close()
        self._unpacker.end(self.announced.label)
        new = self._directory / _STORE
        new_reserved_graph(new, self.announced.reserved)
        return new

    def put_into(self, data_dir: Path) -> Applied:
        """Have it be the worker's store.  A death between any two steps leaves the old store, or the new one, or none.

        All of it is on the disk before: RocksDB believes that of its files.

        Raises:
            QuadlogError: it is not what was announced.
            OSError: the disk.

        """
        new, applied = self.whole(), Applied.decode(self.announced.applied)
        store = QuadStore.open(new)
        try:
            found = store.applied
            if stores_set_aside(data_dir / QUADS):
                self._prove(store, new)
        finally:
            store.close()
        if found != applied:
            raise QuadlogError(f"the copy is at effect {found.index}, and was said to be at {applied.index}")
        (new / ORIGIN).write_text(f"{self.announced.donor}\n")
        new_copy_id(new)
        sync_store(new)
        put_aside(data_dir)
        new.rename(data_dir / QUADS)
        sync(data_dir)
        shutil.rmtree(self._directory)
        return applied

    def _prove(self, store: QuadStore, path: Path) -> None:
        """Where a damaged store was set aside: what that was copied from may be damaged."""
        applied = store.applied
        with told_of(path):
            found, quads = store.recount()
        if found != applied.signature:
            raise QuadlogError(
                f"the {quads} quads of the copy have the signature {found:064x}, {applied.signature:064x} was applied"
            )


def refuse_without_room(directory: Path, size: int) -> None:
    """Before a copy of so many bytes comes into a directory.

    Raises:
        QuadlogError: its disk has no room for it.

    """
    free = shutil.disk_usage(directory).free
    if free < size * SPARE:
        raise QuadlogError(
            f"{free} bytes are free on the disk of {directory}, the copy has {size}: make room for {SPARE} times that"
        )


def sync_store(store: Path) -> None:
    """All files of a store, and their names."""
    for path in (*(store / FILES).iterdir(), store / FILES, *store.iterdir(), store):
        sync(path)


def sync(path: Path) -> None:
    """A file, or which files a directory has."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
