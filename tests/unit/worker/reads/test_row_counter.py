"""Rows are counted in what pyoxigraph wrote, whatever stands in the literals and however it is cut."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, QuerySolutions, Store, Triple

from quadlog.quadstore.quadquery import SOLUTION_FORMATS
from quadlog.worker.reads.row_counter import FORMATS, RowCounter

NASTY = st.text(st.sampled_from('"\\{}[],\r\n<>\t a')) | st.sampled_from(
    ("},{", "[{", '\\"},{', "<result>", '"', '""', "\\", "\r\n", "\n\n")
)
P = NamedNode("urn:p")
OBJECTS = st.one_of(
    NASTY.map(Literal),
    NASTY.map(lambda text: Literal(text, language="en")),
    st.just(BlankNode("b")),
    NASTY.map(lambda text: Triple(NamedNode("urn:t"), P, Literal(text))),
)


def test_every_format_of_solutions_is_known() -> None:
    assert FORMATS.keys() == SOLUTION_FORMATS.keys()


@pytest.mark.parametrize("media_type", sorted(SOLUTION_FORMATS))
@given(objects=st.lists(OBJECTS, max_size=6), cuts=st.lists(st.integers(0, 600)), optional=st.booleans())
def test_as_many_as_there_are(
    media_type: str, objects: list[Literal], cuts: list[int], *, optional: bool
) -> None:
    store = Store()
    store.extend([Quad(NamedNode(f"urn:{n}"), P, found) for n, found in enumerate(objects)])
    pattern = "{ OPTIONAL { ?none ?none2 3 } } ?s <urn:p> ?o" if optional else "?s <urn:p> ?o"
    query = f"SELECT ?o {'?none' * optional} {{ {pattern} }}"
    result = store.query(query)
    assert isinstance(result, QuerySolutions)
    output = BytesIO()
    result.serialize(output, format=SOLUTION_FORMATS[media_type])
    text = output.getvalue()
    counter = RowCounter(media_type)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    counted = 0
    for start, end in pairwise(places):
        before, counted = counted, counter.feed(text[start:end])
        assert counted >= before
    assert counted == len(objects)


@pytest.mark.parametrize("media_type", sorted(SOLUTION_FORMATS))
def test_a_long_literal_takes_no_more_than_its_length(media_type: str) -> None:
    """What is kept between two pieces does not grow."""
    counter = RowCounter(media_type)
    counter.feed(b'"')
    for _ in range(1000):
        counter.feed(b"x" * 8192)
    assert len(counter._carry) + len(counter._open) < 20
