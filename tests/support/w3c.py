"""The W3C's tests of SPARQL 1.1 Update, out of the jar that `quadlog kafka setup` resolves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from zipfile import ZipFile

import pyoxigraph as ox
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store

from quadlog.kafka.prepare import prepare
from tests.support.isomorphism import isomorphic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyoxigraph import BlankNode

    Node = NamedNode | BlankNode

BY_GRAPH = frozenset(("basic-update/insert-05",))
"""Withdrawn by the W3C for `insert-05a`: two documents cannot say that their graphs share a blank node."""

_FOLDER = "testcases-sparql-1.1-w3c"
_BASE = "http://w3c.invalid/"
_A = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_LABEL = NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
_MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
_UT = "http://www.w3.org/2009/sparql/tests/test-update#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An update, with the quads before and after it."""

    name: str
    text: str
    before: tuple[Quad, ...]
    after: tuple[Quad, ...]

    @property
    def preparation(self) -> str:
        """An update that makes the state before out of any other."""
        return f"DROP ALL ; INSERT DATA {{ {' '.join(map(_as_data, self.before))} }}"

    def is_met_by(self, state: Iterable[Quad]) -> bool:
        """Whether the state after is as the W3C has it."""
        state, wanted = set(state), set(self.after)
        if self.name not in BY_GRAPH:
            return isomorphic(state, wanted)
        graphs = {quad.graph_name for quad in state | wanted}
        parts = [[{q for q in quads if q.graph_name == g} for quads in (state, wanted)] for g in graphs]
        return all(isomorphic(*part) for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """A text, and whether it is an update."""

    name: str
    text: str
    is_update: bool


class Suite:
    """The tests of the manifests."""

    def __init__(self) -> None:
        (jar,) = prepare(print).jars.w3c
        self._jar = ZipFile(jar)
        self._manifests = Store()
        names = self._jar.namelist()
        for name in names:
            if name.startswith(f"{_FOLDER}/") and name.endswith("/manifest.ttl"):
                self._manifests.extend(self._parsed(NamedNode(_BASE + name)))

    def close(self) -> None:
        self._jar.close()

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """Those of evaluation, by name."""
        found: list[Evaluation] = []
        for test in self._tests("UpdateEvaluationTest"):
            action, result = (self._one(test, f"{_MF}{part}") for part in ("action", "result"))
            request = self._one(action, f"{_UT}request")
            found.append(
                Evaluation(
                    name=_name(test),
                    text=self._request(request),
                    before=tuple(self._state(action)),
                    after=tuple(self._state(result)),
                )
            )
        return found

    @cached_property
    def syntax(self) -> list[Syntax]:
        """Those of syntax, by name."""
        return [
            Syntax(name=_name(test), text=self._request(self._one(test, f"{_MF}action")), is_update=good)
            for kind, good in (("Positive", True), ("Negative", False))
            for test in self._tests(f"{kind}UpdateSyntaxTest11")
        ]

    def _tests(self, kind: str) -> list[NamedNode]:
        quads = self._manifests.quads_for_pattern(None, _A, NamedNode(_MF + kind), None)
        tests = [quad.subject for quad in quads if isinstance(quad.subject, NamedNode)]
        return sorted(tests, key=str)

    def _all(self, node: Node, predicate: str) -> list[Node]:
        quads = self._manifests.quads_for_pattern(node, NamedNode(predicate), None, None)
        found = [quad.object for quad in quads]
        return [value for value in found if not isinstance(value, (Literal, ox.Triple))]

    def _one(self, node: Node, predicate: str) -> Node:
        (found,) = self._all(node, predicate)
        return found

    def _state(self, node: Node) -> Iterable[Quad]:
        for document in self._all(node, f"{_UT}data"):
            yield from self._parsed(document)
        for entry in self._all(node, f"{_UT}graphData"):
            (label,) = self._manifests.quads_for_pattern(entry, _LABEL, None, None)
            assert isinstance(label.object, Literal)
            graph = NamedNode(label.object.value)
            for quad in self._parsed(self._one(entry, f"{_UT}graph")):
                yield Quad(quad.subject, quad.predicate, quad.object, graph)

    def _parsed(self, document: Node) -> Iterable[Quad]:
        return ox.parse(self._text(document), RdfFormat.TURTLE, base_iri=document.value)

    def _request(self, document: Node) -> str:
        """A text for a server that knows no base: relative IRIs mean the file's own."""
        return f"BASE <{document.value}> {self._text(document)}"

    def _text(self, document: Node) -> str:
        return self._jar.read(document.value.removeprefix(_BASE)).decode()


def _name(test: NamedNode) -> str:
    """Folder and name: `…/data-sparql11/add/manifest#add01` is `add/add01`."""
    parts = urlsplit(test.value)
    return f"{PurePosixPath(parts.path).parent.name}/{parts.fragment}"


def _as_data(quad: Quad) -> str:
    triple = f"{quad.triple} ."
    return triple if isinstance(quad.graph_name, DefaultGraph) else f"GRAPH {quad.graph_name} {{ {triple} }}"
