"""Large files of lines go to pyoxigraph's own loader, which makes no Python object of a quad; their lines are counted.

Counted they are by a process of its own (`counting`), from the same file.
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
    from quadlog.seed.sources import Source

LARGE: Final = 50_000_000
"""Bytes of a file: each call of the loader writes tables of its own, so small files go together another way."""

_BLANK: Final = b"_:"


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


def load(store: Store, source: Source, tally: Tally, check: Callable[[], None]) -> None:
    """Load a source of lines; `check` is asked for each block whether to go on, and raises if not.

    Raises:
        UserError: it cannot be read; says where.

    """

    def look(block: bytes) -> None:
        tally.passed += block.count(b"\n")
        check()

    with opened(source, tally, look, keep_blank_nodes=False) as text:
        store.bulk_load(text, source.format)
