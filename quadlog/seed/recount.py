"""The signature of a store that is not being written, counted by several processes at once.

    python -m quadlog.seed.recount FILES GRAPHS FIRST COUNT

Each process reads a part of the quads, and writes one line of JSON.  A store that is not written returns them in the
same order each time, so a part is a range of positions in that order; GRAPHS is `default` or `named`.  Skipping quads
costs a twentieth of reading them.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from pyoxigraph import Literal, Quad, QuerySolutions, Store

from quadlog.child_process import ChildTask
from quadlog.core.effects import signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyoxigraph import BlankNode, NamedNode

PART: Final = 500_000
"""Quads of a part, for about five seconds of work."""

_PATTERNS: Final = {"default": "?s ?p ?o", "named": "GRAPH ?g { ?s ?p ?o }"}


def recount(files: Path, counted: Callable[[int], None]) -> tuple[int, int]:
    """Return signature and number of quads in pyoxigraph's files; call `counted` with the quads of each part.

    Raises:
        StateError: a process failed.

    """
    total = quads = 0

    def count(cut: tuple[str, int]) -> tuple[int, int]:
        return _count(files, *cut)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, found in pool.map(count, list(_cuts(files))):
            total += part
            quads += found
            counted(found)
    return signature.add(
        total, map(signature.empty_graph_line, empty_graphs(Store.read_only(str(files))))
    ), quads


def _cuts(files: Path) -> Iterator[tuple[str, int]]:
    store = Store.read_only(str(files))
    in_all = len(store)
    in_default = _count_default(store)
    for graphs, count in (("default", in_default), ("named", in_all - in_default)):
        for first in range(0, count, PART):
            yield graphs, first


def _count_default(store: Store) -> int:
    found = store.query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")
    assert isinstance(found, QuerySolutions), "a SELECT has solutions"
    number = next(found)["n"]
    assert isinstance(number, Literal), "a COUNT is a number"
    return int(number.value)


def empty_graphs(store: Store) -> Iterator[NamedNode | BlankNode]:
    """Yield the named graphs without quads."""
    return (
        g for g in store.named_graphs() if next(store.quads_for_pattern(None, None, None, g), None) is None
    )


def _count(files: Path, graphs: str, first: int) -> tuple[int, int]:
    with ChildTask(__name__, str(files), graphs, str(first), str(PART)) as process:
        said: dict[str, Any] = process.result()
    return int(said["total"], 16), said["quads"]


def _lines_of(store: Store, graphs: str, first: int, count: int) -> Iterator[str]:
    """Yield the lines of `count` quads, after skipping `first` ones."""
    names = "?s ?p ?o ?g" if graphs == "named" else "?s ?p ?o"
    found = store.query(f"SELECT {names} {{ {_PATTERNS[graphs]} }} OFFSET {first} LIMIT {count}")
    assert isinstance(found, QuerySolutions), "a SELECT has solutions"
    # A bare triple term has no brackets: only inside a quad it is written as in the signature.
    return (signature.quad_line(Quad(*solution)) for solution in found)


def main(files: str, graphs: str, first: str, count: str) -> None:
    """Count a range of quads, and write their sum and number."""
    total = quads = 0
    for line in _lines_of(Store.read_only(files), graphs, int(first), int(count)):
        total += signature.digest(line)
        quads += 1
    sys.stdout.write(json.dumps({"total": f"{total:x}", "quads": quads}))


if __name__ == "__main__":
    main(*sys.argv[1:])
