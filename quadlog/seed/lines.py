"""Large files of lines go to pyoxigraph's own loader, which makes no Python object of a quad; we count their lines.

Most lines stand in the file as a store will write them.  All others are put into a store in memory, which writes them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyoxigraph import NamedNode, RdfFormat, Store, parse

from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.syntax import RESERVED_PREFIX
from quadlog.seed.quads import errors_of, opened
from quadlog.seed.sources import BUFFER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.seed.quads import Tally
    from quadlog.seed.sources import Source

LARGE: Final = 50_000_000
"""Bytes of a file: each call of the loader writes tables of its own, so small files go together another way."""

HELD: Final = 1024 * 1024
"""Bytes of lines that are put into a store in memory at once."""

_BLANK: Final = b"_:"
_RESERVED: Final = RESERVED_PREFIX.encode()

_IRI: Final = rb'<[^<>"{}|^`\\\x00-\x20\x7f]*>'
_CHARS: Final = rb'[^"\\\x00-\x1f\x7f\xef]*+'
# Control characters are written as escapes, and so are U+FFFE and U+FFFF, of which \xef is the first byte.
_TEXT: Final = rb'"%b(?:\xef(?!\xbf[\xbe\xbf])%b)*+"' % (_CHARS, _CHARS)
PLAIN: Final = re.compile(rb"^(%b %b (?:%b|%b)(?: %b)? \.)\n" % (_IRI, _IRI, _IRI, _TEXT, _IRI), re.MULTILINE)
"""A line that is written as it stands."""


def is_of_lines(source: Source) -> bool:
    """Whether the lines of a source can be counted one by one.

    The loader renames blank nodes: where there are any, whoever counts has to do so as well.
    """
    if source.format not in {RdfFormat.N_QUADS, RdfFormat.N_TRIPLES} or source.graph or source.size < LARGE:
        return False
    file, on_disk = source.open()
    last = b""
    with errors_of(source), on_disk, file:
        while block := file.read(BUFFER):
            if _BLANK in block or _BLANK in last + block[:1]:
                return False
            last = block[-1:]
    return True


def load(store: Store, source: Source, tally: Tally) -> None:
    """Load a source of lines, and count them on their way.

    Raises:
        UserError: it cannot be read; says where.

    """
    counter = _Counter(source, tally)
    with opened(source, tally, counter.take, keep_blank_nodes=False) as text:
        store.bulk_load(text, source.format)
    counter.settle()
    assert not counter.held, "the loader takes no line that a store in memory does not take"


class _Counter:
    """Counts the lines of blocks."""

    def __init__(self, source: Source, tally: Tally) -> None:
        self._source, self._tally = source, tally
        self.held: list[bytes] = []
        self._held_size = 0

    def take(self, block: bytes) -> None:
        """Some more lines, all of them whole."""
        if not block:
            return
        if not block.endswith(b"\n"):
            block += b"\n"
        lines = PLAIN.findall(block)
        self._count(lines, in_block=block)
        if len(lines) < block.count(b"\n"):
            rest = PLAIN.sub(b"", block)
            self.held.append(rest)
            self._held_size += len(rest)
            if self._held_size > HELD:
                self.settle()

    def _count(self, lines: list[bytes], *, in_block: bytes) -> None:
        self._tally.count(lines)
        if _RESERVED in in_block:
            _refuse_reserved(line for line in lines if _RESERVED in line)

    def settle(self) -> None:
        """Count what is held, as a store writes it."""
        store = Store()
        try:
            store.load(b"".join(self.held), self._source.format)
        except SyntaxError:
            return  # the loader finds it too, and knows where
        written = store.dump(format=RdfFormat.N_QUADS) or b""
        self._count(written.split(b"\n")[:-1], in_block=written)
        self.held.clear()
        self._held_size = 0


def _refuse_reserved(lines: Iterable[bytes]) -> None:
    for quad in parse(b"\n".join(lines), RdfFormat.N_QUADS):
        if isinstance(quad.graph_name, NamedNode):
            refuse_reserved(quad.graph_name)
