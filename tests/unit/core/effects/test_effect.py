"""Effects: exactly the difference between the state before and the state after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadlog.core.effects import signature
from quadlog.core.effects.effect import (
    Change,
    NamedGraph,
    effect_of,
    effect_on_graphs,
    merged,
)
from quadlog.core.effects.lines import lines_of
from quadlog.core.effects.overlay import Overlay
from quadlog.core.sparql.operations import (
    Clear,
    Create,
    DataOperation,
    DeleteData,
    DeletePattern,
    Drop,
    Every,
    GraphOperation,
    InsertData,
    Send,
    Target,
    Transfer,
)
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

G1, G2 = NamedNode("urn:g1"), NamedNode("urn:g2")
POOL = [
    Quad(NamedNode("urn:s"), NamedNode("urn:p"), Literal(str(n)), graph)
    for n in range(3)
    for graph in (DefaultGraph(), G1, G2)
]
Q = {str(quad): quad for quad in POOL}
D0, A0, B0, D1, A1, B1, *_ = POOL


class Model:
    """A state as two plain sets."""

    def __init__(
        self,
        quads: frozenset[Quad] = frozenset(),
        graphs: frozenset[NamedGraph] = frozenset(),
    ) -> None:
        self.quads = set(quads)
        self.named = set(graphs) | {q.graph_name for q in quads if isinstance(q.graph_name, NamedNode)}

    def contains(self, quad: Quad) -> bool:
        return quad in self.quads

    def has_graph(self, graph: NamedGraph) -> bool:
        return graph in self.named

    def graphs(self) -> Iterator[NamedGraph]:
        return iter(self.named)

    def quads_in(self, graph: NamedGraph | DefaultGraph) -> Iterator[Quad]:
        return iter([quad for quad in self.quads if quad.graph_name == graph])

    def fitting(self, pattern: DeletePattern) -> Iterator[Quad]:
        return iter([quad for quad in self.quads if fits(pattern, quad)])

    def empty(self) -> set[NamedGraph]:
        return {graph for graph in self.named if not any(self.quads_in(graph))}

    def run(self, operations: list[DataOperation]) -> Model:
        after = Model(frozenset(self.quads), frozenset(self.named))
        for operation in operations:
            if isinstance(operation, InsertData):
                after.quads.update(operation.quads)
                after.named.update(
                    q.graph_name for q in operation.quads if isinstance(q.graph_name, NamedNode)
                )
            elif isinstance(operation, DeletePattern):
                after.quads -= {quad for quad in after.quads if fits(operation, quad)}
            else:
                after.quads.difference_update(operation.quads)
        return after

    def signature(self) -> int:
        lines = [signature.quad_line(quad) for quad in self.quads]
        return signature.add(signature.add(0, lines), map(signature.empty_graph_line, self.empty()))


def fits(pattern: DeletePattern, quad: Quad) -> bool:
    places = (pattern.subject, pattern.predicate, pattern.object, pattern.graph)
    return all(asked is None or asked == there for asked, there in zip(places, quad, strict=True))


QUADS = st.lists(st.sampled_from(POOL), max_size=5).map(tuple)
PATTERNS = st.builds(
    DeletePattern,
    subject=st.sampled_from([None, NamedNode("urn:s"), NamedNode("urn:no")]),
    predicate=st.sampled_from([None, NamedNode("urn:p")]),
    object=st.sampled_from([None, Literal("0"), Literal("1")]),
    graph=st.sampled_from([None, DefaultGraph(), G1, G2]),
)
OPERATIONS = st.lists(
    st.builds(InsertData, quads=QUADS) | st.builds(DeleteData, quads=QUADS) | PATTERNS, max_size=4
)
STATES = st.builds(
    Model,
    st.frozensets(st.sampled_from(POOL)),
    st.frozensets(st.sampled_from([G1, G2])),
)


@given(STATES, OPERATIONS)
def test_effect_is_the_difference(before: Model, operations: list[DataOperation]) -> None:
    after = before.run(operations)
    change = effect_of(operations, before)
    assert set(change.deleted) == before.quads - after.quads
    assert set(change.inserted) == after.quads - before.quads
    assert set(change.emptied) == after.empty() - before.empty()
    assert set(change.filled) == before.empty() - after.empty()
    for part in (change.deleted, change.inserted, change.emptied, change.filled):
        assert list(part) == sorted(part, key=str)
    assert signature.after(before.signature(), lines_of(change)) == after.signature()
    assert len(before.quads) + change.growth == len(after.quads)


@given(STATES, st.lists(OPERATIONS, min_size=1, max_size=6), st.data())
def test_an_overlay_shows_what_the_base_does_not_have_yet(
    base: Model, updates: list[list[DataOperation]], data: st.DataObject
) -> None:
    overlay, reference = Overlay(base), base.run([])
    waiting: list[tuple[int, list[DataOperation]]] = []
    for index, operations in enumerate(updates):
        change = effect_of(operations, overlay)
        assert change == effect_of(operations, reference)
        reference = reference.run(operations)
        overlay.push(index, change)
        waiting.append((index, operations))
        drops = data.draw(st.integers(0, len(waiting)))
        for _ in range(drops):
            done, applied = waiting.pop(0)
            moved = base.run(applied)
            base.quads, base.named = moved.quads, moved.named
            _assert_same(overlay, reference)  # applied and not yet dropped
            overlay.drop(done)
        _assert_same(overlay, reference)
    assert len(overlay) == len(waiting)


def _assert_same(overlay: Overlay, reference: Model) -> None:
    assert {quad for quad in POOL if overlay.contains(quad)} == reference.quads
    for graph in (G1, G2):
        assert overlay.has_graph(graph) == reference.has_graph(graph)
        listed = list(overlay.quads_in(graph))
        assert len(listed) == len(set(listed))
        assert set(listed) == set(reference.quads_in(graph))
    for place in (None, DefaultGraph(), G1):
        pattern = DeletePattern(subject=None, predicate=None, object=Literal("1"), graph=place)
        fitting = list(overlay.fitting(pattern))
        assert len(fitting) == len(set(fitting))
        assert set(fitting) == set(reference.fitting(pattern))


def test_an_overlay_forgets_everything_it_was_told() -> None:
    overlay = Overlay(Model())
    overlay.push(1, Change(inserted=(A0, B0)))
    overlay.push(2, Change(deleted=(A0,), emptied=(G1,)))
    overlay.drop(1)
    overlay.drop(2)
    assert not any((overlay._quads, overlay._graphs, overlay._by_graph, overlay._changes))


def test_an_overlay_is_a_queue() -> None:
    overlay = Overlay(Model())
    overlay.push(1, Change())
    overlay.push(2, Change())
    with pytest.raises(AssertionError):
        overlay.drop(2)
    with pytest.raises(AssertionError):
        overlay.push(2, Change())


def test_insert_then_delete_leaves_an_empty_graph_and_no_quad() -> None:
    change = effect_of([InsertData(quads=(A0, D0)), DeleteData(quads=(A0, D0))], Model())
    assert change == Change(emptied=(G1,))


# --- graphs, and many changes as one -------------------------------------------------------------------

TARGETS = st.sampled_from([DefaultGraph(), G1, G2, Every.NAMED, Every.ALL])
ON_GRAPHS = (
    st.builds(Clear, target=TARGETS, silent=st.just(value=True))
    | st.builds(Drop, target=TARGETS, silent=st.just(value=True))
    | st.builds(Create, graph=st.sampled_from([G1, G2]), silent=st.just(value=True))
    | st.builds(
        Send,
        transfer=st.sampled_from(Transfer),
        source=st.sampled_from([DefaultGraph(), G1, G2]),
        target=st.sampled_from([DefaultGraph(), G1, G2]),
        silent=st.just(value=True),
    )
)


def on_graphs(before: Model, operation: GraphOperation) -> Model:
    after = before.run([])
    if isinstance(operation, Create):
        after.named.add(operation.graph)
        return after
    if isinstance(operation, Send):
        return sent(after, operation)
    gone = {quad for quad in after.quads if meant(operation.target, quad.graph_name)}
    after.quads -= gone
    if isinstance(operation, Drop):
        after.named = {graph for graph in after.named if not meant(operation.target, graph)}
    return after


def sent(state: Model, operation: Send) -> Model:
    """As pyoxigraph does it: drop the target, insert what the source has, drop the source."""
    source, target = operation.source, operation.target
    if source == target:
        return state
    arriving = tuple(Quad(q.subject, q.predicate, q.object, target) for q in state.quads_in(source))
    if operation.transfer is not Transfer.ADD:
        state = on_graphs(state, Drop(target=target, silent=True))
    state = state.run([InsertData(quads=arriving)])
    if operation.transfer is Transfer.MOVE:
        state = on_graphs(state, Drop(target=source, silent=True))
    return state


def meant(target: Target, graph: object) -> bool:
    if isinstance(target, Every):
        return target is Every.ALL or graph != DefaultGraph()
    return graph == target


def assert_is_difference(change: Change, before: Model, after: Model) -> None:
    assert set(change.deleted) == before.quads - after.quads
    assert set(change.inserted) == after.quads - before.quads
    assert set(change.emptied) == after.empty() - before.empty()
    assert set(change.filled) == before.empty() - after.empty()
    assert set(change.dropped) == before.named - after.named - before.empty()
    for part in (change.deleted, change.inserted, change.emptied, change.filled, change.dropped):
        assert list(part) == sorted(part, key=str)
    assert signature.after(before.signature(), lines_of(change)) == after.signature()


@given(STATES, ON_GRAPHS)
def test_operations_on_whole_graphs(before: Model, operation: GraphOperation) -> None:
    assert_is_difference(effect_on_graphs(operation, before), before, on_graphs(before, operation))


@given(STATES, st.lists(OPERATIONS | ON_GRAPHS, min_size=1, max_size=6))
def test_changes_merge_to_the_difference_of_first_and_last(
    before: Model, steps: list[list[DataOperation] | GraphOperation]
) -> None:
    state, changes, overlay = before, list[Change](), Overlay(before)
    for number, step in enumerate(steps):
        if isinstance(step, list):
            change, after = effect_of(step, overlay), state.run(step)
        else:
            change, after = effect_on_graphs(step, overlay), on_graphs(state, step)
        assert_is_difference(change, state, after)
        overlay.push(number, change)
        changes.append(change)
        state = after
        assert set(overlay.graphs()) == state.named
    assert_is_difference(merged(changes), before, state)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Clear(target=G2, silent=False), "CLEAR: the graph <urn:g2> does not exist"),
        (Drop(target=G2, silent=False), "DROP: the graph <urn:g2> does not exist"),
        (Create(graph=G1, silent=False), "CREATE: the graph <urn:g1> already exists"),
        (
            Send(transfer=Transfer.MOVE, source=G2, target=G1, silent=False),
            "MOVE: the graph <urn:g2> does not exist",
        ),
    ],
)
def test_what_is_not_there_or_there_already_is_refused(operation: GraphOperation, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        effect_on_graphs(operation, Model(frozenset([A0])))
