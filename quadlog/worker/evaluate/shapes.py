"""SHACL shapes, checked by pyshacl against the default graph of a store.

Imported when the first shapes are evaluated: pyshacl and rdflib take a third of a second and 50 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import pyshacl
from oxrdflib import OxigraphStore
from pyoxigraph import RdfFormat, parse
from rdflib import Graph
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID

from quadlog.damage import refuse_damage
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyoxigraph import Store

    from quadlog.quadstore.quadview import QuadView

_VALIDATE: Final = cast("Callable[..., tuple[bool, object, str]]", vars(pyshacl)["validate"])
"""pyshacl's function, which is untyped in parts."""


class _Data(Graph):
    """The default graph of a store."""

    def __len__(self) -> int:
        """Return 1: pyshacl tests in many places whether the graph is empty, and each test would scan all of it."""
        return 1


class Shapes:
    """A shapes graph."""

    def __init__(self, text: str) -> None:
        """Parse `text`, which is Turtle that was checked.

        Raises:
            UserError: it contains what rdflib does not know, such as triple terms.

        """
        # Parsed by pyoxigraph: rdflib would resolve relative IRIs against the working directory.
        lines = (f"{quad.triple} ." for quad in parse(text.encode(), format=RdfFormat.TURTLE))
        self._graph = Graph()
        try:
            self._graph.parse(data="\n".join(lines), format="nt")
        except Exception as error:
            raise UserError(f"the shapes are not understood: {error}") from error

    def complaint(self, visible: QuadView) -> str | None:
        """Return the report of what does not conform; None if everything conforms.

        Raises:
            UserError: the shapes cannot be evaluated.

        """
        data = _Data(store=OxigraphStore(store=cast("Store", visible)), identifier=DATASET_DEFAULT_GRAPH_ID)
        return self._report(data, meta_shacl=False)

    def check(self) -> None:
        """Check that the shapes are valid, also while there are no data that they concern.

        Raises:
            UserError: they are not valid; contains the report of SHACL on them.

        """
        self._report(Graph(), meta_shacl=True)

    def _report(self, data: Graph, *, meta_shacl: bool) -> str | None:
        try:
            conforms, _, report = _VALIDATE(data, shacl_graph=self._graph, meta_shacl=meta_shacl)
        except (OSError, MemoryError, UserError):
            raise
        except Exception as error:
            refuse_damage(error)
            raise UserError(f"{type(error).__name__}: {error}") from error
        return None if conforms else report
