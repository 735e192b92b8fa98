"""The demo's split: components stay together, every triple is said once, and the same way each time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from quadlog.core.update import InsertData, parse_update
from quadlog.demo.ontology import read_turtle
from quadlog.demo.proof import canonical_lines
from quadlog.demo.split import batches, blank_nodes, components, updates_of

SMALL = b"""
@prefix : <urn:> .
:pump a :Class ; :label "Pump", "Pumpe"@de ;
  :shape [ :path :feeds ; :or ( [ :class :Tank ] [ :class :Pipe ] ) ] .
:valve :shape _:shared .
:pipe :shape _:shared ; :label "Pipe" .
_:shared :path :isFedBy .
:pump a :Class .
"""

nodes = st.integers(0, 12).map(lambda n: BlankNode(f"n{n}"))
names = st.integers(0, 4).map(lambda n: NamedNode(f"urn:{n}"))
flat = st.builds(
    Triple,
    st.one_of(nodes, names),
    names,
    st.one_of(nodes, names, st.integers(0, 4).map(lambda n: Literal(str(n)))),
)
graphs = st.lists(st.one_of(flat, st.builds(Triple, st.one_of(nodes, names), names, flat)), max_size=60)


def test_a_small_file() -> None:
    sizes = [len(component) for component in components(read_turtle(SMALL))]
    assert sorted(sizes) == [1, 1, 1, 1, 3, 9], (
        "four plain ones, :shared with its uses, the list with its shapes"
    )
    assert [update.triples for update in updates_of(read_turtle(SMALL), target=4)] == [3, 9, 4]


def test_the_same_file_gives_the_same_updates() -> None:
    once, again = updates_of(read_turtle(SMALL)), updates_of(read_turtle(SMALL))
    assert once == again
    assert len({update.key for update in updates_of(read_turtle(SMALL), target=1)}) == 6


@given(graphs, st.integers(1, 20))
def test_every_triple_is_in_one_batch(graph: list[Triple], target: int) -> None:
    assert Counter(triple for batch in batches(graph, target=target) for triple in batch) == Counter(
        set(graph)
    )


@given(graphs, st.integers(1, 20))
def test_no_blank_node_is_in_two_batches(graph: list[Triple], target: int) -> None:
    found = [
        {node for triple in batch for node in blank_nodes(triple)} for batch in batches(graph, target=target)
    ]
    assert sum(map(len, found)) == len(set[BlankNode]().union(*found))


@given(graphs, st.integers(1, 20))
def test_a_batch_is_small_or_one_component(graph: list[Triple], target: int) -> None:
    for batch in batches(graph, target=target):
        assert len(batch) <= target or len(components(batch)) == 1


@given(graphs)
def test_a_component_cannot_be_split_further(graph: list[Triple]) -> None:
    for component in components(graph):
        reached = set(blank_nodes(component[0]))
        for _ in component:
            for triple in component:
                if reached.intersection(blank_nodes(triple)):
                    reached.update(blank_nodes(triple))
        assert all(reached.intersection(blank_nodes(triple)) for triple in component) or len(component) == 1


def test_the_updates_say_what_the_file_says() -> None:
    quads: list[Quad] = []
    for update in updates_of(read_turtle(SMALL), target=4):
        [operation] = parse_update(update.text, tx_id=update.key.encode())
        assert isinstance(operation, InsertData)
        quads += operation.quads
    assert canonical_lines(quads) == canonical_lines(
        quad
        for update in updates_of(read_turtle(SMALL))
        for quad in parse_update(update.text, tx_id=b"1")[0].quads
    )
