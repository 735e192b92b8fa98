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

from quadlog.core.operations import DeleteData, InsertData, Operation
from quadlog.core.update import parse_update
from quadlog.errors import Forbidden, SyntaxRefused, Unsupported

XSD = "http://www.w3.org/2001/XMLSchema#"


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


BODIES = {
    "nothing": "",
    "one triple": "<urn:s> <urn:p> <urn:o>",
    "dot at the end": "<urn:s> <urn:p> <urn:o> .",
    "no space": "<urn:s><urn:p>'o'.<urn:s><urn:p>+1,-1",
    "a": "<urn:s> a <urn:C>",
    "lists": "<urn:s> <urn:p> 1, 2 ;; <urn:q> 3 ; .",
    "quotings": """<urn:s> <urn:p> "a'b", 'a"b', '''a'b''c\nd''', \"\"\"a"b""c\nd\"\"\", "", '', \"\"\"\"\"\" """,
    "quote before the end": r'''<urn:s> <urn:p> """a\"""", "\\" , '\'' ''',
    "string escapes": r'<urn:s> <urn:p> "\t\b\n\r\f\"\'\\ é \U0001F600 \\u0041"',
    "iri escapes": r"<urn:\u0061\U000000E9> <urn:p> <urn:\u00e9>",
    "odd characters": '<urn:s> <urn:p> "\t\x00\x0b\x7f\u2028\ufffe\U0001f600"',
    "comments": "# <urn:x> \n <urn:s> # ' \n <urn:p> '#no' # }\r , <urn:o#yes> . # end\n",
    "languages": '<urn:s> <urn:p> "x"@en, "x"@EN-gb, "x" @de-CH-1996, "x"@ar--rtl',
    "datatypes": f'<urn:s> <urn:p> "x"^^<urn:d>, "y" ^^ ex:d, "z"^^<{XSD}string>, "1"^^xsd:int',
    "numbers": "<urn:s> <urn:p> 00, +5, -0, 1.0, .5, +.50, 1e5, 1.e5, .5E-5, -1.50, 99999999999999999999",
    "booleans": '<urn:s> <urn:p> true, false, "1"^^xsd:boolean, "TRUE"^^xsd:boolean',
    "times": '<urn:s> <urn:p> "2020-01-01T24:00:00"^^xsd:dateTime, "2020-01-01T00:00:00.0+00:00"^^xsd:dateTimeStamp,'
    ' "P1Y13M"^^xsd:yearMonthDuration, "PT3600S"^^xsd:dayTimeDuration, "12:00:00.0"^^xsd:time, "2020-13"^^xsd:gYearMonth',
    "wrong numbers": '<urn:s> <urn:p> "x"^^xsd:integer, " 1 "^^xsd:integer, "x"^^xsd:byte, "+INF"^^xsd:double, "1"^^xsd:float',
    "prefixed names": r":s ex:p ex: , ex:a:b, ex:a.b, ex:%41%c3, ex:\~\.\-\!\$\&\'\(\)\*\+\,\;\=\/\?\#\@, ex:0, :é, e.x:x",
    "blank labels": "_:a <urn:p> _:b . _:b <urn:p> _:a, _:0, _:a.b, _:a.",
    "anonymous": "[] <urn:p> [], [ ] . [ <urn:p> [ <urn:q> 1 ] ; <urn:r> 2 ] . [ <urn:p> 1 ] <urn:q> 2 .",
    "collections": "<urn:s> <urn:p> (), ( ), (1), (1 (2 [ <urn:q> 3 ]) ()) . (1 2) <urn:p> 3 . (1) .",
    "graphs": "<urn:s> <urn:p> 1 GRAPH <urn:g> { <urn:s> <urn:p> 1 . } . graph ex:g { } GRAPH<urn:h>{_:x a _:x} _:x a 1",
    "relative": "<s> <#p> <>, <?q>, <//h/x>, </../y>, <../../../z>, <http://o/a/../b>, <g;x=1/../y>",
    "triple terms": "<urn:s> <urn:p> <<( <urn:a> a <<( _:b <urn:p> 01 )>> )>>",
    "reified": "<< <urn:s> <urn:p> 1 >> <urn:q> 2 . << _:x a << _:y a 1 ~ _:z >> ~ <urn:r> >> . <urn:s> <urn:q> << <urn:s> a 1 >>",
    "annotations": "<urn:s> <urn:p> 1 ~ <urn:r> {| a 1 ; <urn:q> 2 |} ~ , 2 {| a 2 |} {| a 3 {| a 4 |} |} ~ [] ~_:b",
}
PROLOGUE = (
    "BASE <http://no/> BASE <http://base/a/b/c?d> PREFIX : <rel#> PREFIX ex: <urn:old:> "
    f"PREFIX ex: <http://ex/> prefix e.x: <urn:e:> PREFIX xsd: <{XSD}> VERSION '1.2'\n"
)


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
        "PREFIX a: <urn:b:> BASE <http://x/> DELETE DATA { a:s a:p <y> } ; BASE <http://z/> INSERT DATA { a:s a:p <y> } ;\n"
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
