"""Reading RDF Patch: what it says, what is refused and at which line."""

from __future__ import annotations

from collections import Counter

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store, Triple

from quadlog.core.effects.patch import BYTES, LINES, MAX_PATTERNS, exact, parse_patch, pattern_line
from quadlog.core.sparql.operations import DataOperation, DeleteData, DeletePattern, InsertData
from quadlog.core.sparql.update import parse_update
from quadlog.errors import Forbidden, SyntaxRefused

S, P, G = NamedNode("urn:s"), NamedNode("urn:p"), NamedNode("urn:g")
XSD = "http://www.w3.org/2001/XMLSchema#"


def read(text: str, tx_id: bytes = b"tx") -> list[DataOperation]:
    return list(parse_patch(text.encode(), tx_id=tx_id))


def changes(text: str) -> list[tuple[str, str]]:
    """A sign and a quad for each line."""
    return [
        ("+" if isinstance(operation, InsertData) else "-", str(quad))
        for operation in read(text)
        if not isinstance(operation, DeletePattern)
        for quad in operation.quads
    ]


def test_what_apache_jena_writes_is_understood() -> None:
    text = """
        H id <uuid:0686c69d-8f89-4496-acb5-744f0157a8db> .
        H prev <uuid:3ee0eca0-6d5f-4b4d-85db-f69ab1167eb1> .
        # a comment
        TX .
        PA "rdf" "http://www.w3.org/1999/02/22-rdf-syntax-ns#" .
        PD owl .
        A <urn:s> <urn:p> "x # . <_:no>"@en .   # another one
        D <urn:s> <urn:p> <urn:o> <urn:g> .
        A <_:b1> <urn:p> <_:b2> <urn:g>.
        TC .
        TX .
        D <_:b1> <urn:p> <<( <_:b2> <urn:p> 'no' )>> .
        TC .
    """.replace("'no'", '"<_:no>"')
    assert (
        changes(text.replace("\n", "\r\n"))
        == changes(text)
        == [
            ("+", '<urn:s> <urn:p> "x # . <_:no>"@en'),
            ("-", "<urn:s> <urn:p> <urn:o> <urn:g>"),
            ("+", "_:b1 <urn:p> _:b2 <urn:g>"),
            ("-", '_:b1 <urn:p> <<( _:b2 <urn:p> "<_:no>" )>>'),
        ]
    )


def test_nothing_is_a_patch() -> None:
    assert read("") == read("TX .\nTC .") == read("# nothing\n\n") == []


def test_new_blank_nodes_are_those_of_insert_data() -> None:
    [added] = read("A _:x <urn:p> _:y .\nA _:y <urn:p> _:x .")
    [inserted] = parse_update("INSERT DATA { _:x <urn:p> _:y . _:y <urn:p> _:x }", tx_id=b"tx")
    assert added == inserted
    assert read("A _:x <urn:p> _:y .", b"other") != read("A _:x <urn:p> _:y .")


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("* * * *", (None, None, None, None)),
        ("* * * DEFAULT", (None, None, None, DefaultGraph())),
        ("<urn:s> <urn:p> <_:b> <urn:g>", (S, P, BlankNode("b"), G)),
        ("<_:b> * * *", (BlankNode("b"), None, None, None)),
        ('* * "* * . # \\" x"@en *', (None, None, Literal('* * . # " x', language="en"), None)),
        (f'* * "007"^^<{XSD}int> *', (None, None, Literal("7", datatype=NamedNode(f"{XSD}integer")), None)),
        ("*\t*   <<( <urn:s> <urn:p> <_:x> )>> *", (None, None, Triple(S, P, BlankNode("x")), None)),
    ],
)
def test_patterns(line: str, pattern: tuple[object, ...]) -> None:
    [found] = read(f"DP {line} . # ours")
    assert isinstance(found, DeletePattern)
    assert (found.subject, found.predicate, found.object, found.graph) == pattern
    graph = "*" if found.graph is None else "DEFAULT" if found.graph == DefaultGraph() else str(found.graph)
    assert read(pattern_line(found.subject, found.predicate, found.object, graph)) == [found]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("A <urn:s> <urn:p> <urn:o> .\nA <urn:s> <urn:p> .", 2, "triple"),
        ("A <urn:s> <urn:p> <urn:o>", 1, "dot|triple"),
        ("\nA <urn:s> <urn:p> <urn:o> . <urn:s> <urn:p> <urn:o> .", 2, "single triple"),
        ("A <urn:s> <urn:p> <urn:o> .\r<urn:s> <urn:p> <urn:o> .", 1, "one line"),
        ("A # nothing", 1, "one line"),
        ("A", 1, "one line"),
        ("A <s> <urn:p> <urn:o> .", 1, "No scheme"),
        ("A <urn:s> rdf:type <urn:o> .", 1, "."),
        ('A <urn:s> <urn:p> "a\nb" .', 2, "none of"),
        ("INSERT DATA { <urn:s> <urn:p> 1 }", 1, "'INSERT' is none of"),
        ("a <urn:s> <urn:p> <urn:o> .", 1, "is none of"),
        ("<urn:s> <urn:p> <urn:o> .", 1, "is none of"),
        ("D _:x <urn:p> <urn:o> .", 1, "<_:x>"),
        ("DP _:x * * * .", 1, "<_:x>"),
        ("A <urn:s> <urn:p> <_:a . #> .", 1, "no label"),
        ("A <urn:s> <urn:p> <_:> .", 1, "no label"),
        ("A <urn:s> <urn:p> <urn:o> _:g .", 1, "named by IRIs"),
        ("D <urn:s> <urn:p> <urn:o> <_:g> .", 1, "named by IRIs"),
        ("DP * * * <_:g> .", 1, "named by IRIs"),
        ("DP * * * .", 1, "DP has"),
        ("DP * * * * * .", 1, "DP has"),
        ("DP * * ANY * .", 1, "DP has"),
        ("DP * * * default .", 1, "DP has"),
        ('DP "x" * * * .', 1, "DP has"),
        ("DP <s> * * * .", 1, "No scheme"),
        ("DP * * * * . A <urn:s> <urn:p> <urn:o> .", 1, "DP has"),
        ("TX .\nTA .", 2, "leave the block out"),
        ("TX .\nTX .", 2, "in a block"),
        ("TC .", 1, "without TX"),
        ("TX .\nA <urn:s> <urn:p> <urn:o> .\n", 2, "TC . is missing"),
        ("TX", 1, "no . at its end"),
        ("TX .\nH id <urn:x> .\nTC .", 2, "before all else"),
        ("A <urn:s> <urn:p> " + "<<( <urn:s> <urn:p> " * 101 + "<urn:o>" + " )>>" * 101 + " .", 1, "nested"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SyntaxRefused, match=rf"line {line}: .*({words})"):
        read(text)


def test_what_is_not_utf_8_is_refused() -> None:
    for line in (b'A <urn:s> <urn:p> "\xff" .', b'A _:x <urn:p> "\xff" .'):
        with pytest.raises(SyntaxRefused, match=r"line 2: .*(UTF-8|utf-8)"):
            list(parse_patch(b"A <urn:s> <urn:p> <urn:o> .\n" + line, tx_id=b""))


def test_the_line_is_that_of_the_patch_in_long_ones_too() -> None:
    lines = [f"{code} <urn:s> <urn:p> <urn:{n}> ." for n in range(LINES) for code in "AD"]
    for at in (0, LINES - 1, LINES, 2 * LINES - 1):
        with pytest.raises(SyntaxRefused, match=f"line {at + 1}: "):
            read("\n".join([*lines[:at], "A <urn:s> <urn:p> no .", *lines[at:]]))


@pytest.mark.parametrize(
    "graph", ["urn:quadlog:state:x", "urn:quadlog:\\u0073tate:x", "\\u0075rn:quadlog:state:x"]
)
def test_reserved_graphs_are_forbidden(graph: str) -> None:
    for line in (
        f"A <urn:s> <urn:p> <urn:o> <{graph}> .",
        f"D <urn:s> <urn:p> 'x' <{graph}> .",
        f"DP * * * <{graph}> .",
    ):
        with pytest.raises(Forbidden):
            read(line.replace("'", '"'))
    assert read(f"A <{graph}> <urn:p> <urn:o> .")


def test_patterns_are_bounded() -> None:
    assert len(read("DP * * * * .\n" * MAX_PATTERNS)) == MAX_PATTERNS
    with pytest.raises(SyntaxRefused, match=f"line {MAX_PATTERNS + 1}"):
        read("DP * * * * .\n" * (MAX_PATTERNS + 1))


def test_many_angles_in_a_string_are_no_nesting() -> None:
    [(_, line)] = changes('A _:x <urn:p> "' + "<<" * 500 + '" .')
    assert "<<" * 500 in line


def typed(value: str, name: str) -> Literal:
    return Literal(value, datatype=NamedNode(XSD + name))


LITERALS = st.sampled_from(
    [
        typed("01", "int"),
        typed("1.50", "decimal"),
        typed("1", "boolean"),
        typed("2020-01-01T00:00:00.10Z", "dateTime"),
        typed("-0", "integer"),
        typed("12345678901234567890", "integer"),
        Literal("x", language="EN"),
        Literal("x", datatype=NamedNode("urn:d")),
        Literal('a\n"\\\u2028🐍'),
        Literal("a", language="ar", direction=ox.BaseDirection.RTL),
    ]
)
NODES = st.sampled_from([S, BlankNode("b"), BlankNode("c1")])
TERMS = NODES | LITERALS
QUADS = st.builds(
    Quad,
    NODES,
    st.just(P),
    TERMS | st.builds(Triple, NODES, st.just(P), TERMS),
    st.sampled_from([DefaultGraph(), G]),
)


@given(st.lists(QUADS, max_size=8))
def test_terms_are_as_a_store_has_them(quads: list[Quad]) -> None:
    lines = "".join(f"A {exact(str(quad))} .\n" for quad in quads)
    store = Store()
    store.extend(quads)
    found = [
        quad for operation in read(lines) if isinstance(operation, InsertData) for quad in operation.quads
    ]
    assert set(found) == set(store)
    assert len(found) == len(quads)


@given(st.lists(st.tuples(st.sampled_from("AD"), QUADS), max_size=20), st.integers(1, 5))
def test_lines_keep_their_order_however_they_are_gathered(lines: list[tuple[str, Quad]], most: int) -> None:
    text = "\n".join(f"{code} {exact(str(quad))} ." for code, quad in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quadlog.core.effects.patch.LINES", most)
        few = changes(text)
    assert few == changes(text)
    assert [sign for sign, _ in few] == ["+" if code == "A" else "-" for code, _ in lines]


def test_long_lines_are_parsed_one_by_one() -> None:
    long = "x" * (BYTES + 1)
    kinds = Counter(type(operation) for operation in read(f'A <urn:s> <urn:p> "{long}" .\n' * 3))
    assert kinds == {InsertData: 3}
    assert isinstance(read("D <urn:s> <urn:p> <urn:o> .")[0], DeleteData)


def test_what_is_written_is_read() -> None:
    data = b"<urn:s> <urn:p> 1 ; <urn:q> 'x' ."
    quads = [quad for quad in ox.parse(data, RdfFormat.TURTLE) if isinstance(quad, Quad)]
    assert [str(q) for q in quads] == [
        text for _, text in changes("".join(f"A {quad} .\n" for quad in quads))
    ]
