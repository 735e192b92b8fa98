"""Backups: whole stores of workers, in a directory that workers and masters can access, each with a description.

    main.dc1-000000001234-20260301T040000Z/
        backup.json      the description
        store/           a store, as a worker has it

The directory gets that name once all of it is on the disk, and its quads were counted.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quadlog.broker import Admin, beginning_of, end_of
from quadlog.errors import SetupError, StateError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES, STORE_HERE
from quadlog.snapshots.store_archive import ArchiveManifest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from quadlog.topics import Topics

SAID: Final = "backup.json"
STORE: Final = "store"
FORMAT: Final = 1
_NAME: Final = re.compile(r".+-\d{12}-\d{8}T\d{6}Z")


@dataclass(frozen=True, slots=True)
class SourceTopicIds:
    """The topics from which a store was fed: its offsets are valid in no other topics."""

    repository: str
    dc: str
    agreed_id: str
    effects_id: str
    """Kafka's ids of the two topics."""

    def encode(self) -> str:
        """Encode as one line of text; topic names contain no spaces.

        >>> SourceTopicIds.decode(SourceTopicIds("main", "dc1", "A", "E").encode())
        SourceTopicIds(repository='main', dc='dc1', agreed_id='A', effects_id='E')
        """
        return f"{self.repository} {self.dc} {self.agreed_id} {self.effects_id}"

    @staticmethod
    def decode(text: str) -> SourceTopicIds | None:
        """Decode the result of `encode`; None for any other text."""
        words = text.split(" ")
        return SourceTopicIds(*words) if len(words) == 4 else None  # noqa: PLR2004 - the number of fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A complete backup."""

    path: Path
    fed_from: SourceTopicIds
    made: str
    """Time of creation, in UTC."""
    store: str
    """The version of pyoxigraph that can read the store, as in `STORE_HERE`."""
    label: ArchiveManifest
    applied: Applied
    reserved: str
    """The name of the store's reserved graph."""

    @property
    def name(self) -> str:
        """Name of the directory: data centre, index of the last applied entry, and time."""
        fed, made = self.fed_from, re.sub("[-:]", "", self.made)
        return f"{fed.repository}.{fed.dc}-{self.applied.index:012d}-{made}"

    @property
    def files(self) -> Path:
        """Directory of the RocksDB files."""
        return self.path / STORE / FILES

    @property
    def place(self) -> tuple[int, int]:
        """Offsets in the effects and the agreed topic up to which the store has applied them."""
        return self.applied.effects_offset, self.applied.agreed_offset

    def save(self) -> None:
        """Write the description next to the store."""
        said = {
            "format": FORMAT,
            **asdict(self.fed_from),
            "made": self.made,
            "store": self.store,
            "label": asdict(self.label),
            "applied": self.applied.encode(),
            "reserved": self.reserved,
        }
        (self.path / SAID).write_text(json.dumps(said, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Backup:
        """Read the backup in a directory.

        Raises:
            StateError: this version cannot read the description.

        """
        try:
            said: dict[str, Any] = json.loads((path / SAID).read_text())
            if said["format"] != FORMAT:
                raise StateError(f"it is of format {said['format']}, and this version reads {FORMAT}")
            fed = SourceTopicIds(said["repository"], said["dc"], said["agreed_id"], said["effects_id"])
            return Backup(
                path=path,
                fed_from=fed,
                made=said["made"],
                store=said["store"],
                label=ArchiveManifest(**said["label"]),
                applied=Applied.decode(said["applied"]),
                reserved=said["reserved"],
            )
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StateError(f"its {SAID} cannot be read: {type(error).__name__} {error}") from error

    def obstacle(self, here: SourceTopicIds) -> str:
        """Return why no worker that reads these topics can continue from this backup; empty if no reason is known."""
        there = self.fed_from
        if there.repository != here.repository:
            return f"it is of the repository {there.repository}, and this one is {here.repository}"
        if there.dc != here.dc:
            return f"it was taken in {there.dc}, and {here.dc} has other offsets"
        if (there.agreed_id, there.effects_id) != (here.agreed_id, here.effects_id):
            return "the topics of this data centre were created again since"
        if self.store != STORE_HERE:
            return f"its store is of {self.store}, and here is {STORE_HERE}"
        return ""


class LogExtent(NamedTuple):
    """The two topics of a data centre, with the first offset of each and the one after its last record."""

    fed_from: SourceTopicIds
    agreed: tuple[int, int]
    effects: tuple[int, int]

    def obstacle(self, backup: Backup) -> str:
        """Return why a worker cannot continue from this backup; empty if it can, provided the backup is complete."""
        if found := backup.obstacle(self.fed_from):
            return found
        applied = backup.applied
        for name, (first, end), at in (
            ("effects", self.effects, applied.effects_offset),
            ("agreed", self.agreed, applied.agreed_offset),
        ):
            if not first <= at <= end:
                return f"it goes on at offset {at} of the {name} topic, which has {first} to {end}"
        return ""


def log_of(kafka: str, topics: Topics) -> LogExtent:
    """Read the current state of a data centre's topics from Kafka.

    Raises:
        SetupError: a topic does not exist.
        Unavailable: no broker answers.

    """
    names = topics.agreed, topics.effects
    ids = Admin(kafka).ids(names)
    for name in names:
        if name not in ids:
            raise SetupError(f"there is no topic {name} at {kafka}: no backup goes on in it")
    ranges = [(beginning_of(kafka, name), end_of(kafka, name, count=0)[0]) for name in names]
    return LogExtent(SourceTopicIds(topics.repository, topics.dc, *(ids[name] for name in names)), *ranges)


def looked_through(paths: Iterable[Path], log: LogExtent) -> tuple[list[Backup], dict[Path, str]]:
    """Return the backups that a worker can continue from, newest first, and why it cannot from the others.

    The former may still be incomplete.
    """
    usable: list[Backup] = []
    refused: dict[Path, str] = {}
    for path in paths:
        try:
            backup = Backup.load(path)
        except StateError as error:
            refused[path] = str(error)
            continue
        if obstacle := log.obstacle(backup):
            refused[path] = obstacle
        else:
            usable.append(backup)
    return sorted(usable, key=lambda backup: backup.place, reverse=True), refused


def backups_in(directory: Path) -> list[Path]:
    """Return the directories that are named like a backup, or contain a description.

    Raises:
        OSError: the directory cannot be read.

    """
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_dir() and (_NAME.fullmatch(path.name) or (path / SAID).exists())
    )
