"""One part of a recount, as a process of its own: a range of quads in the order in which a store returns them.

    python -m quadlog.seed.part FILES GRAPHS FIRST COUNT

GRAPHS is `default` or `named`.  It writes one line of JSON.  Skipping quads costs a twentieth of reading them.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from pyoxigraph import Quad, QuerySolutions, Store

from quadlog.core.effects import signature

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATTERNS: Final = {"default": "?s ?p ?o", "named": "GRAPH ?g { ?s ?p ?o }"}


def lines_of(store: Store, graphs: str, first: int, count: int) -> Iterator[str]:
    """Yield the lines of `count` quads, after skipping `first` ones."""
    names = "?s ?p ?o ?g" if graphs == "named" else "?s ?p ?o"
    found = store.query(f"SELECT {names} {{ {_PATTERNS[graphs]} }} OFFSET {first} LIMIT {count}")
    assert isinstance(found, QuerySolutions), "a SELECT has solutions"
    # A bare triple term has no brackets: only inside a quad it is written as in the signature.
    return (signature.quad_line(Quad(*solution)) for solution in found)


def main(files: str, graphs: str, first: str, count: str) -> None:
    """Count a range of quads, and write their sum and number."""
    total = quads = 0
    for line in lines_of(Store.read_only(files), graphs, int(first), int(count)):
        total += signature.digest(line)
        quads += 1
    sys.stdout.write(json.dumps({"total": f"{total:x}", "quads": quads}))


if __name__ == "__main__":
    main(*sys.argv[1:])
