"""A bundle: what a range of effects came to, in files, with a manifest that says what they are.

    manifest.json
    deleted-00000.gz      lines, as an effect has them: quads that were there before and are gone
    inserted-00000.gz     quads that were not there before and are
    kept-00000.gz         quads that were there before, came again and are there: only where graphs are gone
    emptied-00000.gz      graphs that are there and empty, and were not
    filled-00000.gz       graphs that were there and empty, and are not
    dropped-00000.gz      other graphs that are gone, unless a quad of `inserted` or `kept` is in them

A line is in one file of one word, once.  So the signature of the state after is that of the state before, and the sum
over the lines of these files: anyone can recount it.
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
"""Bytes of a file that are read at once: they make a few megabytes of lines."""


class Word(StrEnum):
    """The last word on a quad or a graph, beside what it was before; names a file's lines."""

    DELETED = "deleted"
    INSERTED = "inserted"
    KEPT = "kept"
    EMPTIED = "emptied"
    FILLED = "filled"
    DROPPED = "dropped"

    @property
    def sign(self) -> int:
        """How often its lines are added to the signature."""
        match self:
            case Word.INSERTED | Word.EMPTIED:
                return 1
            case Word.DELETED | Word.FILLED:
                return -1
            case Word.KEPT | Word.DROPPED:
                return 0

    @property
    def is_of_graphs(self) -> bool:
        """Whether its lines are graphs."""
        return self in {Word.EMPTIED, Word.FILLED, Word.DROPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file, as it was read once it was written."""

    name: str
    word: Word
    lines: int
    size: int
    """In bytes, compressed."""
    blake2b: str
    """Of these bytes, 256 bits in hex."""
    sum: int
    """Of the digests of its lines, modulo 2^256; 0 where the signature does not know them."""


def counted(path: Path, word: Word) -> File:
    """Read a file as it stands on disk.

    Raises:
        StateError: it is no file of lines.

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
    return File(
        name=path.name, word=word, lines=lines, size=size, blake2b=checksum.hexdigest(), sum=total % MODULUS
    )


def lines_of(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file, some at a time.

    Raises:
        StateError: it is no file of lines.

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


def after(before: int, files: Iterable[File]) -> int:
    """The signature of a state of signature ``before`` once all is done that the files say."""
    return (before + sum(file.word.sign * file.sum for file in files)) % MODULUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a bundle is of."""

    topic: str
    before: Applied
    """What a worker has applied that can take it."""
    after: Applied
    """What it has applied then."""
    effects: int
    records: int
    seed: str
    """Signature of what the log begins with, in hex; empty: with nothing, or that was not heard."""
    files: tuple[File, ...]
    controls: tuple[ControlChange, ...] = ()
    """What was set and deleted of them, in order."""

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Of a bundle; its files are not looked at.

        Raises:
            StateError: there is none, or one of another version.

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
                    File(**file | {"word": Word(file["word"]), "sum": int(file["sum"], 16)})
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
        """See whether the files are those that were proven; nothing is to be done with others.

        Raises:
            StateError: one of them is not.

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

    def lines(self, word: Word) -> int:
        """How many there are."""
        return sum(file.lines for file in self.files if file.word == word)

    def check(self) -> None:
        """Compare what the files say with what the effects say of the states.

        Raises:
            StateError: the one does not lead to the other.

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
        quads = self.before.quads + self.lines(Word.INSERTED) - self.lines(Word.DELETED)
        if quads != self.after.quads:
            raise StateError(
                f"{self.topic}: the net of {what} leads to {quads} quads, and the last one says {self.after.quads}:"
                " these effects are not exact; copy a store instead, and report this"
            )

    def write(self, directory: Path) -> None:
        """Say what is in this directory."""
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
            "lines": {word.value: self.lines(word) for word in Word},
            "controls": [
                {"name": change.name, "control": change.control and change.control.encode()}
                for change in self.controls
            ],
            "files": [asdict(file) | {"sum": as_bytes(file.sum).hex()} for file in self.files],
        }


def _state(applied: Applied) -> dict[str, Any]:
    """A state for whoever looks, and as a store says it."""
    return {
        "index": applied.index,
        "signature": as_bytes(applied.signature).hex(),
        "quads": applied.quads,
        "entry_chain": applied.chain.hex(),
        "effects_chain": applied.effects_chain.hex(),
        "effects_offset": applied.effects_offset,
        "applied": applied.encode(),
    }
