"""The forms beyond data: what is accepted and how it is read, what is 400 or 501, never guessed."""

from __future__ import annotations

import pytest
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Store, Triple, Variable

from quadlog.core.effects.template import Term, filled_in
from quadlog.core.model import body_hash
from quadlog.core.sparql.operations import (
    Clear,
    Create,
    Drop,
    Every,
    InsertData,
    Load,
    Modify,
    Operation,
    Send,
    Transfer,
    TripleTemplate,
)
from quadlog.core.sparql.text.volatile import settled
from quadlog.core.sparql.update import parse_update
from quadlog.core.sparql.using import Using, options_of
from quadlog.errors import Forbidden, SyntaxRefused, Unsupported, UserError

A, G, H = NamedNode("urn:a"), NamedNode("urn:g"), NamedNode("urn:h")
S, P, O = Variable("s"), Variable("p"), Variable("o")  # noqa: E741 - as in ?s ?p ?o


def one(text: str) -> Operation:
    (operation,) = parse_update(text, tx_id=b"tx")
    return operation


def modify(text: str) -> Modify:
    operation = one(text)
    assert isinstance(operation, Modify)
    return operation


ON_GRAPHS = {
    "CLEAR ALL": Clear(target=Every.ALL, silent=False),
    "clear silent named": Clear(target=Every.NAMED, silent=True),
    "CLEAR DEFAULT": Clear(target=DefaultGraph(), silent=False),
    "PREFIX x: <urn:> CLEAR GRAPH x:g": Clear(target=G, silent=False),
    "BASE <urn:x> DROP SILENT GRAPH <urn:g>": Drop(target=G, silent=True),
    "DROP ALL ;": Drop(target=Every.ALL, silent=False),
    "CREATE GRAPH <urn:g>": Create(graph=G, silent=False),
    "LOAD <urn:a>": Load(number=0, source=A, graph=DefaultGraph(), silent=False),
    "BASE <urn:x> PREFIX x: <urn:> LOAD # from\nsilent x:a into GRAPH <urn:g>;": Load(
        number=0, source=A, graph=G, silent=True
    ),
    "CREATE SILENT GRAPH <urn:g> # all": Create(graph=G, silent=True),
    "ADD <urn:g> TO <urn:h>": Send(transfer=Transfer.ADD, source=G, target=H, silent=False),
    "PREFIX x: <urn:> copy silent graph x:g to default": Send(
        transfer=Transfer.COPY, source=G, target=DefaultGraph(), silent=True
    ),
    "MOVE DEFAULT # from\n TO # to\n GRAPH <urn:g>": Send(
        transfer=Transfer.MOVE, source=DefaultGraph(), target=G, silent=False
    ),
}


@pytest.mark.parametrize(("text", "wanted"), ON_GRAPHS.items())
def test_graphs(text: str, wanted: Operation) -> None:
    assert one(text) == wanted


WHERES = {
    "INSERT { ?s ?p ?o } WHERE { ?s ?p ?o }": (None, None),
    "INSERT{?s ?p ?o}WHERE{?s ?p ?o}": (None, None),
    "WITH <urn:g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }": ((G,), None),
    "DELETE { ?s ?p ?o } INSERT {} USING <urn:g> USING <urn:h> WHERE { ?s ?p ?o }": ((G, H), ()),
    "INSERT { ?s ?p ?o } USING NAMED <urn:g> WHERE { ?s ?p ?o }": ((), (G,)),
    "WITH <urn:a> INSERT { ?s ?p ?o } USING <urn:g> USING NAMED <urn:h> WHERE { ?s ?p ?o }": ((G,), (H,)),
}


@pytest.mark.parametrize(("text", "wanted"), WHERES.items())
def test_what_a_where_looks_in(text: str, wanted: object) -> None:
    where = modify(text).where
    assert (where.default, where.named) == wanted
    assert where.variables == ("s", "p", "o")


def test_templates_belong_to_the_graph_of_with() -> None:
    found = modify(
        "WITH <urn:g> DELETE { ?s ?p 1 } INSERT { GRAPH ?o { ?s a ?o } ?o ?p 01 } WHERE { ?s ?p ?o }"
    )
    assert [quad.graph for quad in (*found.deletes, *found.inserts)] == [G, O, G]
    assert found.inserts[1].object == found.deletes[0].object


def test_delete_where_is_a_template_and_a_pattern() -> None:
    found = modify("PREFIX x: <urn:> DELETE WHERE { ?s ?p x:a . GRAPH ?g { ?s ?p ?o } } ; ")
    assert [tuple(quad) for quad in found.deletes] == [
        (S, P, A, DefaultGraph()),
        (S, P, O, Variable("g")),
    ]
    assert found.where.text.endswith("SELECT ?s ?p ?g ?o WHERE { ?s ?p x:a . GRAPH ?g { ?s ?p ?o } }") or (
        found.where.text.endswith("SELECT ?s ?p ?o ?g WHERE { ?s ?p x:a . GRAPH ?g { ?s ?p ?o } }")
    )


def test_a_where_means_what_its_prologue_says_at_its_place() -> None:
    text = (
        "PREFIX x: <urn:x:> INSERT { x:s x:p ?o } WHERE { x:s x:p ?o } ;\n"
        "BASE <http://b/> PREFIX x: <y#> INSERT { x:s x:p ?o } WHERE { <z> x:p ?o }"
    )
    first, second = parse_update(text, tx_id=b"tx")
    assert isinstance(first, Modify)
    assert isinstance(second, Modify)
    assert first.where.text == "PREFIX x: <urn:x:>\nSELECT ?o WHERE { x:s x:p ?o }"
    assert second.where.text.startswith("PREFIX x: <urn:x:>\nBASE  <http://b/>\nPREFIX x: <y#>\nSELECT ?o")
    assert second.inserts[0].subject == NamedNode("http://b/y#s")


TRICKY = [
    "{ ?s ?p '}' , \"}\" , '''}''' # }\n ; ?q ?o }",
    "{ { ?s ?p ?o } UNION { ?s ?p ?o FILTER(?o<5&&?o>1) } }",
    "{ ?s ?p <urn:x#}> }".replace("}>", ">"),
    "{ ?s ?p ?o ~ ?r {| ?a ?b |} }",
    "{ SELECT * { { ?s ?p ?o } } }",
    "{ ?s !(<urn:p>|^<urn:q>)+ ?o FILTER EXISTS { ?o ?p ?s } }",
]


@pytest.mark.parametrize("group", TRICKY)
def test_the_end_of_a_where_is_found(group: str) -> None:
    text = f"INSERT {{ ?s ?p ?o }} WHERE {group} ; INSERT DATA {{ <urn:a> a 1 }}"
    first, _ = parse_update(text, tx_id=b"tx")
    assert isinstance(first, Modify)
    assert first.where.text == f"SELECT ?s ?p ?o WHERE {group}"


REFUSED = {
    "INSERT { ?s ?p ?o }\nWHERE { ?s ?p }": "line 2, column",
    "INSERT { ?s ?p ?o } { ?s ?p ?o }": "line 1, column",
    "DELETE { _:b ?p ?o } WHERE { ?s ?p ?o }": "line 1, column",
    "DELETE WHERE { _:b ?p ?o }": "line 1, column",
    "DELETE WHERE { ?s ?p ?o FILTER(?o) }": "line 1, column",
    "INSERT { ?s ?p ?o } WHERE { ?s ?p ?o": "line 1, column",
    "INSERT { x:s ?p ?o } WHERE { ?s ?p ?o }": "line 1, column",
    "CLEAR <urn:g>": "line 1, column",
    "CREATE GRAPH ?g": "line 1, column",
    "DROP GRAPH DEFAULT": "line 1, column",
    "CREATE ALL": "line 1, column",
    "LOAD <urn:a> INTO <urn:g>": "line 1, column",
    "LOAD <urn:a> INTO GRAPH DEFAULT": "line 1, column",
    "LOAD GRAPH <urn:a>": "line 1, column",
    "ADD GRAPH DEFAULT TO <urn:g>": "line 1, column",
    "COPY ALL TO <urn:g>": "line 1, column",
    "MOVE <urn:g> <urn:h>": "line 1, column",
    "MOVE <urn:g> TO SILENT <urn:h>": "line 1, column",
    "INSERT {} WHERE {} USING <urn:g>": "line 1, column",
    "WITH <urn:g> DELETE WHERE { ?s ?p ?o }": "line 1, column",
    "WITH <urn:g> INSERT DATA {}": "line 1, column",
}


@pytest.mark.parametrize(("text", "where"), REFUSED.items(), ids=REFUSED)
def test_wrong_syntax_is_refused_with_line_and_column(text: str, where: str) -> None:
    with pytest.raises(SyntaxRefused, match=where):
        parse_update(text, tx_id=b"tx")


@pytest.mark.parametrize("text", [
    "CLEAR GRAPH <urn:quadlog:state:x>", "DROP SILENT GRAPH <urn:quadlog:state:x>",
    "LOAD <urn:a> INTO GRAPH <urn:quadlog:state:x>", "ADD <urn:quadlog:state:x> TO DEFAULT",
    "MOVE DEFAULT TO <urn:quadlog:state:x>", "COPY GRAPH <urn:a> TO GRAPH <urn:quadlog:state:x>",
    "CREATE GRAPH <urn:quadlog:state:x>", "WITH <urn:quadlog:state:x> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "INSERT {} USING <urn:quadlog:state:x> WHERE {}", "INSERT {} USING NAMED <urn:quadlog:state:x> WHERE {}",
    "INSERT { GRAPH <urn:quadlog:state:x> { ?s ?p ?o } } WHERE { ?s ?p ?o }",
    "DELETE WHERE { GRAPH <urn:quadlog:state:x> { ?s ?p ?o } }",
])  # fmt: skip
def test_reserved_graphs_cannot_be_named(text: str) -> None:
    with pytest.raises(Forbidden):
        parse_update(text, tx_id=b"tx")


@pytest.mark.parametrize("group", ["FILTER(" + "(" * 200, "FILTER(" + "1||" * 3000 + "1)"])
def test_a_where_that_would_crash_the_parser_does_not_reach_it(group: str) -> None:
    with pytest.raises(Unsupported):
        parse_update(f"INSERT {{}} WHERE {{ {group} }}", tx_id=b"tx")


@pytest.mark.parametrize("group", [
    "FILTER(1" + "+1" * 2_000 + ")",
    "VALUES ?x { 1 }" * 60,
    "OPTIONAL { ?s ?p ?o }" * 60,
    "{ SELECT " + "".join(f"(1 AS ?x{n})" for n in range(600)) + " {} }",
    "{ SELECT ?y {} GROUP BY ?y HAVING " + "(1)" * 600 + " }",
    "{ SELECT * {} ORDER BY " + "?a " * 600 + " }",
    "?s ?p (" + "1 " * 120 + ")",
    "?s ?p ?o ." * 120,
    "?s ?p ?o" + ", ?o" * 120,
    "{ ?s ?p ?o }" * 120,
    "?s ?p ?o FILTER(1) " * 120,
    "?s <urn:p>" + "/<urn:p>" * 120 + " ?o",
])  # fmt: skip
def test_a_where_that_would_hang_or_crash_its_evaluation_is_refused(group: str) -> None:
    with pytest.raises(Unsupported, match="joins too much"):
        parse_update(f"INSERT {{}} WHERE {{ {group} }}", tx_id=b"tx")


def test_data_and_rows_are_as_many_as_they_like() -> None:
    data = " . ".join(f"<urn:s> <urn:p> -{n} , ({n} +1)" for n in range(1, 1_000))
    rows = "".join(f"(<urn:a#{n}> <urn:b#it's> -1)" for n in range(2_000))
    terms = ", ".join(f"<urn:a#{n}>" for n in range(2_000))
    inserted = one(f"INSERT DATA {{ {data} }}")
    assert isinstance(inserted, InsertData)
    assert len(inserted.quads) > 1_900
    text = f"VALUES (?s ?p ?o) {{ {rows} }} FILTER(?s IN ({terms}))"
    assert text in modify(f"INSERT {{ ?s ?p ?o }} WHERE {{ {text} }}").where.text


@pytest.mark.parametrize("where", [
    "BIND(IF('!'<'>', 'a NOW() b', 'c') AS ?o)",
    "FILTER(?o<NOW()&&?s>1)",
    "FILTER((?o<3)&&(?o>1))",
    "FILTER STR(?o<3&&?o>1)",
    "FILTER(STR(?o)<'z>'&&STR(?o)!='}')",
    "FILTER(EXISTS { ?s ?p ?o }<'>' && '' = '')",
    "FILTER(true<'>' && '' = '')",
    "FILTERSTR(?o<'}>')",
    "{ SELECT (?o<'}>' AS ?s) { } GROUP BY ?o HAVING(?o<'}>') ORDER BY (?o<'}>') DESC(?o<'}>') }",
])  # fmt: skip
def test_in_an_expression_less_than_is_an_operator(where: str) -> None:
    found = modify(f"PREFIX x: <urn:> INSERT {{ <urn:a> <urn:p> ?o }} WHERE {{ {where} }}")
    assert found.where.text.endswith(f"SELECT ?o WHERE {{ {where} }}")


def test_a_service_behind_a_less_than_is_seen() -> None:
    where = modify(
        "INSERT { ?s ?p ?o } WHERE { FILTER('!'<'>') SERVICE <urn:x> { ?s ?p ?o } FILTER('' = '' || '') }"
    ).where
    assert [service.endpoint.value for service in where.services] == ["urn:x"]
    in_a_comment = modify("INSERT { ?s ?p ?o } WHERE { ?s ?p ?o FILTER(?o<#x>SERVICE <urn:x> {}\n3) }").where
    assert not in_a_comment.services


@pytest.mark.parametrize("where", [
    "?s a <http://x/y#C> . ?o <http://x/y#p> 'x'^^<http://x/y#d> FILTER(?s = <urn:x#y> || ?o < 'x')",
    "?s (<urn:x#y>/^<urn:x#z>|<urn:x#w>)* ?o FILTER(?s IN (<urn:x#y>, <urn:x#z>))",
    "?s ?p ?o FILTER EXISTS { ?s <urn:x#y> <urn:x#z> } BIND(<<( ?s ?p <urn:x#z> )>> AS ?t)",
])  # fmt: skip
def test_ordinary_iris_are_no_less_than(where: str) -> None:
    assert where in modify(f"INSERT {{ ?s ?p ?o }} WHERE {{ {where} }}").where.text


def test_a_service_is_cut_out_with_what_it_is_asked() -> None:
    where = modify("""BASE <http://b/> INSERT { ?s a ?o } WHERE { ?s ?p 1 SERVICE # {
      silent <x> { ?s a "}" { } } FILTER(?s != 'SERVICE <y> { }') { SERVICE <y>{} } }""").where
    first, second = where.services
    assert (first.endpoint.value, first.silent) == ("http://b/x", True)
    assert first.query == 'BASE  <http://b/>\nSELECT * WHERE { ?s a "}" { } }'
    assert (second.endpoint.value, second.silent) == ("http://b/y", False)
    whole = where.answered(["{1}", "{2}"]).text
    assert whole.endswith("WHERE { ?s ?p 1 {1} FILTER(?s != 'SERVICE <y> { }') { {2} } }")


def test_words_need_no_blank_between_them() -> None:
    with pytest.raises(Unsupported):
        modify("INSERT {} WHERE { ?s ?p trueSERVICE <urn:x> { ?s ?p ?o } }")


@pytest.mark.parametrize("where", [
    "GRAPH <urn:quadlog:state:x> { ?s ?p ?o }", "GRAPH q:state:x { ?s ?p ?o }",
    r"GRAPH <urn:quadlog:\u0073tate:x> { ?s ?p ?o }", "VALUES ?g { q:state:x } GRAPH ?g { ?s ?p ?o }",
])  # fmt: skip
def test_a_where_names_no_reserved_graph(where: str) -> None:
    with pytest.raises(Forbidden):
        modify(f"PREFIX q: <urn:quadlog:> INSERT {{ ?s ?p ?o }} WHERE {{ {where} }}")


@pytest.mark.parametrize("text", [
    "SELECT (1 AS ?x) {} GROUP BY NOW()", "SELECT * {} ORDER BY NOW()", "SELECT * { FILTER NOW() }",
    "SELECT (1 AS ?x) {} HAVING NOW()", "SELECT * { FILTER(YEAR(NOW()) IN (NOW(), 1)) }",
])  # fmt: skip
def test_now_may_stand_wherever_a_call_may(text: str) -> None:
    changed, _ = settled(text, seed=b"", created=0)
    assert "NOW" not in changed
    Store().query(changed)


def test_loads_are_not_more_than_can_be_fetched() -> None:
    assert len(parse_update("LOAD <urn:a> ; " * 100, tx_id=b"tx")) == 100
    with pytest.raises(Unsupported, match="100 LOADs"):
        parse_update("CLEAR ALL ; " + "LOAD SILENT <urn:a> ; " * 101, tx_id=b"tx")


# --- the dataset of a request ---------------------------------------------------------------------------

DATASET = Using(default=(G,), named=(H, A))


@pytest.mark.parametrize("text", [
    "INSERT { ?s ?p ?o } WHERE { ?s ?p ?o }", "DELETE {} INSERT {} WHERE {}", "DELETE WHERE { ?s ?p ?o }",
])  # fmt: skip
def test_a_request_gives_every_where_its_dataset(text: str) -> None:
    operations = parse_update(f"CLEAR ALL ; {text} ; {text}", tx_id=b"tx", using=DATASET)
    for operation in operations[1:]:
        assert isinstance(operation, Modify)
        assert (operation.where.default, operation.where.named) == ((G,), (H, A))
        assert {quad.graph for quad in operation.deletes + operation.inserts} <= {DefaultGraph()}


@pytest.mark.parametrize("text", [
    "WITH <urn:g> DELETE {} WHERE {}", "INSERT {} USING <urn:g> WHERE {}",
    "DELETE WHERE {} ; INSERT {} USING NAMED <urn:g> WHERE {}",
])  # fmt: skip
def test_a_dataset_is_given_once(text: str) -> None:
    with pytest.raises(UserError, match=r"2\.2\.3") as error:
        parse_update(text, tx_id=b"tx", using=DATASET)
    assert error.value.status == 400


def test_a_dataset_travels_as_options() -> None:
    options = options_of(["urn:h", "urn:g", "urn:h"], ["urn:a"])
    assert options == {"using-graph-uri": "urn:g urn:h", "using-named-graph-uri": "urn:a"}
    assert Using.of(options) == Using(default=(G, H), named=(A,))
    odd = NamedNode("urn:no\u00a0blank\u3000of\u2003ASCII")
    assert Using.of(options_of([odd.value, "urn:g"], [])) == Using(default=(G, odd), named=())
    assert Using.of(options_of([], ["urn:a"])) == Using(default=(), named=(A,))
    assert Using.of(options_of([], [])) is None
    assert (
        len({body_hash(b"", o) for o in ({}, options, options_of(["urn:g"], []), options_of([], ["urn:g"]))})
        == 4
    )


@pytest.mark.parametrize("iri", ["", "g", "<urn:g>", "urn:a b", "urn:a\n", "http://[", "urn:\x00"])
def test_a_graph_of_a_dataset_is_an_absolute_iri(iri: str) -> None:
    with pytest.raises(UserError, match="no absolute IRI"):
        options_of(["urn:g"], ["urn:g", iri])


# --- templates -----------------------------------------------------------------------------------------


def test_a_solution_that_makes_no_quad_is_passed_over() -> None:
    found = modify("DELETE { ?s ?p ?o } INSERT { ?s ?p <<( ?s ?p ?o )>> } WHERE { ?s ?p ?o }")
    good = (A, H, Literal("x"))
    rows: list[tuple[Term | None, ...]] = [
        good,
        (None, H, A),
        (Literal("x"), H, A),
        (A, Literal("x"), A),
        (A, BlankNode("b"), A),
        (A, H, None),
    ]
    deletes, inserts = filled_in(found, rows, b"tx")
    assert isinstance(found.inserts[0].object, TripleTemplate)
    assert deletes.quads == (Quad(*good),)
    assert inserts.quads == (Quad(A, H, Triple(*good)),)


def test_new_nodes_follow_from_transaction_operation_and_solution_in_any_order() -> None:
    found = modify("INSERT { _:x <urn:p> ?s , _:y , [] } WHERE { ?s ?p ?o }")
    rows = [(A,), (G,), (A,)]
    one_way, other_way = (filled_in(found, order, b"tx")[1].quads for order in (rows, rows[::-1]))
    assert set(one_way) == set(other_way)
    assert len({quad.subject for quad in one_way}) == 3
    assert len({quad.object for quad in one_way}) == 2 + 6
    assert not set(one_way) & set(filled_in(found, rows, b"another")[1].quads)


def test_without_variables_nodes_are_still_one_for_each_solution() -> None:
    rows = [(A,), (A,)]
    assert len(filled_in(modify("INSERT { [] a 1 } WHERE { ?s ?p ?o }"), rows, b"tx")[1].quads) == 2
    assert len(filled_in(modify("INSERT { <urn:a> a 1 } WHERE { ?s ?p ?o }"), [], b"tx")[1].quads) == 0


def test_graphs_that_solutions_name() -> None:
    found = modify("INSERT { GRAPH ?s { <urn:a> a 1 } } WHERE { ?s ?p ?o }")
    assert filled_in(found, [(Literal("x"),), (None,)], b"tx")[1].quads == ()
    with pytest.raises(UserError, match="blank node"):
        filled_in(found, [(BlankNode("b"),)], b"tx")
    removed = modify("DELETE { GRAPH ?s { <urn:a> a 1 } } WHERE { ?s ?p ?o }")
    for form in (found, removed):
        with pytest.raises(Forbidden):
            filled_in(form, [(NamedNode("urn:quadlog:state:x"),)], b"tx")


def test_chance_follows_from_the_seed() -> None:
    text = "SELECT * { BIND(UUID() AS ?u) BIND(rand ( ) AS ?r) BIND(STRUUID() AS ?t) BIND(BNODE() AS ?b) }"
    changed, functions = settled(text, seed=b"1", created=0)
    assert changed.count("<urn:quadlog:function:") == 4
    again, other = (settled(text, seed=seed, created=0)[1] for seed in (b"1", b"2"))
    said = [[str(function()) for function in which.values()] for which in (functions, again, other)]
    assert said[0] == said[1]
    assert not set(said[0]) & set(said[2])
    assert (
        settled("ASK { FILTERBOUND(?x) FILTERNOW() FILTER(!NOW()) }", seed=b"", created=0)[0].count("1970")
        == 2
    )
    assert settled("SELECT * { ?s ?p 'NOW()' }", seed=b"", created=0)[0] == "SELECT * { ?s ?p 'NOW()' }"
