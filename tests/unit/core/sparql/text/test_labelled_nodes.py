"""BNODE with an argument, as SPARQL 1.1, 17.4.2.9, has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyoxigraph import BlankNode, NamedNode, QuerySolutions, Store

from quadlog.core.sparql.text.labelled_nodes import labelled_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

P = NamedNode("urn:p")
ROWS = 'VALUES ?x { "u" "v" "w" }'


@pytest.fixture(scope="module")
def store() -> Store:
    store = Store()
    store.update("INSERT DATA { <urn:a> <urn:p> 1, 2, 3 ; <urn:q> 'u', 'v' . _:k <urn:p> 4 }")
    return store


def rows(store: Store, text: str) -> list[tuple[object, ...]]:
    changed, functions = labelled_nodes(text, BlankNode)
    found = store.query(changed, custom_functions=dict(functions))
    assert isinstance(found, QuerySolutions)
    return [tuple(solution) for solution in found]


def nodes(found: Sequence[tuple[object, ...]]) -> list[list[int | None]]:
    """The columns that are blank nodes, as numbers in their order of appearance; None: unbound."""
    known: dict[object, int] = {}
    return [
        [None if value is None else known.setdefault(value, len(known)) for value in row] for row in found
    ]


K = 'BNODE("k")'
CASES = {
    # one call: another node for each solution
    f"SELECT ?b {{ {ROWS} BIND({K} AS ?b) }}": [[0], [1], [2]],
    f"SELECT ({K} AS ?b) {{ {ROWS} }}": [[0], [1], [2]],
    f"SELECT ({K} AS ?b) {{ VALUES ?x {{ 1 1 }} }}": [[0], [1]],
    "SELECT (bnode # a comment\n ( ?x ) AS ?b) { VALUES ?x { 'a' 'a' } }": [[0], [1]],
    # the same label in one solution: the same node; W3C test bnode01
    f"SELECT ({K} AS ?a) ({K} AS ?b) (BNODE('l') AS ?c) {{ {ROWS} }}": [[0, 0, 1], [2, 2, 3], [4, 4, 5]],
    "SELECT (BNODE(?s) AS ?a) (BNODE(?t) AS ?b) { VALUES (?s ?t) { ('f' 'f') ('f' 'b') ('b' 'f') ('b' 'b') } }": [
        [0, 0],
        [1, 2],
        [3, 4],
        [5, 5],
    ],
    f"SELECT ?a ?b {{ {ROWS} BIND({K} AS ?a) BIND({K} AS ?b) }}": [[0, 0], [1, 1], [2, 2]],
    f"SELECT ?a ?b {{ {ROWS} BIND({K} AS ?a) . FILTER(?x != 'v') BIND({K} AS ?b) }}": [[0, 0], [1, 1]],
    f"SELECT ?a ?b {{ {ROWS} BIND({K} AS ?a) FILTER regex(?x, '.') FILTER NOT EXISTS {{}} BIND({K} AS ?b) }}": [],
    f"SELECT ?a ?b {{ {ROWS} BIND({K} AS ?a) FILTER EXISTS {{}} FILTER STR(?x) BIND({K} AS ?b) }}": [
        [0, 0],
        [1, 1],
        [2, 2],
    ],
    f"SELECT (sameTerm({K}, {K}) AS ?same) {{ }}": [[0]],
    # whichever of the calls are evaluated
    f"SELECT (IF(?x = 'u', {K}, {K}) AS ?a) {{ {ROWS} }}": [[0], [1], [2]],
    f"SELECT (COALESCE(IF(?x = 'u', {K}, ?no), {K}) AS ?a) ({K} AS ?b) {{ {ROWS} }}": [[0, 0], [1, 1], [2, 2]],
    f"SELECT (IF(?x = 'v', {K}, ?no) AS ?a) ({K} AS ?b) {{ {ROWS} }}": [[None, 0], [1, 1], [None, 2]],
    f"SELECT ?a ?b {{ {ROWS} BIND(IF(?x = 'v', {K}, ?no) AS ?a) BIND({K} AS ?b) }}": [[None, 0], [1, 1], [None, 2]],
    # solutions that are made one after the other are not one
    f"SELECT ?a ?b {{ BIND({K} AS ?a) <urn:a> <urn:q> ?z BIND({K} AS ?b) }}": [[0, 1], [0, 2]],
    f"SELECT ?a ?b {{ {ROWS} BIND({K} AS ?a) {{ VALUES ?z {{ 1 2 }} }} BIND({K} AS ?b) }} ORDER BY ?x ?z": [
        [0, 1],
        [0, 2],
        [3, 4],
        [3, 5],
        [6, 7],
        [6, 8],
    ],
    f"SELECT ?a ?b {{ {{ BIND({K} AS ?a) }} {{ BIND({K} AS ?b) }} }}": [[0, 1]],
    f"SELECT ?b {{ {{ BIND({K} AS ?b) }} UNION {{ BIND({K} AS ?b) }} }}": [[0], [1]],
    f"SELECT ?a ({K} AS ?b) {{ {{ SELECT ?x ({K} AS ?a) {{ {ROWS} }} ORDER BY ?x }} }}": [[0, 1], [2, 3], [4, 5]],
    f"SELECT (COUNT(DISTINCT {K}) AS ?n) ({K} AS ?b) ({K} AS ?c) {{ {ROWS} }}": [[0, 1, 1]],
    f"SELECT ?x ({K} AS ?b) ({K} AS ?c) {{ {ROWS} }} GROUP BY ?x HAVING(sameTerm({K}, {K})) ORDER BY ?x": [
        [0, 1, 1],
        [2, 3, 3],
        [4, 5, 5],
    ],
    # errors
    "SELECT (BNODE(1) AS ?a) (BNODE('x'@en) AS ?b) (BNODE(<urn:a>) AS ?c) (BNODE(?no) AS ?d) (BNODE('') AS ?e) {}": [
        [None, None, None, None, 0]
    ],
    f"SELECT ({K} AS ?a) (BNODE(1) AS ?b) {{}}": [[0, None]],
    # words without spaces
    f"SELECT ?a {{ {ROWS} FILTERIF(?x='u',isBLANK({K}),isBLANK({K})) BIND(trueAS ?a) }}": [[0], [0], [0]],
    f"SELECT ?a {{ {ROWS} FILTERISBLANK({K})BIND({K}AS?a) }}": [[0], [1], [2]],
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.items(), ids=CASES)
def test_one_node_for_each_label_and_solution(store: Store, text: str, wanted: object) -> None:
    store.query(text)  # it is legal as it came
    assert nodes(rows(store, text)) == wanted


def test_no_node_is_one_that_is_stored_or_was_made_before(store: Store) -> None:
    [stored] = [
        quad.subject for quad in store.quads_for_pattern(None, P, None) if isinstance(quad.subject, BlankNode)
    ]
    text = f'SELECT ?b {{ VALUES ?x {{ 1 2 }} BIND(BNODE("{stored.value}") AS ?b) }}'
    found = [*rows(store, text), *rows(store, text)]
    assert len({*found, (stored,)}) == 5
    assert not rows(store, f'SELECT * {{ BIND(BNODE("{stored.value}") AS ?b) ?b ?p ?o }}')


def test_calls_in_filters_and_in_what_exists(store: Store) -> None:
    same = f"SELECT * {{ {ROWS} FILTER(sameTerm({K}, {K})) }}"
    assert len(rows(store, same)) == 3
    assert not rows(store, f"SELECT * {{ {ROWS} FILTER(sameTerm({K}, BNODE('l'))) }}")
    exists = (
        f"SELECT * {{ {ROWS} FILTER EXISTS {{ BIND({K} AS ?a) BIND({K} AS ?b) FILTER(sameTerm(?a, ?b)) }} }}"
    )
    assert len(rows(store, exists)) == 3


@pytest.mark.parametrize("text", [
    "SELECT * { ?s ?p 'BNODE(1)' }", "SELECT (BNODE() AS ?b) {}", "SELECT * { ?bnode ?p (?o) }",
    "SELECT * { <urn:BNODE(> ?p ?o }",
])  # fmt: skip
def test_nothing_else_is_changed(text: str) -> None:
    assert labelled_nodes(text, BlankNode)[0] == text
