"""Count of the lines of large files, concurrently with the loader, by a process of low priority.

    python -m quadlog.seed.counting

The process reads one line of JSON, the files and how many bytes to hold, and writes one: the sum of the lines' digests
and their number, or why they are refused.  Most lines are counted while the loader merges tables, which leaves a core
idle.

Most lines of a file are written as a store writes them.  All others are loaded into a store in memory, which writes
them again.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyoxigraph import NamedNode, RdfFormat, Store, parse

from quadlog.child_process import ChildTask
from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.text.datatypes import ALTERED
from quadlog.core.sparql.text.syntax import RESERVED_PREFIX
from quadlog.core.sparql.text.terms import Literals
from quadlog.errors import UserError
from quadlog.seed.quads import Tally, errors_of
from quadlog.seed.sources import BUFFER, ImportSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

HELD: Final = 1024 * 1024
"""Bytes of lines that are loaded into a store in memory at once."""

NICE: Final = 19
"""Niceness of the process: the lowest priority."""

_RESERVED: Final = RESERVED_PREFIX.encode()

_IRI: Final = rb'<[^<>"{}|^`\\\x00-\x20\x7f]*>'
_CHARS: Final = rb'[^"\\\x00-\x1f\x7f\xef]*+'
# Control characters are written as escapes, and so are U+FFFE and U+FFFF, of which \xef is the first byte.
_TEXT: Final = rb'"%b(?:\xef(?!\xbf[\xbe\xbf])%b)*+"' % (_CHARS, _CHARS)
PLAIN: Final = re.compile(rb"^(%b %b (?:%b|%b)(?: %b)? \.)\n" % (_IRI, _IRI, _IRI, _TEXT, _IRI), re.MULTILINE)
"""A line that a store writes unchanged."""

_ALTERED: Final = "|".join(re.escape(name) for name in sorted(ALTERED)).encode()
_DOUBTFUL: Final = re.compile(rb'"[ \t]*\^\^[ \t]*<(?:(?:%b)>|[^>]*\\)' % _ALTERED)
"""Matches lines with a literal that may be refused: of one of these datatypes, or of one written with an escape."""


class Counting:
    """A running count of files of lines; leaving its context early ends the process."""

    def __init__(self, sources: Sequence[ImportSource]) -> None:
        """Start the count."""
        self._sources = sources
        self._found: dict[str, Any] | None = None
        self._seen = [_mark(source) for source in sources]
        files = [
            (source.name, str(source.path), source.is_zipped, source.format.media_type) for source in sources
        ]
        self._process = (
            ChildTask(__name__, said=json.dumps({"files": files, "held": HELD})) if sources else None
        )

    def check(self) -> None:
        """Check whether the process has ended and refused a line.

        Raises:
            UserError: it has refused one.

        """
        if self._process is not None and self._process.is_done:
            self._result(self._process)

    def into(self, tally: Tally) -> None:
        """Wait for the end of the count, after all was loaded, and add its result to a tally.

        Raises:
            UserError: a line is in a reserved graph, or a file was written meanwhile, so the count may be wrong.

        """
        if self._process is None:
            return
        found = self._result(self._process)
        for source, seen in zip(self._sources, self._seen, strict=True):
            if _mark(source) != seen:
                raise UserError(f"{source.name} was written while it was read: import it once it is whole")
        tally.total += int(found["total"], 16)
        tally.counted += found["counted"]

    def _result(self, process: ChildTask) -> dict[str, Any]:
        found = self._found or process.result()
        self._found = found
        if why := found.get("refused"):
            raise UserError(why)
        return found

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the process if it still runs."""
        if self._process is not None:
            self._process.__exit__(*error)


def _mark(source: ImportSource) -> tuple[int, ...]:
    """Return values that change when a file is written, replaced or removed."""
    try:
        found = source.path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


# --- in its own process -------------------------------------------------------------------------------------


class Counter:
    """Counter of the lines of blocks."""

    def __init__(self, kind: RdfFormat, tally: Tally, held: int) -> None:
        """Start with nothing counted; `held` is the limit in bytes for lines put aside."""
        self._kind, self._tally, self._most = kind, tally, held
        self._held: list[bytes] = []
        self._literals = Literals()
        self._held_size = 0

    def count(self, block: bytes) -> None:
        """Count some more complete lines.

        Raises:
            UserError: a line is in a reserved graph.
            IllFormedLiteral: a line has a literal that cannot be stored unchanged.

        """
        if not block.endswith(b"\n"):
            block += b"\n"
        lines = PLAIN.findall(block)
        self._count(lines, in_block=block)
        if len(lines) < block.count(b"\n"):
            rest = PLAIN.sub(b"", block)
            self._refuse_ill_formed(rest)
            self._held.append(rest)
            self._held_size += len(rest)
            if self._held_size > self._most:
                self.flush()

    def _count(self, lines: list[bytes], *, in_block: bytes) -> None:
        self._tally.count(lines)
        if _RESERVED in in_block:
            _refuse_reserved(line for line in lines if _RESERVED in line)

    def _refuse_ill_formed(self, lines: bytes) -> None:
        """Check the literals that the loader may store as other terms."""
        doubtful = b"\n".join(line for line in lines.split(b"\n") if _DOUBTFUL.search(line))
        if not doubtful:
            return
        try:
            for quad in parse(doubtful, self._kind):
                self._literals.refuse_ill_formed(quad.object)
        except SyntaxError:
            return  # the loader reports it, with its line

    def flush(self) -> None:
        """Count the lines put aside, as a store writes them; raises the errors of `count`."""
        store = Store()
        try:
            store.load(b"".join(self._held), self._kind)
        except SyntaxError:
            return  # the loader reports it, with its line
        written = store.dump(format=RdfFormat.N_QUADS) or b""
        self._count(written.split(b"\n")[:-1], in_block=written)
        self._held.clear()
        self._held_size = 0


def _refuse_reserved(lines: Iterable[bytes]) -> None:
    for quad in parse(b"\n".join(lines), RdfFormat.N_QUADS):
        if isinstance(quad.graph_name, NamedNode):
            refuse_reserved(quad.graph_name)


def _counted(source: ImportSource, tally: Tally, held: int) -> None:
    counter = Counter(source.format, tally, held)
    file, on_disk = source.open()
    with errors_of(source), on_disk, file:
        while block := file.read(BUFFER):
            counter.count(block + file.readline())
    counter.flush()


def main() -> None:
    """Count the lines of the files that standard input names."""
    os.nice(NICE)
    asked, tally = json.loads(sys.stdin.read()), Tally()
    try:
        for name, path, is_zipped, media_type in asked["files"]:
            kind = RdfFormat.from_media_type(media_type)
            assert kind is not None, "it is one of two"
            source = ImportSource(name=name, path=Path(path), format=kind, is_zipped=is_zipped)
            _counted(source, tally, asked["held"])
        said = {"total": f"{tally.total:x}", "counted": tally.counted}
    except UserError as error:
        said = {"refused": str(error)}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
