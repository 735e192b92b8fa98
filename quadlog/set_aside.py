"""Setting aside: a damaged store is renamed within its directory, and its process gets a new store.

    quads.damaged-20260301T040000Z/
        damaged.json     time and reason
        …                files of the store, unchanged

This module never deletes such a directory: an operator does.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import wall
from quadlog.errors import SetupError

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger()

KEPT: Final = 2
"""Maximum number of stores set aside: each may occupy as much disk space as the store itself."""
AGAIN_S: Final = 600.0
"""Seconds after a store was set aside within which its successor is not set aside: the next would be damaged."""
SAID: Final = "damaged.json"
ORIGIN: Final = "copied-from"
"""File in a store that was copied from another worker or a backup; it contains the name of that source."""
_TIME: Final = "%Y%m%dT%H%M%SZ"


def set_aside(store: Path, error: BaseException | str) -> Path:
    """Rename a store that no process has open, and return its new path.

    After a crash between any two steps, the store has either its old or its new name.

    Raises:
        SetupError: the store is not renamed, because of others set aside before; the message says what to do.

    """
    kept, moment, reason = stores_set_aside(store), wall(), str(error)
    if why := _obstacle(store, kept, moment):
        raise SetupError(f"{store} is damaged ({reason}) and is not set aside: {why}")
    directory = store.with_name(f"{store.name}.damaged-{time.strftime(_TIME, time.gmtime(moment / 1000))}")
    with suppress(OSError):  # the disk may be full
        (store / SAID).write_text(json.dumps({"at": moment, "reason": reason}) + "\n")
    store.rename(directory)
    log.error("store_set_aside", directory=str(directory), error=reason, kept=len(kept) + 1)
    return directory


def _obstacle(store: Path, kept: list[Path], moment: int) -> str:
    names = " and ".join(map(str, kept))
    if len(kept) >= KEPT:
        return f"{names} were set aside before. Look at the disk of {store}, remove them, and start this process again"
    for newest in kept[-1:]:
        since = (moment - _reported(newest)[0]) / 1000
        if since < AGAIN_S:
            origin = _origin(store)
            return (
                f"{newest} was set aside {since:.0f} s ago, and its successor is damaged, too. Replace the disk of"
                f" {store}{f', unless {origin} gave a damaged copy' if origin else ''}. Set another data-dir,"
                f" or remove {newest} and {store}, and start this process again"
            )
    return ""


def stores_set_aside(store: Path) -> list[Path]:
    """Return the directories of the stores set aside from this path, oldest first."""
    return sorted(path for path in store.parent.glob(f"{store.name}.damaged-*") if path.is_dir())


def told_set_aside(store: Path) -> str:
    """Return the text of the alarm about the stores set aside from this path; empty if there is none."""
    return "; ".join(f"{path} was set aside: {_reported(path)[1]}" for path in stores_set_aside(store))


def _reported(directory: Path) -> tuple[int, str]:
    """Return the time when a store was set aside, in milliseconds since 1970, and the reason."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads((directory / SAID).read_text())
        return int(said["at"]), str(said["reason"])
    with suppress(OSError):
        return int(directory.stat().st_mtime * 1000), "damaged"
    return 0, "damaged"


def _origin(store: Path) -> str:
    with suppress(OSError):
        return (store / ORIGIN).read_text().strip()
    return ""
