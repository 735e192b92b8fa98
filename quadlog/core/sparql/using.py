"""``using-graph-uri`` and ``using-named-graph-uri``: the dataset of every WHERE of a request.

They are options of the transaction.  Their values are IRIs separated by blanks, which no IRI contains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyoxigraph import NamedNode

from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.errors import TooLarge, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GRAPH: Final = "using-graph-uri"
NAMED: Final = "using-named-graph-uri"

LIMIT: Final = 16 * 1024
"""Maximum size of all IRIs together, in bytes: every record of a payload contains the options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Using:
    """A dataset: the default graph is the merge of the graphs in `default`; the named graphs are those in `named`."""

    default: tuple[NamedNode, ...]
    named: tuple[NamedNode, ...]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self | None:
        """Return the dataset in a transaction's options; None if they contain none.

        >>> Using.of({"using-graph-uri": "urn:a urn:b"}).default
        (<NamedNode value=urn:a>, <NamedNode value=urn:b>)
        """
        if GRAPH not in options and NAMED not in options:
            return None
        return cls(default=_graphs(options.get(GRAPH)), named=_graphs(options.get(NAMED)))


def _graphs(option: str | None) -> tuple[NamedNode, ...]:
    return () if option is None else tuple(map(NamedNode, option.split(" ")))


def options_of(default: Iterable[str], named: Iterable[str]) -> dict[str, str]:
    """Return the options of a request with these parameters, whose order and repetitions do not matter.

    >>> options_of(["urn:b", "urn:a", "urn:b"], [])
    {'using-graph-uri': 'urn:a urn:b'}

    Raises:
        UserError: a parameter is no absolute IRI.
        Forbidden: a parameter names a reserved graph.
        TooLarge: the options exceed `LIMIT`.

    """
    options = {name: " ".join(sorted(set(iris))) for name, iris in ((GRAPH, default), (NAMED, named)) if iris}
    if sum(len(text.encode()) for text in options.values()) > LIMIT:
        raise TooLarge(f"{GRAPH} and {NAMED} are longer than {LIMIT} bytes together: name fewer graphs")
    for name, iris in ((GRAPH, default), (NAMED, named)):
        for iri in iris:
            try:
                refuse_reserved(NamedNode(iri))
            except ValueError as error:
                raise UserError(f"{name} is no absolute IRI: {iri[:200]!r}: {error}") from None
    return options
