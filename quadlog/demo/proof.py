"""Verification of a worker's dump: recomputes the signature, and compares the graph with that of a file.

The signature is implemented here a second time on purpose: the check must not share code with its subject.
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
"""Maximum lines of each side in the description of a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """Number of quads in a dump, and their signature in hex."""

    quads: int
    signature: str


def recount(dump: bytes) -> Recount:
    """Count the quads of an N-Quads dump and sum the hashes of its lines.

    Comments name empty graphs: they are part of the signature, but are not counted as quads.

    >>> recount(b'<urn:s> <urn:p> "o" <urn:g> .').signature[:16]
    'a4bd004eabbf1290'
    """
    lines = dump.splitlines()
    total = sum(int.from_bytes(blake2b(line, digest_size=32).digest(), "big") for line in lines)
    quads = sum(not line.startswith(b"#") for line in lines)
    return Recount(quads=quads, signature=f"{total % 2**256:064x}")


def canonical_file(turtle: bytes) -> frozenset[str]:
    """Return the canonical lines of a Turtle text, with literals as normalised by a store."""
    store = Store()
    store.bulk_load(turtle, format=RdfFormat.TURTLE)
    return canonical_lines(store)


def canonical_dump(dump: bytes) -> frozenset[str]:
    """Return the canonical lines of an N-Quads dump, in which a store has already normalised the literals."""
    return canonical_lines(parse(dump, format=RdfFormat.N_QUADS))


def canonical_lines(quads: Iterable[Quad]) -> frozenset[str]:
    """Return the N-Quads lines of the quads, with the canonical blank node labels of RDFC-1.0.

    Two datasets are isomorphic if and only if their canonical lines are equal.
    """
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return frozenset(map(str, dataset))


def difference(dump: frozenset[str], file: frozenset[str]) -> str | None:
    """Return a description of the difference between two sets of canonical lines; None if they are equal.

    One change can change the labels of many blank nodes, so the description omits the labels.

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
