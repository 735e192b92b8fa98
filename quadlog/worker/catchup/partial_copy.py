"""The received part of a copy: its files are written in place as they arrive, and are a store in the end.

After a crash, the copy continues after this part.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from quadlog.damage import told_of
from quadlog.errors import QuadlogError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES, new_copy_id, new_reserved_graph, sync, sync_store
from quadlog.quadstore.quadstore import QuadStore
from quadlog.set_aside import ORIGIN, stores_set_aside
from quadlog.snapshots.store_archive import ArchiveExtractor, ArchiveManifest
from quadlog.worker.repair.mender import QUADS, put_aside

if TYPE_CHECKING:
    from pathlib import Path

COMING: Final = "copy.coming"
"""Directory of a copy that is being received, in a worker's data-dir."""
_SAID: Final = "copy.json"
_HEADS: Final = "heads"
_STORE: Final = "store"
SPARE: Final = 1.1
"""Free space on the disk that a copy requires, as a multiple of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDescription:
    """Announced properties of a copy."""

    donor: str
    """URL of the worker that gives it, or path of the backup."""
    label: ArchiveManifest
    applied: str
    reserved: str
    fed_from: str = ""
    """Topics that its store was fed from; empty: not reported."""

    @staticmethod
    def load(directory: Path) -> CopyDescription | None:
        """Return the announced properties of the copy in this directory; None if there is none."""
        try:
            said: dict[str, Any] = json.loads((directory / _SAID).read_text())
            said["label"] = ArchiveManifest(**said["label"])
            return CopyDescription(**said)
        except (OSError, ValueError, TypeError, KeyError):
            return None


class PartialCopy:
    """A copy that may be incomplete."""

    def __init__(self, directory: Path, announced: CopyDescription) -> None:
        """Continue after the part that is here.

        Raises:
            UserError: that part is damaged.
            OSError: it cannot be read.

        """
        self._directory, self.announced = directory, announced
        self._unpacker = ArchiveExtractor(directory / _STORE / FILES, directory / _HEADS)
        self._unpacker.end_at(announced.label.size)

    @staticmethod
    def begin(directory: Path, announced: CopyDescription) -> PartialCopy:
        """Begin a copy of which nothing is here; the directory may exist.

        Raises:
            QuadlogError: there is no room for it.
            OSError: it cannot be written.

        """
        refuse_without_room(directory.parent, announced.label.size)
        (directory / _STORE / FILES).mkdir(parents=True)
        (directory / _SAID).write_text(json.dumps(asdict(announced)))
        return PartialCopy(directory, announced)

    @property
    def size(self) -> int:
        """Number of bytes that are here."""
        return self._unpacker.size

    @property
    def is_whole(self) -> bool:
        """True if all announced bytes are here."""
        return self._unpacker.size == self.announced.label.size

    def feed(self, piece: bytes) -> None:
        """Add the next bytes; raises as `ArchiveExtractor.feed`."""
        self._unpacker.feed(piece)

    def close(self) -> None:
        """Stop writing; the part that is here stays."""
        self._unpacker.close()

    def whole(self) -> Path:
        """Check the complete copy, and return the directory of its store, which was not opened yet.

        Raises:
            UserError: it is not what was announced.

        """
        self.close()
        self._unpacker.end(self.announced.label)
        new = self._directory / _STORE
        new_reserved_graph(new, self.announced.reserved)
        return new

    def put_into(self, data_dir: Path) -> Applied:
        """Make it the worker's store.  A crash between any two steps leaves the old store, or the new one, or none.

        All of it must be durable before it is renamed: RocksDB assumes that of its files.

        Raises:
            QuadlogError: it is not what was announced.
            OSError: the disk failed.

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
        """Recount the copy; used if a damaged store was set aside, because the source of that store may be damaged."""
        applied = store.applied
        with told_of(path):
            found, quads = store.recount()
        if found != applied.signature:
            raise QuadlogError(
                f"the {quads} quads of the copy have the signature {found:064x}, {applied.signature:064x} was applied"
            )


def refuse_without_room(directory: Path, size: int) -> None:
    """Check that there is room for a copy of `size` bytes, before it arrives in a directory.

    Raises:
        QuadlogError: its disk has no room for it.

    """
    free = shutil.disk_usage(directory).free
    if free < size * SPARE:
        raise QuadlogError(
            f"{free} bytes are free on the disk of {directory}, the copy has {size}: make room for {SPARE} times that"
        )
