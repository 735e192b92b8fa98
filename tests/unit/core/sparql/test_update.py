"""Update text to operations: the same quads as pyoxigraph, or an honest refusal."""

from __future__ import annotations

import tracemalloc

import pytest
from pyoxigraph import (
    BlankNode,
    CanonicalizationAlgorithm,
    Dataset,
    NamedNode,
    Quad,
    Store,
    Triple,
)

from quadlog.core.sparql.operations import DeleteData, InsertData, Operation
from quadlog.core.sparql.update import parse_update
from quadlog.errors import Forbidden, SyntaxRefused, Unsupported
from tests.support.update_texts import BODIES, PROLOGUE, XSD


def parse(text: str, tx_id: bytes = b"tx") -> tuple[Operation, ...]:
    return parse_update(text, tx_id=tx_id)


def data_of(text: str, tx_id: bytes = b"tx") -> list[InsertData | DeleteData]:
    operations = parse(text, tx_id)
    data = [o for o in operations if isinstance(o, (InsertData, DeleteData))]
    assert len(data) == len(operations)
    return data


def quads_of(text: str, tx_id: bytes = b"tx") -> list[Quad]:
    return [quad for operation in data_of(text, tx_id) for quad in operation.quads]


def canonical(quads: object) -> list[str]:
    dataset = Dataset(quads)  # type: ignore[arg-type]
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return sorted(map(str, dataset))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_quads_are_those_that_pyoxigraph_stores(body: str) -> None:
    text = f"{PROLOGUE} INSERT DATA {{ {body} }}"
    store = Store()
    store.update(text)
    assert canonical(quads_of(text)) == canonical(store)


GROUND = [
    name for name, body in BODIES.items() if not any(mark in body for mark in ("_:", "[", "(1", "<< ", "{|"))
]


@pytest.mark.parametrize("name", GROUND)
def test_delete_data_names_the_stored_quads(name: str) -> None:
    store = Store()
    store.update(f"{PROLOGUE} INSERT DATA {{ {BODIES[name]} }}")
    (operation,) = parse(f"{PROLOGUE} DELETE DATA {{ {BODIES[name]} }}")
    assert isinstance(operation, DeleteData)
    assert set(operation.quads) == set(store)


def test_quads_come_out_as_stored() -> None:
    (quad,) = quads_of("INSERT DATA { <urn:s> <urn:p> <<( <urn:a> <urn:b> 01 )>> }")
    assert isinstance(quad.object, Triple)
    assert str(quad.object.object) == f'"1"^^<{XSD}integer>'


@pytest.mark.parametrize("text", ["", " \n", "# nothing", "PREFIX a: <urn:a:>", "BASE <urn:a:b> # x"])
def test_no_operation_is_legal(text: str) -> None:
    assert parse(text) == ()


def test_sequences_with_prologues_in_between() -> None:
    operations = data_of(
        "PREFIX a: <urn:a:> INSERT DATA { a:s a:p 1 } ; \n"
        "PREFIX a: <urn:b:> BASE <http://x/> DELETE DATA { a:s a:p <y> } ;"
        " BASE <http://z/> INSERT DATA { a:s a:p <y> } ;\n"
        "PREFIX b: <urn:c:> INSERT DATA { a:s b:p 'PREFIX; ;' } ; PREFIX c: <urn:d:>"
    )
    assert [type(operation) for operation in operations] == [
        InsertData,
        DeleteData,
        InsertData,
        InsertData,
    ]
    assert [str(quad) for operation in operations for quad in operation.quads] == [
        f'<urn:a:s> <urn:a:p> "1"^^<{XSD}integer>',
        "<urn:b:s> <urn:b:p> <http://x/y>",
        "<urn:b:s> <urn:b:p> <http://z/y>",
        '<urn:b:s> <urn:c:p> "PREFIX; ;"',
    ]


def test_labels_mean_one_node_in_an_operation_and_none_outside() -> None:
    text = "INSERT DATA { _:x a _:x . [] a _:y } ; INSERT DATA { _:z a [] }"
    first, second = quads_of(text, b"1"), quads_of(text, b"2")
    assert first == quads_of(text, b"1")
    assert first[0].subject == first[0].object
    nodes = [
        {t for q in quads for t in (q.subject, q.object) if isinstance(t, BlankNode)}
        for quads in (first, second)
    ]
    assert [len(found) for found in nodes] == [5, 5]
    assert not nodes[0] & nodes[1]


def test_labels_are_kept_inside_the_key_by_oxigraph() -> None:
    (quad,) = quads_of("INSERT DATA { [] a 1 }")
    assert isinstance(quad.subject, BlankNode)
    assert len(quad.subject.value) == 32
    assert quad.subject.value[0] in "abcdef"


REFUSED = {
    "no object": ("INSERT DATA { <urn:s> <urn:p> }", "line 1, column 31"),
    "third line": ("INSERT DATA {\n <urn:s>\n é }", "line 3, column"),
    "after a prologue in the middle": (
        "INSERT DATA {} ;\nPREFIX a: <urn:a:>\nINSERT DATA { a:s }",
        "line 3, column 20",
    ),
    "prefix used before it is declared": (
        "INSERT DATA { a:s a 1 } ; PREFIX a: <urn:a:> INSERT DATA {}",
        "line 1, column 15",
    ),
    "base declared too late": (
        "INSERT DATA { <s> a 1 } ; BASE <urn:a:> INSERT DATA {}",
        "line 1, column 15",
    ),
    "a base that is none, later": (
        "INSERT DATA {} ; BASE <x> INSERT DATA {}",
        "line 1, column 23",
    ),
    "unknown prefix": ("INSERT DATA { a:s a 1 }", "line 1, column 20"),
    "relative without base": ("INSERT DATA { <s> a 1 }", "line 1, column"),
    "variable": ("INSERT DATA { ?s a 1 }", "line 1, column"),
    "blank node in DELETE DATA": ("DELETE DATA { _:s a 1 }", "line 1, column"),
    "anonymous in DELETE DATA": ("DELETE DATA { <urn:s> a [] }", "line 1, column"),
    "collection in DELETE DATA": ("DELETE DATA { <urn:s> a (1) }", "line 1, column"),
    "label in two operations": (
        "INSERT DATA { _:s a 1 } ;\nINSERT DATA { _:s a 1 }",
        "line 2, column 15",
    ),
    "label in two, with a prologue": (
        "INSERT DATA { _:s a 1 } ; PREFIX a: <urn:a:> INSERT DATA { _:s a 1 }",
        "line 1, column",
    ),
    "blank graph": ("INSERT DATA { GRAPH _:g { <urn:s> a 1 } }", "line 1, column 21"),
    "literal subject": ("INSERT DATA { 1 a 1 }", "line 1, column"),
    "triple term subject": (
        "INSERT DATA { <<( <urn:a> a 1 )>> a 1 }",
        "line 1, column",
    ),
    "no dot between triples": (
        "INSERT DATA { <urn:s> a 1 <urn:s> a 2 }",
        "line 1, column 27",
    ),
    "surrogate": (r'INSERT DATA { <urn:s> a "\uD83D" }', "line 1, column"),
    "lone surrogate": ("INSERT DATA { <urn:s> a '\ud83d' }", "line 1, column"),
    "no such escape": (r'INSERT DATA { <urn:s> a "\x" }', "line 1, column"),
    "line feed in a short string": (
        'INSERT DATA { <urn:s> a "a\nb" }',
        "line 1, column",
    ),
    "open string": ('INSERT DATA { <urn:s> a """a" }', "line 1, column"),
    "space in an iri": ("INSERT DATA { <urn:s b> a 1 }", "line 1, column"),
    "a query": ("SELECT * { ?s ?p ?o }", "line 1, column"),
    "wrong in an unsupported form": (
        "DELETE { ?s ?p ?o WHERE { ?s ?p ?o }",
        "line 1, column",
    ),
    "two semicolons": ("INSERT DATA {} ; ; INSERT DATA {}", "line 1, column"),
    "no semicolon": ("INSERT DATA { } INSERT DATA {}", "line 1, column"),
}


@pytest.mark.parametrize(("text", "where"), REFUSED.values(), ids=REFUSED)
def test_wrong_syntax_is_refused_with_line_and_column(text: str, where: str) -> None:
    with pytest.raises(SyntaxRefused, match=where):
        parse(text)


UNSUPPORTED = {
    "INSERT { ?s a 1 } WHERE { SERVICE ?x { ?s ?p ?o } }": "SERVICE with a variable",
}


@pytest.mark.parametrize(("text", "form"), UNSUPPORTED.items(), ids=UNSUPPORTED.values())
def test_other_forms_are_named_and_not_guessed(text: str, form: str) -> None:
    with pytest.raises(Unsupported, match=rf"{form} \(line 1, column \d+\) is not supported"):
        parse(text)


@pytest.mark.parametrize("text", ["INSERTDATA{}", "INSERT DATA { <urn:s> a + 1 }"])
def test_what_only_pyoxigraph_takes_is_not_guessed(text: str) -> None:
    with pytest.raises(Unsupported, match=r"not understood.*line 1, column"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f"INSERT DATA {{ <urn:s> a {'(' * 20_000}1{')' * 20_000} }}",
        f"INSERT DATA {{ <urn:s> a {'[ a ' * 20_000}1{']' * 20_000} }}",
        f"INSERT DATA {{ {'<< ' * 20_000} }}",
        f"INSERT DATA {{ {'<urn:s> a 1 {| a 1 ' * 5_000} }}",
        f"DELETE WHERE {{ {'{' * 20_000}",
        f"INSERT {{}} WHERE {{ FILTER({'1||' * 200_000}1) }}",
        f"INSERT {{}} WHERE {{ ?s {'<urn:p>/' * 200_000}<urn:p> ?o }}",
    ],
)
def test_texts_that_would_crash_the_parser_do_not_reach_it(text: str) -> None:
    with pytest.raises(Unsupported):
        parse(text)


@pytest.mark.parametrize("text", [
    "INSERT DATA { GRAPH <urn:quadlog:state:x> { <urn:s> a 1 } }",
    "PREFIX q: <urn:quadlog:> DELETE DATA { GRAPH q:state:x { <urn:s> a 1 } }",
    r"INSERT DATA { GRAPH <urn:quadlog:\u0073tate:> {} }",
])  # fmt: skip
def test_reserved_graphs_cannot_be_named(text: str) -> None:
    with pytest.raises(Forbidden):
        parse(text)


def test_reserved_names_are_ordinary_elsewhere() -> None:
    assert quads_of("INSERT DATA { <urn:quadlog:state:x> a 1 }")[0].subject == NamedNode(
        "urn:quadlog:state:x"
    )


def test_a_large_text_takes_a_bounded_multiple_of_its_size() -> None:
    text = "INSERT DATA {" + "\n".join(f'<urn:s{i}> <urn:p> "{"x" * 60}" .' for i in range(10_000)) + "}"
    tracemalloc.start()
    try:
        assert len(quads_of(text)) == 10_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(text)
