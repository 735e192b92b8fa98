"""Neighbours: workers that see each other's directories need not send a seed to each other."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.snapshots.parcel import FILES
from quadlog.worker.seeds.seedbed import place_in

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""Tells machines apart, where there is such a file."""


def place_of(data_dir: Path) -> dict[str, str | int]:
    """Of a worker's directory, so that a neighbour can tell whether it sees the same one."""
    found, boot = data_dir.stat(), ""
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
    return {"path": str(data_dir.resolve()), "device": found.st_dev, "inode": found.st_ino, "boot": boot}


def is_seen(place: Mapping[str, str]) -> bool:
    """Whether that directory is here, too."""
    with suppress(OSError, ValueError, KeyError):
        seen = place_of(Path(place["path"]))
        return {name: str(value) for name, value in seen.items()} == dict(place)
    return False


def files_near(data_dir: Path, signature: str) -> Path:
    """A seed's files as a neighbour of this directory keeps them, to be copied and checked as a seed that comes in.

    They are copied, not linked: what damages the tables of one is to leave the other whole.
    """
    return place_in(data_dir, signature) / FILES
