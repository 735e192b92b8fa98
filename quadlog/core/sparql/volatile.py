"""NOW() and the functions of chance: in an update they are functions of the transaction.

So a successor that evaluates the same entry on the same state computes the same effect, as far as
its store calls them in the same order.  ``BNODE("label")`` stays pyoxigraph's own.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING
from uuid import UUID

from pyoxigraph import BlankNode, Literal, NamedNode

from quadlog.core.sparql.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Function = Callable[[], NamedNode | BlankNode | Literal]

_MENTIONED = re.compile(r"(?i)\b(?:NOW|RAND|UUID|STRUUID|BNODE)\b")
_HINTS = ("NOW", "RAND", "UUID", "BNODE")
"""One of them is in every text that mentions any; looked for in a tenth of the time."""
_PREFIX = "urn:quadlog:function:"
_XSD = "http://www.w3.org/2001/XMLSchema#"


def settled(text: str, *, seed: bytes, created: int) -> tuple[str, Mapping[NamedNode, Function]]:
    """The query with calls of these replaced, and the custom functions that it calls instead.

    >>> settled("SELECT * { BIND(now() AS ?n) }", seed=b"", created=0)[0]
    'SELECT * { BIND(("1970-01-01T00:00:00.000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>) AS ?n) }'
    >>> settled("SELECT * { BIND(UUID() AS ?n) }", seed=b"", created=0)[0]
    'SELECT * { BIND(<urn:quadlog:function:uuid>() AS ?n) }'
    """
    capitals = text.upper()
    if not any(hint in capitals for hint in _HINTS) or _MENTIONED.search(text) is None:
        return text, {}
    chance = _Chance(seed)
    functions = chance.functions()
    pieces: list[str] = []
    done, word, start = 0, "", 0
    for token in tokens(text):
        if token["nil"] and word == "NOW":
            # In brackets: FILTER, HAVING, GROUP BY and ORDER BY take no literal without.
            moment = datetime.fromtimestamp(created / 1000, UTC).isoformat(timespec="milliseconds")
            pieces += (text[done:start], f'("{moment.replace("+00:00", "Z")}"^^<{_XSD}dateTime>)')
            done = token.end()
        elif token["nil"] and (name := NamedNode(_PREFIX + word.lower())) in functions:
            pieces += (text[done:start], f"{name}()")
            done = token.end()
        word, start = (token["word"] or "").upper(), token.start("word")
    return "".join((*pieces, text[done:])), functions


class _Chance:
    """Numbers that follow from a seed."""

    def __init__(self, seed: bytes) -> None:
        """Equal seeds, equal numbers."""
        self._seed, self._calls = seed, 0

    def functions(self) -> dict[NamedNode, Function]:
        """By the names that they are called by."""
        by_name: dict[str, Function] = {
            "rand": lambda: Literal(int.from_bytes(self._bytes()[:6], "big") / (1 << 48)),
            "uuid": lambda: NamedNode(f"urn:uuid:{self._uuid()}"),
            "struuid": lambda: Literal(str(self._uuid())),
            "bnode": lambda: BlankNode("b" + self._bytes().hex()[1:]),
        }
        return {NamedNode(_PREFIX + name): function for name, function in by_name.items()}

    def _uuid(self) -> UUID:
        return UUID(bytes=self._bytes(), version=4)

    def _bytes(self) -> bytes:
        self._calls += 1
        return blake2b(self._seed + self._calls.to_bytes(8, "big"), digest_size=16).digest()
