"""Every form of an update, evaluated as a worker does it, against pyoxigraph's own ``update``."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING, NamedTuple

import pyoxigraph as ox
import pytest
from pyoxigraph import Store

from quadlog import codec
from quadlog.core.records import Effect, Fence, Outcome
from quadlog.core.using import options_of
from quadlog.worker.evaluator import Evaluator
from quadlog.worker.loader import Loader, LoadLimits
from tests.integration.rehearsal import TOPICS, Log, Worker
from tests.isomorphism import isomorphic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from quadlog.core.records import LoggedEntry

SHORT = 1000
UPDATES = int(os.environ.get("QUADLOG_UPDATES", "5000"))
"""Of the long version."""
RUN = 5000
"""Updates on one store: what they deleted stays in its way for a while, and reading all of it takes ever longer."""
RUNS = [(n, min(RUN, UPDATES - n * RUN)) for n in range(-(-UPDATES // RUN))]
SEED = int(os.environ.get("QUADLOG_SEED", "0")) or random.randrange(1, 1 << 32)

MANY = 16
"""Blank nodes in a state, above which an update takes them out: with 40 that are alike a comparison takes seconds."""

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


def recounted(worker: Worker) -> None:
    """What is stored is what it says that it applied."""
    applied = worker.store.applied
    assert worker.store.recount() == (applied.signature, applied.quads)


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


def second_opinion(worker: Worker, entry: LoggedEntry, first: Effect) -> Effect:
    """What another evaluator says, whose store came to this state by following; it leaves nothing there."""
    said: list[Effect] = []
    fence = Fence(term=first.term, attempt=first.attempt, worker="another")
    loader = Loader(LoadLimits.of(worker.settings), lambda: None)
    evaluator = Evaluator(worker.store, fence, lambda effect, _: said.append(effect), loader)
    evaluator.evaluate([entry])
    evaluator.retire()
    [effect] = said
    return effect


def hear_late(evaluating: Worker, chance: random.Random) -> None:
    """Some effects come back late, some in batches."""
    if chance.random() < 0.3:
        evaluating.hear(TOPICS.effects, chance.randint(1, 8))
        evaluating.turn()


def fed_again(path: Path, log: Log, entries: int) -> Worker:
    """A worker that takes in so many entries as a few large batches."""
    worker = Worker(path, log, "fed-again")
    worker.hear(TOPICS.agreed, entries)
    worker.hear(TOPICS.effects, len(log.records[TOPICS.effects]) - 1)
    worker.turn()
    return worker


def twin_of(worker: Worker) -> Store:
    """A store in the same state."""
    twin = Store()
    lines, graphs = state_of(worker)
    quads = "\n".join(line for line in lines if not line.startswith("#"))
    twin.extend(ox.parse(quads, format=ox.RdfFormat.N_QUADS))
    for graph in graphs:
        twin.add_graph(ox.NamedNode(graph[1:-1]))
    return twin


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("run", "updates"), [(0, SHORT), *(pytest.param(*each, marks=pytest.mark.soak) for each in RUNS)]
)
def test_random_updates(tmp_path: Path, run: int, updates: int) -> None:
    """State as pyoxigraph's own up to blank nodes, effect the difference, signature as recounted.

    A second evaluator with another history says the same.
    """
    print("QUADLOG_SEED =", SEED, "run", run)
    generator, log, twin = Generator(SEED + run), Log(), Store()
    evaluating, step_by_step = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    evaluating.take_over()
    rejected = ahead = most_blanks = datasets = volatile = 0
    for number in range(updates):
        many = blank_nodes(twin) > MANY
        text, plain, options, is_volatile = Update(NO_BLANKS, NO_BLANKS, {}) if many else generator.update()
        datasets += bool(options)
        volatile += is_volatile
        entry = log.agree(text, options=options)
        evaluating.hear(TOPICS.agreed)
        evaluating.turn()
        ahead += evaluating.store.is_ahead
        hear_late(evaluating, generator.chance)
        if number == updates // 2:
            step_by_step.close()
            step_by_step = fed_again(tmp_path, log, number)
        effect = _last(log)
        before = state_of(step_by_step)
        assert second_opinion(step_by_step, entry, effect) == effect, text
        assert state_of(step_by_step) == before
        step_by_step.hear(TOPICS.agreed)
        step_by_step.hear(TOPICS.effects)
        step_by_step.turn()
        assert effect.index == number + 1 == step_by_step.store.applied.index, text
        if is_volatile:
            twin = twin_of(step_by_step)
        else:
            assert _runs(twin, plain) is (effect.outcome is Outcome.APPLIED), (text, effect.reason)
        rejected += effect.outcome is Outcome.REJECTED
        exact(effect, before, state_of(step_by_step))
        same(step_by_step, twin)
        most_blanks = max(most_blanks, blank_nodes(twin))
        recounted(step_by_step)
        if not evaluating.store.is_ahead:
            recounted(evaluating)
    evaluating.catch_up()
    assert not evaluating.store.is_ahead
    assert state_of(evaluating) == state_of(step_by_step)
    late = Worker(tmp_path, log, "w3")
    late.catch_up()
    assert state_of(late) == state_of(evaluating)
    print(
        f"{rejected} rejected, {datasets} with a dataset, {volatile} volatile, {ahead} times ahead of what is shown,"
        f" {most_blanks} blank nodes at most"
    )
    assert datasets > updates / 40
    assert volatile > updates / 60
    assert rejected > updates / 100
    assert ahead > updates / 5
    assert most_blanks > 8


def _last(log: Log) -> Effect:
    effect = codec.decode(log.records[TOPICS.effects][-1].value)
    assert isinstance(effect, Effect)
    return effect


def _runs(twin: Store, text: str) -> bool:
    try:
        twin.update(text)
    except RuntimeError:
        return False
    return True
