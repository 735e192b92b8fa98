"""The Brick ontology: buildings, equipment and sensors, with SHACL shapes in blank nodes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from pyoxigraph import BlankNode, RdfFormat, Triple, parse

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGE = "brickschema"
FILE = "brickschema/ontologies/1.5/Brick.ttl"


def find_brick() -> Path:
    """Return the path of the ontology file, without importing the package: its dependencies are not installed.

    Raises:
        SetupError: the package is not installed, or has another version than the demo requires.

    """
    try:
        path = Path(str(distribution(PACKAGE).locate_file(FILE)))
    except PackageNotFoundError as error:
        raise SetupError(
            f"the Python package {PACKAGE}, which has the demo's data, is not installed: run `make setup`"
        ) from error
    if not path.is_file():
        version = distribution(PACKAGE).version
        raise SetupError(
            f"the Python package {PACKAGE} {version} has no {FILE}: run `make setup` for the right version"
        )
    return path


def read_turtle(text: bytes) -> list[Triple]:
    """Return the distinct triples in the order of the text.

    Blank nodes are named b0, b1, … in the order of their appearance, because the parser creates new names
    each time: the same text gives the same updates.

    >>> [str(triple) for triple in read_turtle(b'<urn:s> <urn:p> [ <urn:q> "o" ] .')]
    ['<urn:s> <urn:p> _:b0', '_:b0 <urn:q> "o"']
    """
    return renamed(quad.triple for quad in parse(text, format=RdfFormat.TURTLE))


def renamed(triples: Iterable[Triple]) -> list[Triple]:
    """Return the distinct triples, with blank nodes numbered in the order of their appearance."""
    names: dict[BlankNode, BlankNode] = {}
    return list(dict.fromkeys(_renamed(triple, names) for triple in triples))


def _renamed(triple: Triple, names: dict[BlankNode, BlankNode]) -> Triple:
    subject, value = triple.subject, triple.object
    if isinstance(subject, BlankNode):
        subject = names.setdefault(subject, BlankNode(f"b{len(names)}"))
    if isinstance(value, BlankNode):
        value = names.setdefault(value, BlankNode(f"b{len(names)}"))
    elif isinstance(value, Triple):
        value = _renamed(value, names)
    return Triple(subject, triple.predicate, value)
