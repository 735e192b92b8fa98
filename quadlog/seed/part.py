"""One part of a recount, as a process of its own: the quads from one place on, as a store gives them.

    python -m quadlog.seed.part FILES GRAPHS FIRST COUNT

GRAPHS is `default` or `named`.  Says one line of JSON.  Passing over quads costs a twentieth of reading them.
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
    """The lines of so many quads."""
    names = "?s ?p ?o ?g" if graphs == "named" else "?s ?p ?o"
    found = store.query(f"SELECT {names} {{ {_PATTERNS[graphs]} }} OFFSET {first} LIMIT {count}")
    assert isinstance(found, QuerySolutions), "a SELECT has solutions"
    # A triple term of its own has no brackets: only in a quad it is written as the signature has it.
    return (signature.quad_line(Quad(*solution)) for solution in found)


def main(files: str, graphs: str, first: str, count: str) -> None:
    """Count them."""
    total = quads = 0
    for line in lines_of(Store.read_only(files), graphs, int(first), int(count)):
        total += signature.digest(line)
        quads += 1
    sys.stdout.write(json.dumps({"total": f"{total:x}", "quads": quads}))


if __name__ == "__main__":
    main(*sys.argv[1:])
