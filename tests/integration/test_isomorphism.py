"""The demo's proof refuses what is not the file: a triple changed, a blank node linked elsewhere."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Store

from quadlog.core.effects import signature
from quadlog.demo.ontology import find_brick
from quadlog.demo.proof import Recount, canonical_dump, canonical_file, difference, recount
from quadlog.demo.questions import QUESTIONS
from quadlog.demo.report import Findings, WorkerFinding, wrong
from quadlog.demo.watch import WorkerStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

REST = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#rest")
RULE = NamedNode("http://www.w3.org/ns/shacl#rule")


def dump_of(store: Iterable[Quad]) -> bytes:
    """Return N-Quads with other labels and in another order: what a worker may answer."""
    quads = list(store)
    random.Random(7).shuffle(quads)
    names: dict[BlankNode, BlankNode] = {}

    def other(term: object) -> object:
        return names.setdefault(term, BlankNode(f"w{len(names)}")) if isinstance(term, BlankNode) else term

    return "".join(f"{other(q.subject)} {q.predicate} {other(q.object)} .\n" for q in quads).encode()


@pytest.fixture(scope="module")
def turtle() -> bytes:
    """Return Brick itself."""
    return find_brick().read_bytes()


@pytest.fixture(scope="module")
def file(turtle: bytes) -> frozenset[str]:
    """Return the canonical lines of Brick."""
    return canonical_file(turtle)


@pytest.fixture
def store(turtle: bytes) -> Store:
    """Return a store with Brick, to be tampered with."""
    brick = Store()
    brick.bulk_load(turtle, format=RdfFormat.TURTLE)
    return brick


def deviation(store: Store, file: frozenset[str]) -> str | None:
    """Return what the demo would say."""
    return difference(canonical_dump(dump_of(store)), file)


def test_the_file_is_the_one_that_the_readme_counts(store: Store) -> None:
    assert len(store) == 62_083
    assert sum(isinstance(q.subject, BlankNode) or isinstance(q.object, BlankNode) for q in store) == 34_733


def test_other_labels_and_another_order_are_the_same_graph(store: Store, file: frozenset[str]) -> None:
    assert deviation(store, file) is None


def test_one_literal_changed(store: Store, file: frozenset[str]) -> None:
    quad = next(q for q in store if isinstance(q.object, Literal) and isinstance(q.subject, NamedNode))
    store.remove(quad)
    store.add(Quad(quad.subject, quad.predicate, Literal("changed")))
    assert "1 only in the worker" in (deviation(store, file) or "")


def test_one_triple_missing_and_one_too_many(store: Store, file: frozenset[str]) -> None:
    quad = next(iter(store))
    store.remove(quad)
    assert (deviation(store, file) or "").startswith("1 only in the file")
    store.add(quad)
    store.add(Quad(NamedNode("urn:x"), NamedNode("urn:y"), BlankNode()))
    assert "1 only in the worker" in (deviation(store, file) or "")


def test_a_named_graph_is_another_graph(store: Store, file: frozenset[str]) -> None:
    quad = next(q for q in store if isinstance(q.object, NamedNode) and isinstance(q.subject, NamedNode))
    store.remove(quad)
    moved = Quad(quad.subject, quad.predicate, quad.object, NamedNode("urn:g"))
    dump = dump_of(store) + f"{moved} .\n".encode()
    assert difference(canonical_dump(dump), file)


@pytest.mark.parametrize("predicate", [REST, RULE])
def test_two_blank_nodes_that_change_places(store: Store, file: frozenset[str], predicate: NamedNode) -> None:
    """The count of triples, all IRIs and literals and the degree of every node stay the same."""
    links = [q for q in store.quads_for_pattern(None, predicate, None) if isinstance(q.object, BlankNode)]
    one = links[0]
    other = next(q for q in links if contents(store, q) != contents(store, one) and q.subject != one.subject)
    for quad, value in ((one, other.object), (other, one.object)):
        store.remove(quad)
        store.add(Quad(quad.subject, predicate, value))
    assert len(store) == 62_083
    assert deviation(store, file) == "the same but for which blank nodes are linked"


def contents(store: Store, link: Quad) -> set[str]:
    """Return what is said of the node at the end of a link, as far as it has names."""
    assert isinstance(link.object, BlankNode)
    said = store.quads_for_pattern(link.object, None, None)
    return {f"{q.predicate} {q.object}" for q in said if not isinstance(q.object, BlankNode)}


def test_the_recount_is_the_signature(store: Store) -> None:
    lines = [signature.quad_line(quad) for quad in store] + ["# empty graph <urn:g>"]
    counted = recount("".join(f"{line}\n" for line in lines).encode())
    assert counted.quads == len(store)
    assert counted.signature == signature.render(signature.add(signature.EMPTY, lines))


# The verdict.

STATUS = WorkerStatus(evaluating=False, applied=3, quads=5, signature="ab")
ANSWERS = tuple((("1",),) for _ in QUESTIONS)
WORKER = WorkerFinding(
    dc="dc1",
    id="w1",
    agreed=3,
    status=STATUS,
    counted=Recount(quads=5, signature="ab"),
    deviation=None,
    answers=ANSWERS,
)
OTHER = replace(WORKER, dc="dc2", id="w2")
INDEXES = {"key1": 1, "key2": 2}


def judged(*workers: WorkerFinding, m2: dict[str, int | None] | None = None) -> list[str]:
    """Return what is wrong with these workers, and with what a second master says."""
    transactions = {"m1": INDEXES, "m2": INDEXES if m2 is None else m2}
    return wrong(Findings(workers=workers, file_answers=ANSWERS, transactions=transactions))


def test_nothing_is_wrong() -> None:
    assert judged(WORKER, OTHER) == []


@pytest.mark.parametrize(
    ("worker", "told"),
    [
        (replace(OTHER, status=replace(STATUS, applied=2)), "w2 is at index 2, its master at 3"),
        (replace(OTHER, status=replace(STATUS, quads=4)), "w2 says 4 quads"),
        (replace(OTHER, counted=Recount(quads=5, signature="cd")), "its dump has 5 with cd"),
        (replace(OTHER, agreed=4, status=replace(STATUS, applied=4)), "dc2 agreed on index 4, dc1 on 3"),
        (
            replace(OTHER, status=replace(STATUS, signature="cd"), counted=Recount(quads=5, signature="cd")),
            "w2 and w1 have different signatures",
        ),
        (
            replace(OTHER, deviation="1 only in the file"),
            "w2 is not isomorphic to the file: 1 only in the file",
        ),
        (replace(OTHER, answers=((("2",),), *ANSWERS[1:])), "with 2, the file with 1"),
    ],
)
def test_a_worker_that_differs_is_told(worker: WorkerFinding, told: str) -> None:
    [line] = judged(WORKER, worker)
    assert told in line


@pytest.mark.parametrize(
    ("m2", "told"),
    [
        ({"key1": 1, "key2": None}, "m2 has not applied 1 acknowledged updates, such as key2"),
        ({"key1": 2, "key2": 2}, "m2 has two updates at one index"),
        ({"key1": 2, "key2": 1}, "m2 has updates at other indexes than m1"),
    ],
)
def test_a_transaction_lost_or_moved_is_told(m2: dict[str, int | None], told: str) -> None:
    assert any(told in line for line in judged(WORKER, OTHER, m2=m2))
