"""The signature: independent of order, recountable from N-Quads by anyone."""

from __future__ import annotations

import hashlib
from typing import Any

import pyoxigraph as ox
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import (
    BaseDirection,
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    Triple,
)

from quadlog.core.effects import signature

S, P, G = (NamedNode(f"urn:{name}") for name in "spg")
LITERALS = st.one_of(
    st.text().map(Literal),
    st.text().map(lambda v: Literal(v, language="en")),
    st.text().map(lambda v: Literal(v, language="ar", direction=BaseDirection.RTL)),
    st.text().map(lambda v: Literal(v, datatype=NamedNode("urn:d"))),
)
SUBJECTS = st.sampled_from([S, BlankNode("b"), NamedNode("urn:é#(x)")])


def _triples(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner | st.builds(Triple, SUBJECTS, st.just(P), inner)


OBJECTS = st.recursive(LITERALS | SUBJECTS, _triples)
QUADS = st.builds(
    Quad,
    SUBJECTS,
    st.just(P),
    OBJECTS,
    st.sampled_from([DefaultGraph(), G, BlankNode("g")]),
)


@given(QUADS)
def test_a_line_is_what_the_serializer_writes(quad: Quad) -> None:
    written = ox.serialize([quad], format=ox.RdfFormat.N_QUADS)
    assert written == f"{signature.quad_line(quad)}\n".encode()


def test_every_control_character_is_written_as_the_serializer_does() -> None:
    for code in (*range(0x300), 0x2028, 0xFEFF, 0xFFFE, 0x1F600):
        quad = Quad(S, P, Literal(chr(code)))
        written = ox.serialize([quad], format=ox.RdfFormat.N_QUADS)
        assert written == f"{signature.quad_line(quad)}\n".encode(), hex(code)


@given(st.lists(QUADS, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_removing_undoes_adding(quads: list[Quad], random: object) -> None:
    lines = [signature.quad_line(quad) for quad in quads]
    total = signature.add(signature.EMPTY, lines)
    random.shuffle(lines)  # type: ignore[attr-defined]
    one_by_one = signature.EMPTY
    for line in lines:
        one_by_one = signature.add(one_by_one, [line])
    assert one_by_one == total
    assert signature.remove(total, lines) == signature.EMPTY


def test_anyone_can_recount_it_from_text() -> None:
    text = '<urn:s> <urn:p> "a" .\n# empty graph <urn:g>\n'
    total = sum(
        int.from_bytes(hashlib.blake2b(line.encode(), digest_size=32).digest(), "big")
        for line in text.splitlines()
    )
    lines = [
        signature.quad_line(Quad(S, P, Literal("a"))),
        signature.empty_graph_line(G),
    ]
    assert signature.render(signature.add(signature.EMPTY, lines)) == f"{total % 2**256:064x}"


def test_an_empty_graph_is_a_comment_to_n_quads() -> None:
    line = signature.empty_graph_line(BlankNode("g"))
    assert list(ox.parse(line, format=ox.RdfFormat.N_QUADS)) == []


def test_lines_that_are_counted_give_the_signature() -> None:
    lines = ["<urn:s> <urn:p> 1 .", "<urn:s> <urn:p> 2 .", "# empty graph <urn:g>"]
    count = signature.LineCount()
    for line in lines:
        count.add([line.encode()])
    assert (count.signature, count.quads) == (signature.add(0, lines), 2)
