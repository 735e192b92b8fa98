"""Local seeds: workers that see each other's directories need not send a seed to each other."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.snapshots.store_archive import FILES
from quadlog.worker.seeds.seedbed import place_in

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""File with an id that distinguishes machines, where it exists."""


def place_of(data_dir: Path) -> dict[str, str | int]:
    """Return the identity of a worker's directory, by which a neighbour determines whether it sees the same one."""
    found, boot = data_dir.stat(), ""
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
    return {"path": str(data_dir.resolve()), "device": found.st_dev, "inode": found.st_ino, "boot": boot}


def is_seen(place: Mapping[str, str]) -> bool:
    """Return True if this directory is visible here, too."""
    with suppress(OSError, ValueError, KeyError):
        seen = place_of(Path(place["path"]))
        return {name: str(value) for name, value in seen.items()} == dict(place)
    return False


def files_near(data_dir: Path, signature: str) -> Path:
    """Return the directory of a seed's files at a neighbour with this data-dir.

    They are copied and checked like a received seed.  They are not linked: damage to the tables of one worker
    must leave the other's intact.
    """
    return place_in(data_dir, signature) / FILES
