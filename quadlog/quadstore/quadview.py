"""The view of a store for controls: all of its quads except the reserved graph's, read-only.

It has the interface of a pyoxigraph store, so that ``oxrdflib``, and with it SHACL, can use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyoxigraph import QueryBoolean

from quadlog.core.effects.control import refuse_wild
from quadlog.core.sparql.reserved import names_of_query, refuse_reserved_names
from quadlog.core.sparql.text.syntax import check_query
from quadlog.core.sparql.typed import with_checked_strdt
from quadlog.damage import refuse_damage
from quadlog.errors import UserError
from quadlog.quadstore.query_scope import seen_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyoxigraph import (
        BlankNode,
        DefaultGraph,
        Literal,
        NamedNode,
        Quad,
        QuerySolutions,
        QueryTriples,
        Store,
        Triple,
        Variable,
    )

    Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
    Settle: TypeAlias = Callable[[str], tuple[str, Mapping[NamedNode, Callable[..., Term]]]]
    """Replaces NOW() and the random functions in a query by functions of the transaction."""


class QuadView:
    """A view of the state at one moment, for the writing thread."""

    def __init__(self, store: Store, reserved: NamedNode, settle: Settle) -> None:
        """Create a view of `store` without its graph `reserved`."""
        self._store, self._reserved, self._settle = store, reserved, settle

    def holds(self, ask: str) -> bool:
        """Return whether an ASK is true.

        Raises:
            UserError: the query fails.

        """
        result = self.query(ask)
        assert isinstance(result, QueryBoolean), "it was checked to be an ASK"
        return bool(result)

    def query(
        self,
        query: str,
        *,
        substitutions: Mapping[Variable, Term] | None = None,
        **dataset: object,
    ) -> QuerySolutions | QueryBoolean | QueryTriples:
        """Return the result of a query on the store's own dataset; graphs and prefixes in `dataset` are ignored.

        Raises:
            UserError: the query is not SPARQL, is not supported, names a reserved graph, or fails.

        """
        del dataset
        refuse_wild(query)
        check_query(query)
        refuse_reserved_names(query, names_of_query(query))
        text, functions = self._settle(query)
        text, checked = with_checked_strdt(text)
        text, named = seen_by(self._store, text, reserved=self._reserved)
        try:
            return self._store.query(
                text,
                named_graphs=named,
                custom_functions={**functions, **checked} or None,
                substitutions=dict(substitutions or {}) or None,
            )
        except (SyntaxError, ValueError, RuntimeError) as error:
            refuse_damage(error)
            raise UserError(f"a query failed: {error}") from None

    def quads_for_pattern(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        value: Term | None,
        graph_name: NamedNode | BlankNode | DefaultGraph | None = None,
    ) -> Iterator[Quad]:
        """Return the matching quads, as the store's method does."""
        found = self._store.quads_for_pattern(subject, predicate, value, graph_name)
        return found if graph_name is not None else (q for q in found if q.graph_name != self._reserved)

    def named_graphs(self) -> Iterator[NamedNode | BlankNode]:
        """Return the named graphs, as the store's method does."""
        return (graph for graph in self._store.named_graphs() if graph != self._reserved)
