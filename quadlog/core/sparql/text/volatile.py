"""NOW() and the random functions: in an update, their values are derived from the transaction.

A successor that evaluates the same entry on the same state therefore computes the same effect, provided
that its store calls the functions in the same order.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING
from uuid import UUID

from pyoxigraph import BlankNode, Literal, NamedNode

from quadlog.core.sparql.text.datatypes import XSD
from quadlog.core.sparql.text.labelled_nodes import labelled_nodes
from quadlog.core.sparql.text.tokens import edited, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.sparql.text.labelled_nodes import Term

    Function = Callable[..., Term]

_CALLED = re.compile(r"(?:NOW|RAND|STRUUID|UUID|BNODE)$")
"""Matches the end of a word, because pyoxigraph needs no space between words."""
_HINTS = ("NOW", "RAND", "UUID", "BNODE")
"""Every text that calls one of the functions contains one of these."""
_PREFIX = "urn:quadlog:function:"


def settled(text: str, *, seed: bytes, created: int) -> tuple[str, Mapping[NamedNode, Function]]:
    """Return the query with the calls of these functions replaced, and the custom functions that it calls instead.

    `created` is the value of NOW(), in milliseconds since 1970; random values are derived from `seed`.

    >>> settled("SELECT * { BIND(now() AS ?n) }", seed=b"", created=0)[0]
    'SELECT * { BIND(("1970-01-01T00:00:00.000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>) AS ?n) }'
    >>> settled("SELECT * { BIND(UUID() AS ?n) }", seed=b"", created=0)[0]
    'SELECT * { BIND(<urn:quadlog:function:uuid>() AS ?n) }'
    """
    capitals = text.upper()
    if not any(hint in capitals for hint in _HINTS):
        return text, {}
    chance = _Chance(seed)
    text, labelled = labelled_nodes(text, chance.node)
    functions = {**chance.functions(), **labelled}
    edits, start = list[tuple[int, int, str]](), 0
    called: re.Match[str] | None = None
    for token in tokens(text):
        if token["nil"] and called is not None:
            edits.append((start + called.start(), token.end(), _replaced(called[0], created)))
        called, start = _CALLED.search((token["word"] or "").upper()), token.start("word")
    return edited(text, edits), functions


def _replaced(name: str, created: int) -> str:
    if name != "NOW":
        return f"{NamedNode(_PREFIX + name.lower())}()"
    moment = datetime.fromtimestamp(created / 1000, UTC).isoformat(timespec="milliseconds")
    # In brackets, because FILTER, HAVING, GROUP BY and ORDER BY accept no bare literal.
    return f'("{moment.replace("+00:00", "Z")}"^^<{XSD}dateTime>)'


class _Chance:
    """Pseudo-random values that depend only on a seed and the number of earlier calls."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._calls = seed, 0

    def functions(self) -> dict[NamedNode, Function]:
        """Return the custom functions by their names."""
        by_name: dict[str, Function] = {
            "rand": lambda: Literal(int.from_bytes(self._bytes()[:6], "big") / (1 << 48)),
            "uuid": lambda: NamedNode(f"urn:uuid:{self._uuid()}"),
            "struuid": lambda: Literal(str(self._uuid())),
            "bnode": self.node,
        }
        return {NamedNode(_PREFIX + name): function for name, function in by_name.items()}

    def node(self) -> BlankNode:
        """Return a new blank node."""
        return BlankNode("b" + self._bytes().hex()[1:])

    def _uuid(self) -> UUID:
        return UUID(bytes=self._bytes(), version=4)

    def _bytes(self) -> bytes:
        self._calls += 1
        return blake2b(self._seed + self._calls.to_bytes(8, "big"), digest_size=16).digest()
