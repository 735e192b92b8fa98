"""A worker's directory in which a seed is taken up, and seeds for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.records import Seed
from quadlog.progress import Phases
from quadlog.quadstore.quadstore import QuadStore
from quadlog.seed.build import build
from quadlog.seed.sources import files_of
from quadlog.snapshots.store_archive import FILES, ArchiveManifest, pieces_of
from quadlog.worker.repair import mender
from quadlog.worker.repair.health import Health
from quadlog.worker.repair.mender import QUADS
from quadlog.worker.seeds.seedbed import Seedbed

if TYPE_CHECKING:
    from pathlib import Path


class Ground:
    """A worker's data-dir with an open store, and what its process would do."""

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(exist_ok=True)
        self.data_dir, self.health, self.left = data_dir, Health(), 0
        mender.tidy(data_dir)
        self.store = QuadStore.open(data_dir / QUADS)
        self.bed = Seedbed(data_dir, self.store, self.health, self.leave)
        self.bed.tidy()

    def leave(self) -> None:
        self.left += 1

    def take(self, label: ArchiveManifest, files: Path) -> None:
        """As its door does."""
        draft = self.bed.begin(label)
        assert draft is not None
        try:
            for piece in pieces_of(files):
                draft.feed(piece)
            draft.end()
        finally:
            draft.close()

    def end(self) -> Ground:
        """The process ends, and becomes a new one."""
        self.store.close()
        if self.bed.wanted:
            self.bed.sow()
        return Ground(self.data_dir)


def built(tmp_path: Path, name: str = "seed", quads: int = 1000) -> tuple[ArchiveManifest, Path]:
    """A seed and its files."""
    file = tmp_path / f"{name}.nt"
    file.write_text("".join(f"<urn:{name}:{n}> <urn:p> _:b{n % 7} .\n" for n in range(quads)))
    directory = tmp_path / f"{name}-built"
    return build(list(files_of([str(file)])), directory, Phases(), keep_blank_nodes=False), directory / FILES


def seed_of(label: ArchiveManifest) -> Seed:
    return Seed(
        signature=bytes.fromhex(label.signature),
        quads=label.quads,
        digest=bytes.fromhex(label.digest),
        at=0,
        by="m1",
        sources=("seed.nt",),
    )


def check(ground: Ground, label: ArchiveManifest) -> None:
    applied = ground.store.applied
    assert (applied.index, f"{applied.signature:064x}", applied.quads) == (0, label.signature, label.quads)
    assert ground.store.recount() == (applied.signature, applied.quads)
