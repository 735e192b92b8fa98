"""The archive's directory: stretches of topics, each whole and proven before it has its name.

    <archive>/<topic>.<its id>/<first offset>-<offset behind>/   _stretch.json, part-….parquet

A topic that was made anew has another id, and none of its offsets means what it meant before.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SAID: Final = "_stretch.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Records of a topic that stand one behind the other."""

    topic: str
    start: int
    """Offset of the first one."""
    end: int
    """And behind the last one."""
    first: int | None
    """The least index of an entry that any of them is of; None: they are of none."""
    last: int | None
    """The greatest one."""
    records: int
    digest: int
    """Exclusive or of a hash of each of them, 64 bits."""


class Piece(NamedTuple):
    """What of a stretch is to be read."""

    path: Path
    start: int
    end: int
    """Offsets."""
    is_whole: bool


class Stretches:
    """What is archived of one topic."""

    def __init__(self, archive: Path, topic: str, identity: str) -> None:
        """Nothing is looked at yet.

        Args:
            archive: directory.
            topic: name.
            identity: id of the topic, from Kafka.

        """
        self._directory: Final = archive / f"{topic}.{identity}"

    def all(self) -> dict[Path, Stretch]:
        """Those that are whole.

        Raises:
            StateError: one cannot be read.

        """
        return {path.parent: _load(path) for path in sorted(self._directory.glob(f"*-*/{_SAID}"))}

    @property
    def end(self) -> int:
        """Offset behind the last record that is archived."""
        return max((stretch.end for stretch in self.all().values()), default=0)

    def before(self, offset: int) -> list[Piece]:
        """What leads to an offset without a gap, in order, each record once."""
        pieces: list[Piece] = []
        stretches = self.all()
        while at := min(
            ((s.start, path) for path, s in stretches.items() if s.start < offset <= s.end), default=None
        ):
            pieces.append(Piece(at[1], at[0], offset, stretches[at[1]].end == offset))
            offset = at[0]
        return pieces[::-1]

    def making(self, start: int, end: int) -> Path:
        """Where a stretch is made; another process has another place.  What dead ones of this machine left goes."""
        mine = f"making.{socket.gethostname()}"
        for left in self._directory.glob(f"{mine}.*.*"):
            if not _lives(int(left.name.split(".")[-2])):
                shutil.rmtree(left, ignore_errors=True)
        return self._directory / f"{mine}.{os.getpid()}.{start}-{end}"

    def keep(self, making: Path, stretch: Stretch) -> Path:
        """Give it its name; it is on the disk then, also after a power loss."""
        (making / _SAID).write_text(json.dumps(asdict(stretch), indent=2))
        path = self._directory / f"{stretch.start}-{stretch.end}"
        _sync([making, *making.rglob("*")])
        making.rename(path)
        _sync([self._directory, self._directory.parent])
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
        pass
    return True


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
