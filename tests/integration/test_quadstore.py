"""The store on disk: atomic, exact, equal to pyoxigraph's own update."""

from __future__ import annotations

import subprocess
import sys
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

from quadlog.core.effects import signature
from quadlog.core.effects.effect import Change, effect_of
from quadlog.core.effects.lines import ChangeLines, lines_of
from quadlog.core.effects.overlay import Overlay
from quadlog.errors import SetupError, StateError
from quadlog.quadstore.quadstore import Applied, QuadStore
from tests.support.workers.stores import DATA, G, P, S, after, data_of, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> QuadStore:
    return QuadStore.open(tmp_path / "w1")


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
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
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
    code = "import sys; from pathlib import Path; from quadlog.quadstore.quadstore import QuadStore\nQuadStore.open(Path(sys.argv[1]))"
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


def test_a_dump_is_n_quads_whose_lines_sum_to_the_signature(store: QuadStore) -> None:
    run(store, DATA)
    text = b"".join(store.dump()).decode()
    assert signature.add(0, text.splitlines()) == store.applied.signature
    assert "# empty graph <urn:e>\n" in text
    assert len(list(ox.parse(text, format=ox.RdfFormat.N_QUADS))) == store.applied.quads
