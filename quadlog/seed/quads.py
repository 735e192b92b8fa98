"""Quads of sources, and their signature, which is computed while they are read.

The signature is that of the lines as they will be *stored*.  Most lines are stored as parsed.  Quads that a store may
write differently (literals with a datatype or a language, triple terms) are put into a store in memory and read back.
"""

from __future__ import annotations

import re
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, Store, parse

from quadlog.core.effects import signature
from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.text.datatypes import ALTERED, IllFormedLiteral
from quadlog.core.sparql.text.syntax import RESERVED_PREFIX
from quadlog.core.sparql.text.terms import Literals
from quadlog.errors import UserError
from quadlog.seed.sources import BUFFER

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from quadlog.seed.sources import ImportSource

BATCH: Final = 10_000
"""Quads that are put into a store in memory at once."""

_EMPTY: Final = re.compile(rb"^# empty graph (?:<([^<>\s]*)>|_:(\S+))\r?$", re.MULTILINE)
"""Comment of quadlog's dumps for an empty graph, which N-Quads cannot express."""

_ALTERED: Final = re.compile(rf'"\^\^<(?:{"|".join(map(re.escape, sorted(ALTERED)))})>')
"""Matches lines, as pyoxigraph writes them, whose literals must be checked."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of what was read so far."""

    total: int = 0
    counted: int = 0
    """Quads, including repetitions."""
    passed: int = 0
    """Lines given to a loader, which are counted elsewhere."""
    empty: set[NamedNode | BlankNode] = field(default_factory=set[NamedNode | BlankNode])
    """Graphs that must exist without quads."""
    read: int = 0
    """Bytes of sources that were read."""
    _held: list[Quad] = field(default_factory=list[Quad])
    _literals: Literals = field(default_factory=Literals)

    def through(self, quads: Iterable[Quad]) -> Iterator[Quad]:
        """Yield the same quads, and count each of them.

        Raises:
            UserError: a quad is in a reserved graph, or has a literal that cannot be stored unchanged.

        """
        for quad in quads:
            line = f"{quad} ."
            if '"^^<' in line or '"@' in line or "<<" in line:
                if _ALTERED.search(line):
                    self._refuse_ill_formed(quad, line)
                self._held.append(quad)
                if len(self._held) == BATCH:
                    self.flush()
            else:  # the hot path of an import: no unnecessary calls
                self.total += int.from_bytes(blake2b(line.encode(), digest_size=32).digest(), "big")
                self.counted += 1
            if "\n" in line:
                raise UserError(f"an IRI or a blank node goes over several lines: {line!r}")
            if RESERVED_PREFIX in line and isinstance(quad.graph_name, NamedNode):
                refuse_reserved(quad.graph_name)
            yield quad
        self.flush()

    def _refuse_ill_formed(self, quad: Quad, line: str) -> None:
        try:
            self._literals.refuse_ill_formed(quad.object)
        except IllFormedLiteral as error:
            raise UserError(f"a literal cannot be stored: {error}; in {line[:300]}") from None

    def count(self, lines: Sequence[bytes]) -> None:
        """Count lines as a store writes them, without line ends."""
        self.total += sum([int.from_bytes(blake2b(line, digest_size=32).digest(), "big") for line in lines])
        self.counted += len(lines)

    def flush(self) -> None:
        """Count the quads put aside, as a store writes them."""
        store = Store()
        store.extend(self._held)
        self._held.clear()
        for quad in store:
            self.total += signature.digest(signature.quad_line(quad))
            self.counted += 1


class _Blocks:
    """File for the parser, read in blocks of whole lines, so that comments can be found."""

    def __init__(self, file: BinaryIO, look: Callable[[bytes], None]) -> None:
        """Start at the beginning; `look` is called with each block, and with an empty one at the end."""
        self._file, self._look = file, look
        self._block: bytes = b""
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes; if it is negative, the rest of the block."""
        if self._at == len(self._block):
            self._block, self._at = self._file.read(BUFFER), 0
            if self._block:
                self._block += self._file.readline()
            self._look(self._block)
        end = len(self._block) if size < 0 else min(self._at + size, len(self._block))
        piece, self._at = self._block[self._at : end], end
        return piece


def quads_of(source: ImportSource, tally: Tally, *, keep_blank_nodes: bool) -> Iterator[Quad]:
    """Yield the quads of one source; raises as `opened`.

    Unless `keep_blank_nodes` is set, equal labels in two sources are two blank nodes.
    """
    with opened(source, tally, lambda _: None, keep_blank_nodes=keep_blank_nodes) as text:
        found = parse(text, source.format, rename_blank_nodes=not keep_blank_nodes)
        if source.graph is None:
            yield from found
        else:
            yield from (Quad(quad.subject, quad.predicate, quad.object, source.graph) for quad in found)


@contextmanager
def opened(
    source: ImportSource, tally: Tally, look: Callable[[bytes], None], *, keep_blank_nodes: bool
) -> Generator[BinaryIO]:
    """Open a source for the parser; record in the tally the bytes read and the graphs declared empty.

    `look` is also called with each block.

    Raises:
        UserError: the source cannot be read; names the line if it is known.

    """
    read_before = tally.read
    file, on_disk = source.open()

    def note(block: bytes) -> None:
        tally.read = read_before + on_disk.tell()
        if source.format == RdfFormat.N_QUADS and b"# empty graph " in block:
            tally.empty.update(_graphs_in(block, keep_blank_nodes=keep_blank_nodes))
        look(block)

    with errors_of(source), on_disk, file:
        yield cast("BinaryIO", _Blocks(file, note))


@contextmanager
def errors_of(source: ImportSource) -> Generator[None]:
    """Turn errors while a source is read into a UserError that names the source and the line."""
    try:
        yield
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise UserError(f"{source.name}{where}: {error.msg}") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{source.name} cannot be read: {error}") from error


def _graphs_in(block: bytes, *, keep_blank_nodes: bool) -> Iterator[NamedNode | BlankNode]:
    """Yield the graphs that a block declares empty."""
    for found in _EMPTY.finditer(block):
        if found[1]:
            graph = NamedNode(found[1].decode())
            refuse_reserved(graph)
            yield graph
        elif keep_blank_nodes and found[2]:
            yield BlankNode(found[2].decode())
