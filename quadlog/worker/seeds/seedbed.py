"""The seedbed: keeps the seed that a worker's log begins with, and makes a store of it.

A seed arrives before it is agreed on, and is kept next to the store, each seed in its own directory.  When the
effects topic states that the log begins with it, the process ends in order and restarts with a store made of
the seed's files by hard links.  The seed is kept: a worker that is rebuilt begins with it again.
"""

from __future__ import annotations

import shutil
import threading
from itertools import count
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.core.effects.signature import EMPTY
from quadlog.errors import NotEmpty, SetupError, Unavailable
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES as STORE_FILES
from quadlog.quadstore.quaddir import link_tables
from quadlog.quadstore.quadstore import QuadStore
from quadlog.snapshots.store_archive import FILES, ArchiveExtractor, ArchiveManifest, copy_files, label_of
from quadlog.worker.repair.mender import QUADS, put_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from quadlog.core.records import Seed
    from quadlog.worker.repair.health import Health

log = structlog.get_logger()

_SEEDS: Final = "seeds"
_PART: Final = ".part"
_SOWN: Final = "quads.sown"
_TAKEN: Final = "taken"
"""Name of a file in the directory of a seed that the store was made of."""

KEPT: Final = 2
"""Seeds that wait to be agreed on, at most.

Two imports may run at once; the seed of the one that loses is removed when the other's is read from the log.
"""

SPARE: Final = 1.1
"""Free space on the disk that a seed requires, as a multiple of its size."""


class Seedbed:
    """Seeds of one worker.  Used by the replica's thread, by the server's, and at the end of the process."""

    def __init__(self, data_dir: Path, store: QuadStore, health: Health, leave: Callable[[], None]) -> None:
        """Keep seeds in `data_dir`; `leave` ends the process in order, from any thread."""
        self.data_dir, self._store, self._health, self._leave = data_dir, store, health, leave
        self._directory = data_dir / _SEEDS
        self._lock = threading.Lock()
        self._lacking: Seed | None = None
        self._received: set[str] = set()
        """Signatures of the seeds that this process received and checked."""
        self._numbers = count(1)
        self.wanted: ArchiveManifest | None = None
        """Label of the seed that the next process must begin with."""

    def tidy(self) -> None:
        """Remove incomplete seeds, and seeds that can no longer be used, at the start."""
        shutil.rmtree(self.data_dir / _SOWN, ignore_errors=True)
        for place in self._places():
            is_late = self._store.applied.index and not (place / _TAKEN).exists()
            if place.suffix == _PART or ArchiveManifest.load(place) is None or is_late:
                shutil.rmtree(place, ignore_errors=True)

    def _places(self) -> list[Path]:
        return list(self._directory.iterdir()) if self._directory.exists() else []

    def _place(self, signature: str) -> Path:
        return place_in(self.data_dir, signature)

    def kept(self) -> list[str]:
        """Return the signatures of the complete seeds that are kept here."""
        labels = [ArchiveManifest.load(place) for place in self._places() if place.suffix != _PART]
        return sorted(label.signature for label in labels if label)

    def find(self, signature: str) -> tuple[ArchiveManifest, Path] | None:
        """Return the label and the directory of the files of a complete seed; None if it is not kept here."""
        place = self._place(signature)
        label = ArchiveManifest.load(place)
        return (label, place / FILES) if label and label.signature == signature else None

    # --- the seed of the log ----------------------------------------------------------------------------

    def on_seed(self, seed: Seed) -> bool:
        """Process the seed that the log begins with; return True if the store lacks it.

        Such a store must not be served, nor continue.  The seed is used at once if it is here, otherwise when
        it arrives.
        """
        signature, applied = seed.signature.hex(), self._store.applied
        for place in self._places():
            if place != self._place(signature) and place.suffix != _PART:
                shutil.rmtree(place, ignore_errors=True)
        if applied.index or applied.signature == int(signature, 16):
            return False
        with self._lock:
            self._lacking = seed
            if not self._take_up():
                self._health.mend = (
                    f"it lacks the seed {signature[:16]}… that the log begins with, and waits for it"
                )
                log.warning("seed_missing", signature=signature)
        return True

    def _take_up(self) -> bool:
        """End the process if the lacking seed is here; return True if it is."""
        found = self.find(self._lacking.signature.hex()) if self._lacking else None
        if found is None:
            return False
        if self.wanted is None:
            self.wanted = found[0]
            log.info("seed_accepted", signature=found[0].signature)
            self._leave()
        return True

    # --- receiving --------------------------------------------------------------------------------------

    def begin(self, label: ArchiveManifest) -> SeedDraft | None:
        """Prepare to receive a seed; return None if it is here already.

        Raises:
            NotEmpty: this log does not begin with it.
            Unavailable: there is no space for it.

        """
        if self.find(label.signature):
            return None
        applied, lacking = self._store.applied, self._lacking
        if lacking and lacking.signature.hex() != label.signature:
            raise NotEmpty(
                f"the log begins with the seed {lacking.signature.hex()[:16]}…, not with {label.signature[:16]}…"
            )
        if applied.index or applied.signature not in {EMPTY, int(label.signature, 16)}:
            raise NotEmpty(
                f"this worker's store is at index {applied.index} with {applied.quads} quads: no seed is taken"
            )
        self._directory.mkdir(exist_ok=True)
        free = shutil.disk_usage(self._directory).free
        if free < label.size * SPARE:
            raise Unavailable(
                f"{free} bytes are free on the disk of {self._directory}, the seed has {label.size}"
            )
        return SeedDraft(self, label, self._directory / f"{next(self._numbers)}{_PART}")

    def keep(self, label: ArchiveManifest, draft: Path) -> None:
        """Move a complete seed to its place, and use it if the log begins with it."""
        place = self._place(label.signature)
        with self._lock:
            if not place.exists():  # otherwise it arrived twice at once
                others = sorted(
                    (p for p in self._places() if p.suffix != _PART), key=lambda p: p.stat().st_mtime
                )
                for old in others[: max(0, len(others) - KEPT + 1)]:
                    shutil.rmtree(old, ignore_errors=True)
                draft.rename(place)
            self._received.add(label.signature)
            self._take_up()

    # --- the end of the process -------------------------------------------------------------------------

    def sow(self) -> None:
        """Replace the empty store, which must not be open, by a store made of the seed.

        A crash between any two steps leaves the empty store or none: the next process reads the seed's record
        again.

        Raises:
            SetupError: that is not possible, for example for lack of space.

        """
        try:
            self._sow()
        except OSError as error:
            raise SetupError(
                f"the seed cannot be taken up: {error}; mend that, and start this worker again"
            ) from error

    def _sow(self) -> None:
        assert self.wanted is not None, "a seed is wanted"
        label, place = self.wanted, self._place(self.wanted.signature)
        if label.signature not in self._received and not _is_intact(place, label):
            log.error("seed_damaged", signature=label.signature)
            shutil.rmtree(place)
            return
        sown = self.data_dir / _SOWN
        shutil.rmtree(sown, ignore_errors=True)
        link_tables(place / FILES, sown / STORE_FILES)
        QuadStore.adopt(sown, Applied(signature=int(label.signature, 16), quads=label.quads))
        (place / _TAKEN).touch()
        put_aside(self.data_dir)
        sown.rename(self.data_dir / QUADS)


def place_in(data_dir: Path, signature: str) -> Path:
    """Return the directory in which a worker with this data-dir keeps a seed."""
    return data_dir / _SEEDS / signature[:32]


class SeedDraft:
    """A seed that is being received."""

    def __init__(self, bed: Seedbed, label: ArchiveManifest, directory: Path) -> None:
        """Start with an empty directory."""
        self._bed, self._label, self._directory = bed, label, directory
        shutil.rmtree(directory, ignore_errors=True)
        (directory / FILES).mkdir(parents=True)
        self._unpacker = ArchiveExtractor(directory / FILES)

    def feed(self, piece: bytes) -> None:
        """Add the next piece; raises as `ArchiveExtractor.feed`."""
        self._unpacker.feed(piece)

    def copy(self, source: Path) -> Iterator[None]:
        """Copy all files from a directory instead, some of it at a time; raises as `store_archive.copy_files`."""
        yield from copy_files(source, self._directory / FILES, self._label)
        self._keep()

    def end(self) -> None:
        """Check the complete seed and keep it; raises as `ArchiveExtractor.end`."""
        self._unpacker.end(self._label)
        self._keep()

    def _keep(self) -> None:
        self._label.save(self._directory)
        self._bed.keep(self._label, self._directory)

    def close(self) -> None:
        """Remove what is left of the seed, unless it was kept."""
        self._unpacker.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _is_intact(place: Path, label: ArchiveManifest) -> bool:
    """Return True if the files are those that were received.

    The store shares them, and a disk may have flipped a bit since.
    """
    try:
        found = label_of(place / FILES, signature=label.signature, quads=label.quads)
    except OSError:
        return False
    return found == label
