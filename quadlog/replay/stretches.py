"""The archive's directory: stretches of topics, each complete and proven before it gets its name.

    <archive>/<topic>.<its id>/<first offset>-<end offset>/   _stretch.json, part-….parquet

A re-created topic has another id, since its offsets have another meaning.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quadlog.errors import StateError
from quadlog.quadstore.quaddir import sync

if TYPE_CHECKING:
    from pathlib import Path

_SAID: Final = "_stretch.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive records of a topic."""

    topic: str
    start: int
    """Offset of the first record."""
    end: int
    """Offset after the last record."""
    first: int | None
    """Least index of the entries that the records belong to; None: they belong to no entry."""
    last: int | None
    """Greatest such index; None: as above."""
    records: int
    digest: int
    """Exclusive or of the 64-bit hashes of all records."""


class StretchPart(NamedTuple):
    """The part of a stretch to read."""

    path: Path
    start: int
    end: int
    """Offset after the last record to read."""
    is_whole: bool


class Stretches:
    """All stretches of one topic."""

    def __init__(self, archive: Path, topic: str, identity: str) -> None:
        """Start without reading anything.  `identity`: Kafka's id of the topic."""
        self._directory: Final = archive / f"{topic}.{identity}"

    def all(self) -> dict[Path, Stretch]:
        """Return the complete stretches.

        Raises:
            StateError: the description of one cannot be read.

        """
        return {path.parent: _load(path) for path in sorted(self._directory.glob(f"*-*/{_SAID}"))}

    @property
    def end(self) -> int:
        """Offset after the last archived record."""
        return max((stretch.end for stretch in self.all().values()), default=0)

    def before(self, offset: int) -> list[StretchPart]:
        """Return the pieces that lead to an offset without a gap, in order, each record once."""
        pieces: list[StretchPart] = []
        stretches = self.all()
        while at := min(
            ((s.start, path) for path, s in stretches.items() if s.start < offset <= s.end), default=None
        ):
            pieces.append(StretchPart(at[1], at[0], offset, stretches[at[1]].end == offset))
            offset = at[0]
        return pieces[::-1]

    def making(self, start: int, end: int) -> Path:
        """Return where this process makes a stretch; remove what dead processes of this host left."""
        mine = f"making.{socket.gethostname()}"
        for left in self._directory.glob(f"{mine}.*.*"):
            if not _lives(int(left.name.split(".")[-2])):
                shutil.rmtree(left, ignore_errors=True)
        return self._directory / f"{mine}.{os.getpid()}.{start}-{end}"

    def keep(self, making: Path, stretch: Stretch) -> Path:
        """Give a stretch its name; on return it is durable, also after a power loss."""
        (making / _SAID).write_text(json.dumps(asdict(stretch), indent=2))
        path = self._directory / f"{stretch.start}-{stretch.end}"
        for written in (making, *making.rglob("*")):
            sync(written)
        making.rename(path)
        sync(self._directory)
        sync(self._directory.parent)
        return path


def _load(path: Path) -> Stretch:
    try:
        said: dict[str, Any] = json.loads(path.read_text())
        return Stretch(**said)
    except (OSError, ValueError, TypeError) as error:
        raise StateError(f"{path} is damaged: {error}; take {path.parent} out of the archive") from error


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it lives, and belongs to another user
    return True
