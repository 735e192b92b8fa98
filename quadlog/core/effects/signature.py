"""The signature of a state: equal states, equal signatures, whatever the order of writes.

It is the sum modulo 2^256 of blake2b-256 over one line of text for

* every stored quad: its N-Quads line, as pyoxigraph writes it, without the line feed;
* every *empty* named graph, which pyoxigraph keeps and N-Quads cannot say: a comment,
  so that it can never be a quad's line and a dump with these lines is still N-Quads.

So the signature of a dump is the sum over its lines, and anyone can recount it:

>>> from pyoxigraph import Literal, NamedNode, Quad
>>> quad = Quad(NamedNode("urn:s"), NamedNode("urn:p"), Literal("o"), NamedNode("urn:g"))
>>> quad_line(quad)
'<urn:s> <urn:p> "o" <urn:g> .'
>>> empty_graph_line(NamedNode("urn:g"))
'# empty graph <urn:g>'
>>> one = add(EMPTY, [quad_line(quad)])
>>> render(one)
'a4bd004eabbf1290e26c2cdb36d1181a2150a8561fd467e6c21935343b1316c7'
>>> remove(one, [quad_line(quad)]) == EMPTY
True
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyoxigraph import BlankNode, NamedNode, Quad

    from quadlog.core.effects.lines import Lines

EMPTY = 0
MODULUS = 1 << 256


def quad_line(quad: Quad) -> str:
    """The N-Quads line of a quad as it is *stored*, so with normalised literals."""
    return f"{quad} ."


def empty_graph_line(graph: NamedNode | BlankNode | str) -> str:
    """The line that stands for a named graph without quads; as a term, or as N-Quads has it."""
    return f"# empty graph {graph}"


def digest(line: str) -> int:
    """What one line adds to a signature."""
    return int.from_bytes(blake2b(line.encode(), digest_size=32).digest(), "big")


def add(signature: int, lines: Iterable[str]) -> int:
    """The signature after these lines have come."""
    return (signature + sum(map(digest, lines))) % MODULUS


def remove(signature: int, lines: Iterable[str]) -> int:
    """The signature after these lines have gone."""
    return (signature - sum(map(digest, lines))) % MODULUS


def after(before: int, lines: Lines) -> int:
    """The signature of a state of signature ``before`` once a change is made."""
    came, went = sum(map(digest, lines.inserted)), sum(map(digest, lines.deleted))
    if lines.emptied or lines.filled:
        came += sum(map(digest, map(empty_graph_line, lines.emptied)))
        went += sum(map(digest, map(empty_graph_line, lines.filled)))
    return (before + came - went) % MODULUS


def as_bytes(signature: int) -> bytes:
    """As it stands in effects and heartbeats: 32 bytes, big-endian."""
    return signature.to_bytes(32, "big")


def render(signature: int) -> str:
    """64 hex digits.

    >>> render(255)[-4:], len(render(EMPTY))
    ('00ff', 64)
    """
    return f"{signature:064x}"
