"""The store on disk: atomic, exact, equal to pyoxigraph's own update, and its secret kept."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import (
    BlankNode,
    CanonicalizationAlgorithm,
    Dataset,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    Store,
    Triple,
)

from quadlog.core import signature
from quadlog.core.effect import Change, effect_of
from quadlog.core.lines import ChangeLines, lines_of, signature_after
from quadlog.core.operations import DataOperation, DeleteData, InsertData
from quadlog.core.overlay import Overlay
from quadlog.core.update import parse_update
from quadlog.errors import Forbidden, SetupError, StateError, SyntaxRefused, Unsupported
from quadlog.hiding import Dataset as Named
from quadlog.hiding import hide
from quadlog.quadstore import Applied, QuadStore

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.quadquery import Answer

S, P, G = (NamedNode(f"urn:{name}") for name in "spg")


def after(applied: Applied, change: Change) -> Applied:
    return replace(
        applied,
        index=applied.index + 1,
        signature=signature_after(applied.signature, change),
        quads=applied.quads + change.growth,
    )


def data_of(text: str, number: int) -> list[DataOperation]:
    operations = parse_update(text, tx_id=b"%d" % number)
    return [o for o in operations if isinstance(o, (InsertData, DeleteData))]


def run(store: QuadStore, *texts: str) -> None:
    """Evaluate and apply each text by itself."""
    for text in texts:
        change = effect_of(data_of(text, store.applied.index), store)
        store.apply([lines_of(change)], after(store.applied, change))


@pytest.fixture
def store(tmp_path: Path) -> QuadStore:
    return QuadStore.open(tmp_path / "w1")


def body(answer: Answer) -> bytes:
    output = BytesIO()
    answer.write_to(output)
    return output.getvalue()


def rows(store: QuadStore, text: str, dataset: Named | None = None) -> list[str]:
    return sorted(body(store.query(text, accept="text/csv", dataset=dataset)).decode().split("\r\n")[1:-1])


# --- the same state as pyoxigraph's own update ------------------------------------------------

GROUND_NODES = [
    "<urn:a>",
    "<urn:b>",
    "01",
    "'x'@EN",
    '"1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>',
]
GROUND = st.builds(
    "{} <urn:p> {} .".format,
    st.sampled_from(["<urn:a>", "<urn:b>"]),
    st.sampled_from(GROUND_NODES),
)
BLANK = st.sampled_from(
    [
        "_:x <urn:p> _:y .",
        "_:x <urn:p> <urn:a> .",
        "<urn:a> <urn:p> [ <urn:q> 1 ] .",
        "<urn:a> <urn:p> (1 _:x) .",
        "<urn:a> <urn:p> <<( _:x <urn:p> 1 )>> .",
        "<< <urn:a> <urn:p> 2 >> <urn:q> _:x .",
    ]
)


def blocks(triples: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(triples, max_size=3).map(" ".join)
    named = st.builds("GRAPH <urn:g{}> {{ {} }}".format, st.integers(1, 2), some)
    return st.lists(some | named, max_size=3).map(" ".join)


OPERATIONS = st.one_of(
    blocks(GROUND | BLANK).map("INSERT DATA {{ {} }}".format),
    blocks(GROUND).map("INSERT DATA {{ {} }}".format),
    blocks(GROUND).map("DELETE DATA {{ {} }}".format),
)


def unlabel(texts: list[str]) -> str:
    """A sequence in which no label is used in two operations."""
    return " ; ".join(
        text.replace("_:x", f"_:x{n}").replace("_:y", f"_:y{n}") for n, text in enumerate(texts)
    )


UPDATES = st.lists(st.lists(OPERATIONS, max_size=3).map(unlabel), min_size=1, max_size=6)


def state_of(quads: list[Quad], graphs: list[object]) -> tuple[list[str], list[str]]:
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return sorted(map(str, dataset)), sorted(map(str, graphs))


def visible(store: QuadStore) -> tuple[list[str], list[str]]:
    quads = list(ox.parse(b"".join(store.dump()), format=ox.RdfFormat.N_QUADS))
    return state_of(quads, [g for g in store._store.named_graphs() if g != store._reserved])


@given(updates=UPDATES, data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_state_is_that_of_pyoxigraphs_own_update(
    tmp_path_factory: pytest.TempPathFactory, updates: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("store")
    ours, theirs = QuadStore.open(path), Store()
    overlay = Overlay(ours)
    state, index = ours.applied, 0
    batch: list[tuple[int, Change]] = []
    for number, text in enumerate(updates, start=1):
        theirs.update(text)
        change = effect_of(data_of(text, number), overlay)
        state = after(state, change)
        overlay.push(number, change)
        batch.append((number, change))
        if number == len(updates) or data.draw(st.booleans()):
            ours.apply([lines_of(c) for _, c in batch], state)
            for index, _ in batch:
                overlay.drop(index)
            batch.clear()
            assert visible(ours) == state_of(list(theirs), list(theirs.named_graphs()))
            assert ours.recount() == (ours.applied.signature, ours.applied.quads)
    ours.close()
    again = QuadStore.open(path)
    assert again.applied == state
    assert again.recount() == (state.signature, state.quads)
    again.close()


NASTY = [
    Quad(BlankNode("a" * 32), P, BlankNode("x1"), BlankNode("g")),
    Quad(S, P, BlankNode("a" * 32), G),
    Quad(
        S,
        P,
        Triple(S, P, Triple(BlankNode("deep"), P, Literal('_:"\\\n'))),
        DefaultGraph(),
    ),
    Quad(S, P, Triple(S, P, Literal("_:no")), BlankNode("g")),
    Quad(S, P, Literal("_:no \\ \" ' \x00\x7f\u2028", language="en"), G),
    Quad(S, P, Literal("x", language="ar", direction=ox.BaseDirection.RTL)),
    Quad(S, NamedNode("urn:é"), Literal("x", datatype=NamedNode("urn:d'"))),
]


def test_every_kind_of_quad_keeps_its_exact_labels(store: QuadStore) -> None:
    come, go = (
        Change(inserted=tuple(NASTY)),
        Change(deleted=tuple(NASTY), emptied=(G, BlankNode("g"))),
    )
    store.apply([lines_of(come)], after(store.applied, come))
    assert all(store.contains(quad) for quad in NASTY)
    assert store.recount() == (store.applied.signature, len(NASTY))
    store.apply([lines_of(go)], after(store.applied, go))
    assert list(store.lines()) == ["# empty graph <urn:g>", "# empty graph _:g"]
    assert store.recount() == (store.applied.signature, 0)


@pytest.mark.parametrize(
    "line",
    [
        '<urn:s> <urn:p> "x" . } ; DROP ALL ; INSERT DATA { <urn:s> <urn:p> "y" .',
        "<urn:s> <urn:p> <urn:o> } } ; CLEAR ALL ; INSERT DATA { { <urn:g> .",
        "<urn:s> <urn:p> <urn:o> . <urn:s> <urn:p> <urn:more> .",
        '<urn:s> <urn:p> "x" . } ; DROP ALL #" .',
        "<urn:s> <urn:p> 1 .",
        "",
    ],
)
def test_a_line_that_is_not_one_quad_is_never_read_as_sparql(store: QuadStore, line: str) -> None:
    run(store, "INSERT DATA { <urn:s> <urn:p> 1 }")
    before = store.applied
    with pytest.raises((SyntaxError, ValueError)):
        store.apply([ChangeLines(inserted=(line,))], Applied(index=99))
    assert store.applied == before
    assert store.recount() == (before.signature, 1)


def test_graphs_that_come_and_go_within_a_batch_stay_empty(store: QuadStore) -> None:
    graphs = (G, BlankNode("g"))
    quads = tuple(Quad(S, P, S, graph) for graph in graphs)
    batch = [Change(inserted=quads), Change(deleted=quads, emptied=graphs)]
    store.apply(list(map(lines_of, batch)), Applied(index=2))
    assert sorted(store.lines()) == ["# empty graph <urn:g>", "# empty graph _:g"]
    store.apply([lines_of(Change(filled=(G,)))], Applied(index=3))
    assert list(store.lines()) == ["# empty graph _:g"]


# --- the applied state -------------------------------------------------------------------------


def test_a_new_store_has_applied_nothing(store: QuadStore) -> None:
    assert store.applied == Applied()
    assert store.recount() == (signature.EMPTY, 0)
    assert b"".join(store.dump()) == b""


def test_the_applied_state_survives_and_is_one_quad(tmp_path: Path) -> None:
    applied = Applied(
        index=7, chain=b"c" * 32, effects_chain=b"e" * 32, signature=2**255, quads=3,
        agreed_offset=11, effects_offset=12, term=b"t" * 32, attempt=2,
    )  # fmt: skip
    store = QuadStore.open(tmp_path)
    store.apply([], Applied(index=6))
    store.apply([], applied)
    store.apply([], applied)
    store.close()
    store = QuadStore.open(tmp_path)
    assert store.applied == applied
    assert len(store._store) == 1


class Spy:
    """Counts the commits of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.updates: list[str] = []

    def update(self, text: str, **options: Any) -> None:
        self.updates.append(text)
        self._store.update(text, **options)


def test_quads_and_applied_state_are_one_commit(store: QuadStore) -> None:
    spy = Spy(store._store)
    store._store = spy  # type: ignore[assignment]
    batch = [Change(inserted=tuple(NASTY)), Change(deleted=tuple(NASTY), emptied=(G,))]
    store.apply(list(map(lines_of, batch)), Applied(index=2))
    assert len(spy.updates) == 1


def test_a_failing_batch_changes_nothing(store: QuadStore) -> None:
    run(store, "INSERT DATA { <urn:s> <urn:p> 1 }")
    before = store.applied
    lines = ChangeLines(inserted=(f"{Quad(S, P, S)} .",), emptied=("<relative>",))
    with pytest.raises(SyntaxError):
        store.apply([lines], Applied(index=99))
    assert store.applied == before
    assert store.recount() == (before.signature, 1)


def test_a_store_without_its_small_file_is_not_guessed_at(tmp_path: Path) -> None:
    store = QuadStore.open(tmp_path)
    store.close()
    (tmp_path / "reserved-graph").unlink()
    with pytest.raises(StateError, match="reserved-graph"):
        QuadStore.open(tmp_path)


def test_a_second_opener_is_told_who_holds_the_store(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from quadlog.quadstore import QuadStore\nQuadStore.open(Path(sys.argv[1]))"
    store = QuadStore.open(tmp_path)
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"SetupError: StoreLocked: {tmp_path} is held by process" in other.stderr
    assert "stop it, or give this worker another directory" in other.stderr
    with pytest.raises(SetupError, match="StoreLocked"):
        QuadStore.open(tmp_path)
    store.close()


# --- queries -------------------------------------------------------------------------------------

DATA = """INSERT DATA { <urn:a> <urn:p> <urn:b> , <urn:g1> . <urn:b> <urn:p> 2 .
  GRAPH <urn:g1> { <urn:a> <urn:p> <urn:b> . <urn:b> <urn:p> <urn:c> }
  GRAPH <urn:g2> { <urn:a> <urn:q> 'x' } GRAPH <urn:e> { <urn:a> a 1 } } ;
  DELETE DATA { GRAPH <urn:e> { <urn:a> a 1 } }"""

QUERIES = [
    "SELECT * { ?s ?p ?o }",
    "SELECT * { GRAPH ?g { ?s ?p ?o } }",
    "SELECT * { graph?g{ ?s ?p ?o } }",
    "SELECT * { GRAPH # ?x {\n $g { ?s ?p ?o } }",
    "SELECT * { GRAPH ?g {} }",
    "SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?g) AS ?m) { GRAPH ?g { ?s ?p ?o } }",
    "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
    "SELECT * { ?s ?p ?o OPTIONAL { GRAPH ?g { ?s ?q ?x } } }",
    "SELECT * { ?x ?y ?g OPTIONAL { GRAPH ?g { ?s ?p ?o } } }",
    "SELECT * { GRAPH ?g { ?s ?p ?o OPTIONAL { ?o ?q ?x } } GRAPH ?h { ?s ?p ?o } }",
    "SELECT * { GRAPH ?g { ?s ?p ?o GRAPH ?h { ?a ?b ?c } } }",
    "SELECT * { GRAPH <urn:g1> { ?s ?p ?o GRAPH ?h { ?a ?b ?c } } }",
    "SELECT * { ?s ?p ?o FILTER EXISTS { GRAPH ?g { ?x <urn:quadlog:applied> ?y } } }",
    "SELECT * { ?s ?p ?o FILTER NOT EXISTS { GRAPH ?g { ?x <urn:quadlog:applied> ?y } } }",
    "SELECT * { ?s ?p ?o FILTER EXISTS { GRAPH ?g { ?s ?q ?o } } }",
    "SELECT * { ?s ?p ?o MINUS { GRAPH ?g { ?s ?p ?o } } }",
    "SELECT ?s (EXISTS { GRAPH ?g { ?s <urn:q> ?b } } AS ?e) { ?s ?p ?o }",
    "SELECT * { GRAPH ?g { ?s <urn:p>* ?o } }",
    "SELECT * { GRAPH ?g { ?s (<urn:p>|!<urn:q>)+ ?o } }",
    "SELECT * { GRAPH ?g { ?s !<urn:p> ?o } }",
    "SELECT * { GRAPH ?g { { ?s ?p ?o } UNION {} UNION { VALUES ?s { 1 } } } }",
    "SELECT * { GRAPH ?g { VALUES ?s { 1 2 } } }",
    "SELECT * { GRAPH ?g { BIND(1 AS ?x) } }",
    "SELECT * { GRAPH ?g { ?s ?p ?o BIND(?g AS ?h) FILTER(?g != <urn:g1>) } }",
    "SELECT * { GRAPH ?g { ?g ?p ?o } }",
    "SELECT * { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?s ?p ?o } } }",
    "SELECT * { GRAPH ?g { SELECT ?s { ?s ?p ?o } ORDER BY ?s ?p ?o LIMIT 2 } }",
    "SELECT * { { SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g } }",
    "SELECT * FROM <urn:g1> { GRAPH ?g { ?s ?p ?o } }",
    "SELECT * FROM NAMED <urn:g1> { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?s ?p ?o } } }",
    "SELECT * FROM <urn:g1> FROM NAMED <urn:g2> { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }",
    "SELECT * { VALUES ?g { <urn:g1> <urn:e> } GRAPH ?g { } }",
    "SELECT * { BIND('GRAPH ?g {' AS ?x) GRAPH ?g { ?s ?p '}' , ?o } }",
    "SELECT * { GRAPH ?g { ?s ?p ?o BIND(<urn:x> AS ?g) } }",
    "SELECT * { GRAPH ?g { VALUES ?g { <urn:x> } ?s ?p ?o } }",
    "SELECT * { FILTER('graph #' != '' && '!'<'>') GRAPH ?g { ?s ?p ?o } FILTER('' = '') OPTIONAL { GRAPH ?h { ?a ?b ?c } } }",
    "SELECT * { FILTER('!'<'>') FILTER('graph #' != '') GRAPH ?g { ?s ?p ?o } FILTER('' = '') GRAPH ?h { } }",
    # Text that a token scan could take for a string, with GRAPH inside.
    "SELECT * { ?a <urn:p> ?b FILTER(?a<?b#>'''\n||true) GRAPH ?g { ?s ?p ?o } #'''\n}",
    "ASK { GRAPH ?g { ?s <urn:quadlog:applied> ?o } }",
    "CONSTRUCT { ?s ?p ?g } { GRAPH ?g { ?s ?p ?o } }",
    "DESCRIBE ?g { GRAPH ?g { ?s ?p ?o } }",
]  # fmt: skip


@pytest.fixture(scope="module")
def queried(tmp_path_factory: pytest.TempPathFactory) -> QuadStore:
    store = QuadStore.open(tmp_path_factory.mktemp("queried"))
    run(store, DATA)
    return store


@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_those_of_a_store_without_the_reserved_graph(queried: QuadStore, text: str) -> None:
    plain = Store()
    plain.update(DATA)
    result = plain.query(text)
    if isinstance(result, ox.QueryTriples):
        wanted = result.serialize(format=ox.RdfFormat.N_TRIPLES)
    else:
        wanted = result.serialize(format=ox.QueryResultsFormat.CSV)
    assert wanted is not None
    answer = body(queried.query(text, accept="text/csv, application/n-triples"))
    assert b"quadlog" not in answer
    assert sorted(answer.splitlines()) == sorted(wanted.splitlines())


def test_ordinary_graph_patterns_get_a_filter_and_no_list() -> None:
    listed = [text for text in QUERIES if hide(text, G) is None]
    reasons = (
        "{ SELECT (COUNT(*) AS ?n) { ?s",
        "LIMIT",
        "'''",
        "BIND('GRAPH",
        "VALUES ?s {",
        "BIND(1 ",
        "BIND(?g ",
        "<urn:x>",
        "'!'<'>'",
    )
    assert all(any(reason in text for reason in reasons) for text in listed)
    assert len(listed) == 13


def test_hiding_costs_the_same_with_many_graphs(store: QuadStore) -> None:
    quads = tuple(Quad(S, P, Literal(n), NamedNode(f"urn:g{n}")) for n in range(10_000))
    store.apply([lines_of(Change(inserted=quads))], Applied(index=1))
    text = "SELECT * { GRAPH ?g { ?s ?p 77 } }"
    assert rows(store, text) == ["urn:g77,urn:p,urn:s"]
    best = min(_timed(store, text) for _ in range(20))
    assert best < 0.002  # 0.1 ms here; listing the graphs takes 8 ms


def _timed(store: QuadStore, text: str) -> float:
    start = time.perf_counter()
    body(store.query(text))
    return time.perf_counter() - start


def test_dataset_parameters(store: QuadStore) -> None:
    run(store, DATA)
    union = "SELECT ?g ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
    assert rows(store, union, Named(default=("urn:g2",))) == [",x"]
    assert rows(store, union, Named(named=("urn:g2",))) == ["urn:g2,x"]
    assert rows(store, union, Named(default=("urn:g1",), named=("urn:g2",))) == [
        ",urn:b",
        ",urn:c",
        "urn:g2,x",
    ]
    secret = store._reserved.value
    assert rows(store, union, Named(named=(secret,))) == []


def test_formats(store: QuadStore) -> None:
    run(store, "INSERT DATA { <urn:s> <urn:p> 'o' }")
    select, construct = "SELECT ?o { ?s ?p ?o }", "CONSTRUCT WHERE { ?s ?p ?o }"
    answer = store.query(select)
    assert answer.media_type == "application/sparql-results+json"
    assert json.loads(body(answer))["results"]["bindings"] == [{"o": {"type": "literal", "value": "o"}}]
    assert body(store.query("ASK { ?s ?p 'o' }", accept="application/json")) == b'{"head":{},"boolean":true}'
    assert b"<literal>o</literal>" in body(store.query(select, accept="application/sparql-results+xml"))
    assert body(store.query(select, accept="text/csv")) == b"o\r\no\r\n"
    assert body(store.query(select, accept="text/tab-separated-values")) == b'?o\n"o"\n'
    assert store.query(construct).media_type == "text/turtle"
    for accept in ("application/n-triples", "application/n-quads", "application/trig"):
        answer = store.query(construct, accept=f"text/html;q=0.1, {accept};q=0.5")
        assert (answer.media_type, body(answer).strip()) == (
            accept,
            b'<urn:s> <urn:p> "o" .',
        )
    assert b"rdf:RDF" in body(store.query(construct, accept="application/rdf+xml"))


def test_base(store: QuadStore) -> None:
    run(store, "INSERT DATA { <http://x/s> <urn:p> 'o' }")
    answer = store.query("SELECT ?o { <s> ?p ?o }", base_iri="http://x/", accept="text/csv")
    assert body(answer) == b"o\r\no\r\n"


@pytest.mark.parametrize("text", [
    "INSERT DATA { <urn:s> <urn:p> 1 }", "PREFIX a: <urn:a:> DELETE WHERE { ?s ?p ?o }", "clear all",
    "# SELECT\nDROP ALL", "WITH <urn:g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
])  # fmt: skip
def test_what_writes_is_forbidden(queried: QuadStore, text: str) -> None:
    with pytest.raises(Forbidden, match="update"):
        queried.query(text)


@pytest.mark.parametrize(("text", "where"), [
    ("", "line 1"), ("SELECT * {\n ?s ?p }", "line 2, column 9"),
    ("SELECT * { GRAPH ?g { ?s ?p ?o }\n ! }", "line 2, column 5"), ("SELECT * { <s> ?p ?o }", "line 1, column"),
])  # fmt: skip
def test_wrong_syntax_is_refused_with_line_and_column(queried: QuadStore, text: str, where: str) -> None:
    with pytest.raises(SyntaxRefused, match=where):
        queried.query(text)


@pytest.mark.parametrize("filter_", ["(" * 50_000, "1||" * 200_000, "!" * 100_000])
def test_queries_that_would_crash_the_process_are_refused(queried: QuadStore, filter_: str) -> None:
    with pytest.raises(Unsupported):
        queried.query(f"SELECT * {{ FILTER({filter_}1) }}")


@pytest.mark.parametrize("text", [
    "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
    "SELECT * { FILTER('!'<'>') SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } FILTER('' = '') }",
    "SELECT * FROM <urn:g> { FILTER('!'<'>') }",
    "SELECT * { FILTER('a'<'>' && " + "(" * 200 + "1" + ")" * 200 + " && ''='') }",
    "SELECT * { " + "?s ?p ?o ." * 120 + " }",
])  # fmt: skip
def test_what_is_not_surely_understood_is_not_run(queried: QuadStore, text: str) -> None:
    with pytest.raises(Unsupported):
        queried.query(text)


@pytest.mark.parametrize("text", [
    "SELECT * { GRAPH <urn:quadlog:state:x> { ?s ?p ?o } }", r"ASK { GRAPH <urn:quadlog:\u0073tate:x> { ?s ?p ?o } }",
    "PREFIX q: <urn:quadlog:sta> SELECT * { GRAPH q:te:x { ?s ?p ?o } }", "SELECT * FROM <urn:quadlog:state:x> { ?s ?p ?o }",
])  # fmt: skip
def test_reserved_graphs_cannot_be_named(queried: QuadStore, text: str) -> None:
    with pytest.raises(Forbidden):
        queried.query(text)


def test_a_rewritten_query_is_legal_as_it_came(queried: QuadStore) -> None:
    for text in (
        "SELECT * { GRAPH ?g { ?s ?p ?o FILTER('!'<#> }\n'~') } } }",
        "SELECT * { GRAPH ?g { ?s ?p ?o } } }",
    ):
        with pytest.raises(SyntaxRefused):
            queried.query(text)


@pytest.mark.parametrize("times", [1, 99])
def test_graphs_are_listed_as_the_query_sees_them(store: QuadStore, times: int) -> None:
    """While others come and go between the list and the query."""
    run(store, "INSERT DATA { GRAPH <urn:g0> { <urn:s> <urn:p> 1 } }")
    inner = store._store

    class Moving:
        moves = 0

        def named_graphs(self) -> list[Any]:
            graphs = list(inner.named_graphs())
            if self.moves < times and not store._commits.locked():
                inner.update(f"DROP GRAPH <urn:g{self.moves}>")
                self.moves += 1
                inner.update(f"INSERT DATA {{ GRAPH <urn:g{self.moves}> {{ <urn:s> <urn:p> 1 }} }}")
            return graphs

        def query(self, text: str, **options: Any) -> Any:
            return inner.query(text, **options)

    store._store = Moving()  # type: ignore[assignment]
    assert rows(store, "SELECT (COUNT(*) AS ?n) { GRAPH ?g { SELECT ?s { ?s ?p ?o } } }") == ["1"]


def test_a_dump_is_n_quads_whose_lines_sum_to_the_signature(store: QuadStore) -> None:
    run(store, DATA)
    text = b"".join(store.dump()).decode()
    assert signature.add(0, text.splitlines()) == store.applied.signature
    assert "# empty graph <urn:e>\n" in text
    assert len(list(ox.parse(text, format=ox.RdfFormat.N_QUADS))) == store.applied.quads
