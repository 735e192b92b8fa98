"""A bundle: the net change of a range of effects, in files, with a manifest that describes them.

    manifest.json
    deleted-00000.gz      lines as in an effect: quads that existed before and no longer exist after
    inserted-00000.gz     quads that did not exist before and exist after
    kept-00000.gz         quads that existed before, were inserted again and exist after: only with filled or dropped
    emptied-00000.gz      empty graphs that exist after, and were not empty graphs before
    filled-00000.gz       empty graphs that existed before, and are not empty graphs after
    dropped-00000.gz      other graphs that were removed, unless a quad of `inserted` or `kept` is in them

A line is in one file of one word, once.  So the signature of the state after is that of the state before plus the
signed sum over the lines of these files: anyone can recount it.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from quadlog.core.effects.control import Control, ControlChange
from quadlog.core.effects.signature import MODULUS, as_bytes, empty_graph_line
from quadlog.errors import StateError
from quadlog.quadstore.applied import Applied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
_BLOCK: Final = 256 * 1024
"""Bytes read at once: they decompress to a few megabytes of lines."""


class LastWord(StrEnum):
    """Net change of a quad or a graph; names the file that contains its line."""

    DELETED = "deleted"
    INSERTED = "inserted"
    KEPT = "kept"
    EMPTIED = "emptied"
    FILLED = "filled"
    DROPPED = "dropped"

    @property
    def sign(self) -> int:
        """Factor with which its lines enter the signature."""
        match self:
            case LastWord.INSERTED | LastWord.EMPTIED:
                return 1
            case LastWord.DELETED | LastWord.FILLED:
                return -1
            case LastWord.KEPT | LastWord.DROPPED:
                return 0

    @property
    def is_of_graphs(self) -> bool:
        """True if its lines are graphs, not quads."""
        return self in {LastWord.EMPTIED, LastWord.FILLED, LastWord.DROPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFile:
    """One file, as read after it was written."""

    name: str
    word: LastWord
    lines: int
    size: int
    """Compressed bytes."""
    blake2b: str
    """Hash of the compressed bytes, 256 bits in hex."""
    sum: int
    """Sum of the digests of its lines, modulo 2^256; 0 if its word does not enter the signature."""


def counted(path: Path, word: LastWord) -> BundleFile:
    """Read a file as stored on disk, and describe it.

    Raises:
        StateError: it is not a file of lines.

    """
    mark = empty_graph_line("").encode() if word.is_of_graphs else b""
    checksum, size, total, lines = blake2b(digest_size=32), 0, 0, 0
    for block in _blocks(path):
        checksum.update(block)
        size += len(block)
    for some in lines_of(path):
        lines += len(some)
        if word.sign:
            digests = [blake2b(mark + line, digest_size=32).digest() for line in some]
            total += sum([int.from_bytes(digest, "big") for digest in digests])
    return BundleFile(
        name=path.name, word=word, lines=lines, size=size, blake2b=checksum.hexdigest(), sum=total % MODULUS
    )


def lines_of(path: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a file in batches.

    Raises:
        StateError: it is not a file of lines.

    """
    unzip, rest = zlib.decompressobj(wbits=31), b""
    try:
        for block in _blocks(path):
            *lines, rest = (rest + unzip.decompress(block)).split(b"\n")
            if lines:
                yield lines
    except zlib.error as error:
        raise StateError(f"{path} cannot be read: {error}; make the bundle again") from error
    if rest or not unzip.eof:
        raise StateError(f"{path} ends within a line: make the bundle again")


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def after(before: int, files: Iterable[BundleFile]) -> int:
    """Return the signature that the files turn the signature ``before`` into."""
    return (before + sum(file.word.sign * file.sum for file in files)) % MODULUS


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleManifest:
    """Description of a bundle."""

    topic: str
    before: Applied
    """Applied state of a worker that can load the bundle."""
    after: Applied
    """Applied state of that worker afterwards."""
    effects: int
    records: int
    seed: str
    """Signature of the seed that the log begins with, in hex; empty: there is no seed, or it was not read."""
    files: tuple[BundleFile, ...]
    controls: tuple[ControlChange, ...] = ()
    """Controls that were set and deleted, in order."""

    @classmethod
    def read(cls, directory: Path) -> BundleManifest:
        """Read the manifest of a bundle, but not its files.

        Raises:
            StateError: there is no manifest, or it has another format.

        """
        path = directory / MANIFEST
        try:
            said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if (found := said["format"]) != FORMAT:
                raise StateError(
                    f"{path} is of format {found}, this version reads {FORMAT}: make the bundle again"
                )
            controls = [(change["name"], change["control"]) for change in said["controls"]]
            return cls(
                topic=said["topic"],
                before=Applied.decode(said["before"]["applied"]),
                after=Applied.decode(said["after"]["applied"]),
                effects=said["effects"],
                records=said["records"],
                seed=said["seed"],
                files=tuple(
                    BundleFile(**file | {"word": LastWord(file["word"]), "sum": int(file["sum"], 16)})
                    for file in said["files"]
                ),
                controls=tuple(
                    ControlChange(name=name, control=None if text is None else Control.decode(text))
                    for name, text in controls
                ),
            )
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise StateError(
                f"{path} is no manifest of a bundle: {error!r}; make the bundle again"
            ) from error

    def verify(self, directory: Path) -> None:
        """Check that the files are those that were proven; others must not be used.

        Raises:
            StateError: one of them is missing or different.

        """
        self.check()
        for file in self.files:
            try:
                found = counted(directory / file.name, file.word)
            except OSError as error:
                raise StateError(
                    f"{directory / file.name} cannot be read: {error}; make the bundle again"
                ) from error
            if found != file:
                raise StateError(
                    f"{directory / file.name} is not the file that was proven: {found.lines} lines in {found.size}"
                    f" bytes, digest {found.blake2b[:16]}…; make the bundle again"
                )

    def lines(self, word: LastWord) -> int:
        """Return the number of lines of a word."""
        return sum(file.lines for file in self.files if file.word == word)

    def check(self) -> None:
        """Check that the files lead from the state before to the signature and quad count of the state after.

        Raises:
            StateError: they do not.

        """
        found, what = (
            after(self.before.signature, self.files),
            f"effects {self.before.index + 1} to {self.after.index}",
        )
        if found != self.after.signature:
            raise StateError(
                f"{self.topic}: the net of {what} leads to the signature {found:064x}, and the last one says"
                f" {self.after.signature:064x}: these effects are not exact; copy a store instead, and report this"
            )
        quads = self.before.quads + self.lines(LastWord.INSERTED) - self.lines(LastWord.DELETED)
        if quads != self.after.quads:
            raise StateError(
                f"{self.topic}: the net of {what} leads to {quads} quads, and the last one says {self.after.quads}:"
                " these effects are not exact; copy a store instead, and report this"
            )

    def write(self, directory: Path) -> None:
        """Write the manifest into a directory."""
        text = json.dumps(self._described(), indent=1)
        (directory / MANIFEST).write_text(text + "\n", encoding="utf-8")

    def _described(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "topic": self.topic,
            "first": self.before.index + 1,
            "last": self.after.index,
            "effects": self.effects,
            "records": self.records,
            "seed": self.seed,
            "before": _state(self.before),
            "after": _state(self.after),
            "lines": {word.value: self.lines(word) for word in LastWord},
            "controls": [
                {"name": change.name, "control": change.control and change.control.encode()}
                for change in self.controls
            ],
            "files": [asdict(file) | {"sum": as_bytes(file.sum).hex()} for file in self.files],
        }


def _state(applied: Applied) -> dict[str, Any]:
    """Return a state in readable form, and as a store encodes it."""
    return {
        "index": applied.index,
        "signature": as_bytes(applied.signature).hex(),
        "quads": applied.quads,
        "entry_chain": applied.chain.hex(),
        "effects_chain": applied.effects_chain.hex(),
        "effects_offset": applied.effects_offset,
        "applied": applied.encode(),
    }
