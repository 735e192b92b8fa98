"""What a worker holds, proved from its dump: the signature recounted, the graph compared with a file's.

The recount is written here a second time on purpose: it must not share code with what it checks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from pyoxigraph import CanonicalizationAlgorithm, Dataset, RdfFormat, Store, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyoxigraph import Quad

LABEL = re.compile("_:c14n[0-9]+")
SHOWN = 2
"""Lines of each side in the description of a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """What a dump says of itself."""

    quads: int
    signature: str


def recount(dump: bytes) -> Recount:
    """Count the quads of an N-Quads dump and sum the hashes of its lines.

    Comments count for the signature, since they name empty graphs, but are no quads.

    >>> recount(b'<urn:s> <urn:p> "o" <urn:g> .').signature[:16]
    'a4bd004eabbf1290'
    """
    lines = dump.splitlines()
    total = sum(int.from_bytes(blake2b(line, digest_size=32).digest(), "big") for line in lines)
    quads = sum(not line.startswith(b"#") for line in lines)
    return Recount(quads=quads, signature=f"{total % 2**256:064x}")


def canonical_file(turtle: bytes) -> frozenset[str]:
    """Return the canonical lines of a Turtle text, after a store has normalised its literals."""
    store = Store()
    store.bulk_load(turtle, format=RdfFormat.TURTLE)
    return canonical_lines(store)


def canonical_dump(dump: bytes) -> frozenset[str]:
    """Return the canonical lines of an N-Quads dump, whose literals a store wrote."""
    return canonical_lines(parse(dump, format=RdfFormat.N_QUADS))


def canonical_lines(quads: Iterable[Quad]) -> frozenset[str]:
    """Return the lines of the quads with the blank node labels of RDFC-1.0.

    Two datasets are isomorphic exactly if these are equal.
    """
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return frozenset(map(str, dataset))


def difference(dump: frozenset[str], file: frozenset[str]) -> str | None:
    """Say how two sets of canonical lines differ; None if they do not.

    One change can give many blank nodes other labels, so what is told leaves these out.

    >>> difference(frozenset({"_:c14n0 <p> 1", "a"}), frozenset({"_:c14n0 <p> 1", "_:c14n1 <p> 1"}))
    '1 only in the worker: a; 1 only in the file: _: <p> 1'
    >>> difference(frozenset({"_:c14n0 <p> _:c14n1"}), frozenset({"_:c14n1 <p> _:c14n0"}))
    'the same but for which blank nodes are linked'
    """
    if dump == file:
        return None
    here, there = (Counter(LABEL.sub("_:", line) for line in lines) for lines in (dump, file))
    sides = (("worker", sorted((here - there).elements())), ("file", sorted((there - here).elements())))
    told = [f"{len(lines)} only in the {side}: {'; '.join(lines[:SHOWN])}" for side, lines in sides if lines]
    return "; ".join(told) or "the same but for which blank nodes are linked"
