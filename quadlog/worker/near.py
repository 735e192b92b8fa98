"""Neighbours: workers that see each other's directories need not send a seed to each other."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.parcel import FILES, pieces_of
from quadlog.worker.seedbed import place_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.parcel import Label
    from quadlog.worker.seedbed import Seedbed

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


def take(bed: Seedbed, label: Label, path: Path) -> None:
    """Copy a seed that a neighbour keeps in its directory, and check it as one that comes in.

    A copy, no link: what damages the tables of one is to leave the other whole.

    Raises:
        NotEmpty: this log does not begin with it.
        Unavailable: there is no space for it.
        UserError: what is kept there is not what it is said to be.
        OSError: it is not there, or cannot be written.

    """
    draft = bed.begin(label)
    if draft is None:
        return
    try:
        for piece in pieces_of(place_in(path, label.signature) / FILES):
            draft.feed(piece)
        draft.end()
    finally:
        draft.close()
