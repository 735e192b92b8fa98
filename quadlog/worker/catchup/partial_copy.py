"""The received part of a copy: its files are written in place as they arrive, and are a store in the end.

After a crash, the copy continues after this part.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

import structlog

from quadlog.damage import told_of
from quadlog.errors import QuadlogError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES, new_copy_id, new_reserved_graph, sync, sync_store
from quadlog.quadstore.quadstore import QuadStore
from quadlog.set_aside import ORIGIN, stores_set_aside
from quadlog.snapshots.store_archive import ArchiveExtractor, ArchiveManifest
from quadlog.worker.repair.mender import QUADS, put_aside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

log = structlog.get_logger()

APPLIED: Final = "Quadlog-Applied"
"""Header with the applied state of a copy, as `Applied` encodes it."""
RESERVED: Final = "Quadlog-Reserved-Graph"
"""Header with the name of the copy's reserved graph."""
FED_FROM: Final = "Quadlog-Fed-From"
"""Header with the topics that the store was fed from: the offsets in the copy's applied state refer to them."""

COMING: Final = "copy.coming"
"""Directory of a copy that is being received, in a worker's data-dir."""
_SAID: Final = "copy.json"
_HEADS: Final = "heads"
_STORE: Final = "store"
SPARE: Final = 1.1
"""Free space on the disk that a copy requires, as a multiple of its size."""
SAY_S: Final = 5.0
"""Seconds between two log events with the progress."""


@dataclass(slots=True)
class CopyProgress:
    """Progress of a store that is being received; any thread may read it."""

    percent: int = 0
    left_s: int | None = None
    """Estimated seconds left; None: unknown."""
    came: int = 0
    """Bytes that were received and not here before."""

    def restart(self) -> None:
        """Begin with another store; the bytes that came stay counted."""
        self.percent, self.left_s = 0, None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDescription:
    """Announced properties of a copy."""

    donor: str = ""
    """URL of the worker that gives it, or path of the backup; empty at the donor itself."""
    label: ArchiveManifest
    applied: str
    reserved: str
    fed_from: str = ""
    """Topics that its store was fed from; empty: not reported."""

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of the copy."""
        fed_from = {FED_FROM: self.fed_from} if self.fed_from else {}
        return self.label.headers() | {APPLIED: self.applied, RESERVED: self.reserved} | fed_from

    @staticmethod
    def of(headers: Mapping[str, str], donor: str) -> CopyDescription:
        """Read the description from the HTTP headers of a donor's answer; raises as `ArchiveManifest.of`."""
        return CopyDescription(
            donor=donor,
            label=ArchiveManifest.of(headers),
            applied=headers[APPLIED],
            reserved=headers[RESERVED],
            fed_from=headers.get(FED_FROM, ""),
        )

    def save(self, directory: Path) -> None:
        """Write the description next to the files."""
        (directory / _SAID).write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(directory: Path, *, within: float = inf) -> CopyDescription | None:
        """Return the description in this directory; None if there is none, or it is older than `within` seconds."""
        file = directory / _SAID
        with suppress(OSError, ValueError, TypeError, KeyError):
            if time.time() - file.stat().st_mtime < within:
                said: dict[str, Any] = json.loads(file.read_text())
                said["label"] = ArchiveManifest(**said["label"])
                return CopyDescription(**said)
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
    def resumed(directory: Path, announced: CopyDescription | None = None) -> PartialCopy | None:
        """Continue the copy that is here; None if there is none, it is damaged, or another one is `announced`."""
        found = CopyDescription.load(directory)
        try:
            if found is not None and announced in (None, found):
                return PartialCopy(directory, found)
        except (QuadlogError, OSError) as error:
            log.warning("partial_copy_discarded", reason=str(error))
        return None

    @staticmethod
    def begin(directory: Path, announced: CopyDescription) -> PartialCopy:
        """Begin a copy of which nothing is here; the directory may exist.

        Raises:
            QuadlogError: there is no room for it.
            OSError: it cannot be written.

        """
        refuse_without_room(directory.parent, announced.label.size)
        (directory / _STORE / FILES).mkdir(parents=True)
        announced.save(directory)
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

    def take(self, pieces: Iterable[bytes], progress: CopyProgress) -> Iterator[dict[str, int | None]]:
        """Add all pieces, and yield figures for the log at intervals; raises as `ArchiveExtractor.feed`."""
        size, first = self.announced.label.size, self.size
        began = said = time.monotonic()
        for piece in pieces:
            self.feed(piece)
            progress.came += len(piece)
            elapsed = (now := time.monotonic()) - began
            rate = (self.size - first) / elapsed if elapsed else 0.0
            progress.left_s = max(0, round((size - self.size) / rate)) if rate else None
            progress.percent = min(100, 100 * self.size // size)
            if now >= said + SAY_S:
                said = now
                yield {"percent": progress.percent, "rate": round(rate), "eta_s": progress.left_s}

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
