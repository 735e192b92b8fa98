"""The report in RDF: counts, types, and text of others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, RdfFormat, Store

from quadlog.splits.glossary import ANSWERS, CLASSES
from quadlog.splits.rdf import turtle_of
from tests.support.split_reports import branch, disputed, report, update

PREFIXES = "PREFIX : <urn:quadlog:split:> PREFIX prov: <http://www.w3.org/ns/prov#> "
HOSTILE = '""" \' \\ <x> .\n\r\t\x00\x7f\u2028 @prefix'


def example(kind: str = "preview", text: str = "x", **others: object) -> dict[str, Any]:
    one = branch(
        update(211, "rejected", reason=text, id=text),
        update(212, "commutes", synchronous=True),
        more=5,
        name=text,
        dcs=[text],
        ended=[{"index": 213, "id": "c1", "what": text}],
        disputed=9,
        disputed_quads=[disputed(text), disputed("b")],
    )
    return report(
        one, kind=kind, reasons=[text], unreachable=[{"dc": text, "reason": text, "unknown": text}], **others
    )


def loaded(text: str) -> Store:
    store = Store()
    store.load(text.encode(), format=RdfFormat.TURTLE)
    return store


def values(store: Store, query: str) -> list[tuple[str, ...]]:
    """Return the solutions, as texts without datatypes."""
    found = store.query(PREFIXES + query)
    return sorted(tuple(str(getattr(term, "value", term)) for term in row) for row in found)  # type: ignore[union-attr]


def test_each_thing_has_its_type() -> None:
    types = Counter(kind for (kind,) in values(loaded(turtle_of(example())), "SELECT ?t { ?s a ?t }"))
    named = {name.rpartition(":")[2].rpartition("#")[2]: count for name, count in types.items()}
    assert named == {
        "Report": 1, "Plan": 1, "Entity": 2, "Side": 2, "Branch": 1, "Count": 4, "EndedEntry": 1, "Update": 2,
        "DisputedQuad": 2, "Unreachable": 1, "WorkerCost": 1, "UpdateClass": len(CLASSES), "Answer": len(ANSWERS),
    }  # fmt: skip


def test_numbers_are_numbers() -> None:
    store = loaded(turtle_of(example()))
    assert values(
        store, "SELECT ?u ?l { ?b :count [ :class ?c; :updates ?u; :listed ?l ] FILTER(?u > 1) }"
    ) == [("6", "1")]
    assert values(store, "SELECT (SUM(?n) AS ?all) { ?b :count [ :answer ?a; :updates ?n ] }") == [("7",)]
    assert values(store, "SELECT ?d ?l { ?b :disputed ?d; :disputedListed ?l }") == [("9", "2")]
    assert values(store, "SELECT ?i { ?b :update [ :index ?i; :synchronous true ] }") == [("212",)]
    assert values(store, "SELECT (SUM(?s) AS ?all) { ?r :worker [ :seconds ?s ] }") == [("90.4",)]


def test_what_is_not_known_is_absent() -> None:
    one = report(branch(update(211, "waits")), strategy=None)
    store = loaded(turtle_of(one))
    assert (
        values(store, "SELECT ?o { ?u :outcome ?o }") == values(store, "SELECT ?s { ?r :strategy ?s }") == []
    )


@pytest.mark.parametrize(("kind", "count"), [("preview", 0), ("report", 1)])
def test_only_a_report_has_an_activity(kind: str, count: int) -> None:
    store = loaded(turtle_of(example(kind)))
    found = values(store, "SELECT ?b { ?r a prov:Activity; prov:used ?b . ?b prov:wasInvalidatedBy ?r }")
    assert len(found) == count


def test_text_of_others_is_a_value() -> None:
    store = loaded(turtle_of(example(text=HOSTILE)))
    plain = loaded(turtle_of(example()))
    assert len(store) == len(plain)
    lines = {quad.object for quad in store.quads_for_pattern(None, NamedNode("urn:quadlog:split:line"), None)}
    assert lines == {Literal(HOSTILE), Literal("b")}


def test_equal_reports_give_equal_texts() -> None:
    texts = {turtle_of(example()) for _ in range(20)}
    assert len(texts) == 1
