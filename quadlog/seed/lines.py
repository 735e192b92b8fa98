"""Load of large files of lines by pyoxigraph's own loader, which creates no Python object for a quad.

A separate process (`counting`) counts their lines, from the same file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyoxigraph import RdfFormat

from quadlog.seed.quads import errors_of, opened
from quadlog.seed.sources import BUFFER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyoxigraph import Store

    from quadlog.seed.quads import Tally
    from quadlog.seed.sources import ImportSource

LARGE: Final = 50_000_000
"""Minimum bytes of a file: each call of the loader writes new tables, so small files are loaded together."""

_BLANK: Final = b"_:"


def is_of_lines(source: ImportSource) -> bool:
    """Return whether the lines of a large source can be counted one by one.

    Lines with blank nodes cannot: the loader renames these, and the counter would have to do the same.
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


def load(store: Store, source: ImportSource, tally: Tally, check: Callable[[], None]) -> None:
    """Load a source of lines; `check` is called for each block, and may raise an error to stop.

    Raises as `opened`.
    """

    def look(block: bytes) -> None:
        tally.passed += block.count(b"\n")
        check()

    with opened(source, tally, look, keep_blank_nodes=False) as text:
        store.bulk_load(text, source.format)
