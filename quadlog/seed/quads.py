"""Quads out of sources, and their signature while they pass by.

The signature is that of the lines as they will be *stored*.  Most lines are stored as they are parsed; whatever a store
may write otherwise (literals with a datatype or a language, triple terms) is put into a store in memory and read again.
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

    from quadlog.seed.sources import Source

BATCH: Final = 10_000
"""Quads that are put into a store in memory at once."""

_EMPTY: Final = re.compile(rb"^# empty graph (?:<([^<>\s]*)>|_:(\S+))\r?$", re.MULTILINE)
"""A comment of our dumps, which N-Quads has no other words for."""

_ALTERED: Final = re.compile(rf'"\^\^<(?:{"|".join(map(re.escape, sorted(ALTERED)))})>')
"""In lines, as pyoxigraph writes them, whose literals are looked at."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What passed by, up to now."""

    total: int = 0
    counted: int = 0
    """Quads, each as often as it came."""
    passed: int = 0
    """Lines that went to a loader, and are counted elsewhere."""
    empty: set[NamedNode | BlankNode] = field(default_factory=set[NamedNode | BlankNode])
    """Graphs that are to be there without quads."""
    read: int = 0
    """Bytes of sources."""
    _held: list[Quad] = field(default_factory=list[Quad])
    _literals: Literals = field(default_factory=Literals)

    def through(self, quads: Iterable[Quad]) -> Iterator[Quad]:
        """The same quads; each is counted on its way.

        Raises:
            UserError: one is in a graph of ours, or has a literal that cannot be stored as what it is.

        """
        for quad in quads:
            line = f"{quad} ."
            if '"^^<' in line or '"@' in line or "<<" in line:
                if _ALTERED.search(line):
                    self._refuse_ill_formed(quad, line)
                self._held.append(quad)
                if len(self._held) == BATCH:
                    self.settle()
            else:  # here is where an import spends its time: no call more than is needed
                self.total += int.from_bytes(blake2b(line.encode(), digest_size=32).digest(), "big")
                self.counted += 1
            if "\n" in line:
                raise UserError(f"an IRI or a blank node goes over several lines: {line!r}")
            if RESERVED_PREFIX in line and isinstance(quad.graph_name, NamedNode):
                refuse_reserved(quad.graph_name)
            yield quad
        self.settle()

    def _refuse_ill_formed(self, quad: Quad, line: str) -> None:
        try:
            self._literals.refuse_ill_formed(quad.object)
        except IllFormedLiteral as error:
            raise UserError(f"a literal cannot be stored: {error}; in {line[:300]}") from None

    def count(self, lines: Sequence[bytes]) -> None:
        """Lines as a store writes them, without their ends."""
        self.total += sum([int.from_bytes(blake2b(line, digest_size=32).digest(), "big") for line in lines])
        self.counted += len(lines)

    def settle(self) -> None:
        """Count what is held, as a store writes it."""
        store = Store()
        store.extend(self._held)
        self._held.clear()
        for quad in store:
            self.total += signature.digest(signature.quad_line(quad))
            self.counted += 1


class _Blocks:
    """A file for the parser: whole lines at a time, so that comments can be seen."""

    def __init__(self, file: BinaryIO, look: Callable[[bytes], None]) -> None:
        """`look` is shown each block; an empty one is the end."""
        self._file, self._look = file, look
        self._block: bytes = b""
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes."""
        if self._at == len(self._block):
            self._block, self._at = self._file.read(BUFFER), 0
            if self._block:
                self._block += self._file.readline()
            self._look(self._block)
        end = len(self._block) if size < 0 else min(self._at + size, len(self._block))
        piece, self._at = self._block[self._at : end], end
        return piece


def quads_of(source: Source, tally: Tally, *, keep_blank_nodes: bool) -> Iterator[Quad]:
    """The quads of one source.

    Unless labels of blank nodes are to be kept, equal labels in two sources are two nodes.

    Raises:
        UserError: it cannot be read; says where.

    """
    with opened(source, tally, lambda _: None, keep_blank_nodes=keep_blank_nodes) as text:
        found = parse(text, source.format, rename_blank_nodes=not keep_blank_nodes)
        if source.graph is None:
            yield from found
        else:
            yield from (Quad(quad.subject, quad.predicate, quad.object, source.graph) for quad in found)


@contextmanager
def opened(
    source: Source, tally: Tally, look: Callable[[bytes], None], *, keep_blank_nodes: bool
) -> Generator[BinaryIO]:
    """A source for the parser; the tally is told how far that is, and which graphs are said to be empty.

    `look` is shown each block too.

    Raises:
        UserError: it cannot be read; says where.

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
def errors_of(source: Source) -> Generator[None]:
    """What goes wrong while a source is read, as an error that names it and the place."""
    try:
        yield
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise UserError(f"{source.name}{where}: {error.msg}") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{source.name} cannot be read: {error}") from error


def _graphs_in(block: bytes, *, keep_blank_nodes: bool) -> Iterator[NamedNode | BlankNode]:
    """Graphs that are said to be empty."""
    for found in _EMPTY.finditer(block):
        if found[1]:
            graph = NamedNode(found[1].decode())
            refuse_reserved(graph)
            yield graph
        elif keep_blank_nodes and found[2]:
            yield BlankNode(found[2].decode())
