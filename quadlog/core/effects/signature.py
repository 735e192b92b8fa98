"""Signature of a state: equal states have equal signatures, whatever the order of writes.

It is the sum modulo 2^256 of blake2b-256 over one line of text for

* every stored quad: its N-Quads line, as pyoxigraph writes it, without the line feed;
* every *empty* named graph, which pyoxigraph keeps and N-Quads cannot express: a comment,
  so that it can never equal a quad's line, and a dump with these lines is still N-Quads.

So the signature of a dump is the sum over its lines, and any program can recompute it:

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

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyoxigraph import BlankNode, NamedNode, Quad

    from quadlog.core.effects.lines import Lines

EMPTY = 0
MODULUS = 1 << 256


def quad_line(quad: Quad) -> str:
    """Return the N-Quads line of a quad as it is *stored*, that is, with normalised literals."""
    return f"{quad} ."


def empty_graph_line(graph: NamedNode | BlankNode | str) -> str:
    """Return the line that represents a named graph without quads; ``graph``: a term or its N-Quads text."""
    return f"# empty graph {graph}"


def digest(line: str) -> int:
    """Return the number that a line adds to a signature."""
    return int.from_bytes(blake2b(line.encode(), digest_size=32).digest(), "big")


def add(signature: int, lines: Iterable[str]) -> int:
    """Return the signature after these lines are added."""
    return (signature + sum(map(digest, lines))) % MODULUS


def remove(signature: int, lines: Iterable[str]) -> int:
    """Return the signature after these lines are removed."""
    return (signature - sum(map(digest, lines))) % MODULUS


def after(before: int, lines: Lines) -> int:
    """Return the signature after a change to a state whose signature is ``before``."""
    came, went = sum(map(digest, lines.inserted)), sum(map(digest, lines.deleted))
    if lines.emptied or lines.filled:
        came += sum(map(digest, map(empty_graph_line, lines.emptied)))
        went += sum(map(digest, map(empty_graph_line, lines.filled)))
    return (before + came - went) % MODULUS


@dataclass(slots=True)
class LineCount:
    """Signature and number of quads of a state's lines, which are added in any order.

    >>> count = LineCount()
    >>> count.add([b'<urn:s> <urn:p> "o" <urn:g> .', b"# empty graph <urn:h>"])
    >>> count.quads, count.signature == add(EMPTY, ['<urn:s> <urn:p> "o" <urn:g> .', "# empty graph <urn:h>"])
    (1, True)
    """

    quads: int = 0
    _sum: int = 0

    def add(self, lines: Iterable[bytes]) -> None:
        """Add lines without line feeds; comments represent empty graphs and are not quads."""
        for line in lines:
            self._sum += int.from_bytes(blake2b(line, digest_size=32).digest(), "big")
            self.quads += not line.startswith(b"#")

    @property
    def signature(self) -> int:
        """Signature of all lines added."""
        return self._sum % MODULUS


def as_bytes(signature: int) -> bytes:
    """Return a signature as in effects and heartbeats: 32 bytes, big-endian."""
    return signature.to_bytes(32, "big")


def render(signature: int) -> str:
    """Return a signature as 64 hex digits.

    >>> render(255)[-4:], len(render(EMPTY))
    ('00ff', 64)
    """
    return f"{signature:064x}"
