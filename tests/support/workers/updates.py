"""Random updates, and the state that they lead to."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, NamedTuple

import pyoxigraph as ox
from pyoxigraph import Store

from quadlog.core.sparql.using import options_of
from tests.support.isomorphism import isomorphic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.core.records import Effect
    from tests.support.workers.rehearsal import Worker


GRAPHS = ("<urn:g1>", "<urn:g2>", "<urn:g3>")


NODES = ("<urn:a>", "<urn:b>", "<urn:c>")


PREDICATES = ("<urn:p>", "<urn:q>")


VALUES = (*NODES, "1", "02", "'x'@EN", '"1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>', "true")


PATTERNS = (
    "?s ?p ?o",
    "?s <urn:p> ?o",
    "?s ?p ?o . ?o ?q ?x",
    "?s ?p ?o OPTIONAL { ?o <urn:q> ?x }",
    "{ ?s <urn:p> ?o } UNION { ?o <urn:q> ?s }",
    "?s ?p ?o FILTER(isIRI(?o) && ?s != ?o)",
    "?s ?p ?o FILTER NOT EXISTS { ?o ?p ?s }",
    "?s ?p ?o MINUS { ?s <urn:q> ?o }",
    "?s ?p ?n BIND(?n + 1 AS ?o)",
    "VALUES (?s ?o) { (<urn:a> 1) (<urn:b> UNDEF) (2 <urn:c>) } ?x ?p ?y",
    "?s <urn:p>+ ?o",
    "?s (<urn:p>|^<urn:q>)* ?o . ?s ?p ?z",
    "{ SELECT ?s (COUNT(*) AS ?o) { ?s ?p ?y } GROUP BY ?s }",
    "{ SELECT DISTINCT ?s ?o { ?s ?p ?o } }",
    "GRAPH ?g { ?s ?p ?o }",
    "GRAPH ?g { ?s ?p ?o } FILTER(?g != <urn:g1>)",
    "GRAPH ?g { } BIND(<urn:a> AS ?s) BIND(?g AS ?o)",
    "GRAPH ?g { { SELECT (COUNT(*) AS ?o) { ?x ?y ?z } } } BIND(<urn:n> AS ?s)",
    "GRAPH <urn:g1> { ?s ?p ?o } GRAPH ?g { ?s ?p ?x }",
    "BIND(STRDT('007', <http://www.w3.org/2001/XMLSchema#integer>) AS ?o) BIND(<urn:a> AS ?s)",
    "",
)


FEW = "{ SELECT * { ?y ?p ?v } LIMIT 2 }"


VOLATILE = (
    f"{FEW} BIND(NOW() AS ?o) BIND(?y AS ?s)",
    f"{FEW} BIND(RAND() AS ?o) BIND(?y AS ?s)",
    f"{FEW} BIND(UUID() AS ?s) BIND(?v AS ?o)",
    f"{FEW} BIND(STRUUID() AS ?o) BIND(?y AS ?s)",
    f"{FEW} BIND(BNODE() AS ?s) BIND(?v AS ?o)",
    FEW,
    "GRAPH ?g { { SELECT ?s ?p ?o { ?s ?p ?o } LIMIT 1 } }",
)
"""Time, chance, and what is left to the store: pyoxigraph alone says something else each time."""


DATASET = "#dataset#"
"""Where USING may stand instead of the protocol's parameters."""


class Update(NamedTuple):
    """As the worker gets it, and as pyoxigraph alone does, which has no such parameters."""

    text: str
    twin: str
    options: dict[str, str]
    is_volatile: bool = False


class Generator:
    """Updates from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._labels = 0
        self._with_dataset = self._is_volatile = False

    def update(self) -> Update:
        self._is_volatile = False
        number = self.chance.choices((1, 2, 3, 4), (6, 3, 2, 1))[0]
        self._with_dataset = self.chance.random() < 0.1
        text = " ;\n".join(self.operation() for _ in range(number))
        if not self._with_dataset:
            return Update(text, text, {}, self._is_volatile)
        default, named = (
            sorted({self.pick(*GRAPHS) for _ in range(self.chance.randint(0, 2))}) for _ in "dn"
        )
        using = "".join(f"USING {graph} " for graph in default) + "".join(
            f"USING NAMED {graph} " for graph in named
        )
        options = options_of([g[1:-1] for g in default], [g[1:-1] for g in named])
        return Update(text.replace(DATASET, ""), text.replace(DATASET, using), options, self._is_volatile)

    def operation(self) -> str:
        self._labels += 1
        forms = (
            self.insert_data,
            self.delete_data,
            self.modify,
            self.delete_where,
            self.on_graphs,
            self.send,
        )
        return self.chance.choices(forms, (8, 4, 14, 2, 4, 3))[0]()

    def pick(self, *options: str) -> str:
        return self.chance.choice(options)

    def data(self, *more: str) -> str:
        def triple() -> str:
            return f"{self.pick(*NODES, *more)} {self.pick(*PREDICATES)} {self.pick(*VALUES, *more)} ."

        def block() -> str:
            return "".join(triple() for _ in range(self.chance.randint(1, 3)))

        return "".join(
            block() if self.chance.random() < 0.5 else f"GRAPH {self.pick(*GRAPHS)} {{ {block()} }}"
            for _ in range(self.chance.randint(1, 3))
        )

    def insert_data(self) -> str:
        blank = (f"_:b{self._labels}",) if self.chance.random() < 0.3 else ()
        return f"INSERT DATA {{ {self.data(*blank)} }}"

    def delete_data(self) -> str:
        return f"DELETE DATA {{ {self.data()} }}"

    def template(self, *more: str) -> str:
        def triple() -> str:
            subject = self.pick("?s", "?s", "?o", *NODES, *more)
            predicate = self.pick("?p", *PREDICATES)
            value = self.pick("?o", "?o", "?x", "?s", *VALUES, *more)
            if self.chance.random() < 0.05:
                value = "<<( ?s <urn:t> ?x )>>"
            return f"{subject} {predicate} {value} ."

        def block() -> str:
            inner = "".join(triple() for _ in range(self.chance.randint(1, 2)))
            wrap = self.chance.random()
            graph = "?g" if wrap < 0.3 else self.pick(*GRAPHS)
            return inner if wrap > 0.55 else f"GRAPH {graph} {{ {inner} }}"

        return "".join(block() for _ in range(self.chance.randint(0, 2)))

    def modify(self) -> str:
        free = not self._with_dataset
        with_ = f"WITH {self.pick(*GRAPHS)} " if free and self.chance.random() < 0.3 else ""
        using = "" if free else DATASET
        while free and self.chance.random() < 0.25:
            using += f"USING {self.pick('', 'NAMED ')}{self.pick(*GRAPHS)} "
        pattern = self.pick(*PATTERNS)
        if self.chance.random() < 0.08:
            pattern, self._is_volatile = self.pick(*VOLATILE), True
        # Where there are few solutions, so that the nodes stay few.
        few = pattern.startswith(("VALUES", "BIND", "GRAPH ?g { }")) or not pattern
        blank = ("_:n", "[]") if few and self.chance.random() < 0.6 else ()
        delete, insert = f"DELETE {{ {self.template()} }} ", f"INSERT {{ {self.template(*blank)} }} "
        parts = self.pick("delete", "insert", "both", "both")
        templates = {"delete": delete, "insert": insert, "both": delete + insert}[parts]
        return f"{with_}{templates}{using}WHERE {{ {pattern} }}"

    def delete_where(self) -> str:
        inner = self.pick("?s <urn:p> ?o", "?s ?p 1", "<urn:a> ?p ?o . ?o ?q ?x", "<urn:b> <urn:p> <urn:a>")
        graph = self.pick("", "", "?g", *GRAPHS)
        group = f"{{ GRAPH {graph} {{ {inner} }} }}" if graph else f"{{ {inner} }}"
        if self._with_dataset:  # the short form has no place for its equivalent
            return f"DELETE {group} {DATASET} WHERE {group}"
        return f"DELETE WHERE {group}"

    def on_graphs(self) -> str:
        silent = self.pick("", "SILENT ")
        named = f"GRAPH {self.pick(*GRAPHS)}"
        target = self.pick(named, named, named, "DEFAULT", "NAMED", "ALL")
        return self.pick(f"CLEAR {silent}{target}", f"DROP {silent}{target}", f"CREATE {silent}{named}")

    def send(self) -> str:
        def graph() -> str:
            return self.pick("DEFAULT", self.pick("", "GRAPH ") + self.pick(*GRAPHS))

        return f"{self.pick('ADD', 'MOVE', 'COPY')} {self.pick('', 'SILENT ')}{graph()} TO {graph()}"


NO_BLANKS = """DELETE { ?s ?p ?o } WHERE { ?s ?p ?o FILTER(isBlank(?s) || isBlank(?o) || isTRIPLE(?o)) } ;
DELETE { GRAPH ?g { ?s ?p ?o } }
WHERE { GRAPH ?g { ?s ?p ?o } FILTER(isBlank(?s) || isBlank(?o) || isTRIPLE(?o)) }"""


def blank_nodes(quads: Iterable[ox.Quad | str]) -> int:
    return len(set(re.findall(r"_:\w+", " ".join(map(str, quads)))))


def state_of(worker: Worker) -> tuple[set[str], set[str]]:
    """Lines and named graphs."""
    return set(worker.store.lines()), {str(graph) for graph in worker.store.graphs()}


def same(worker: Worker, twin: Store) -> None:
    lines, graphs = state_of(worker)
    quads = [line for line in lines if not line.startswith("#")]
    assert isomorphic(ox.parse("\n".join(quads), format=ox.RdfFormat.N_QUADS), twin)
    assert graphs == {str(graph) for graph in twin.named_graphs()}


def exact(effect: Effect, before: tuple[set[str], set[str]], after: tuple[set[str], set[str]]) -> None:
    """The effect is the difference."""
    was, is_ = (({line for line in lines if line.startswith("#")}, lines) for lines, _ in (before, after))
    assert set(effect.deleted) == before[0] - after[0] - was[0]
    assert set(effect.inserted) == after[0] - before[0] - is_[0]
    assert {f"# empty graph {graph}" for graph in effect.emptied} == is_[0] - was[0]
    assert {f"# empty graph {graph}" for graph in effect.filled} == was[0] - is_[0]
    gone = {graph for graph in before[1] - after[1] if f"# empty graph {graph}" not in was[0]}
    assert set(effect.dropped) == gone
    for part in (effect.deleted, effect.inserted, effect.emptied, effect.filled, effect.dropped):
        assert len(set(part)) == len(part)
