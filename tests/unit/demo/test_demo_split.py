"""How the demo loads: components stay together, every triple is said once, nothing is lost on the way."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from quadlog.core.sparql.operations import InsertData
from quadlog.core.sparql.update import parse_update
from quadlog.demo import load as loading
from quadlog.demo.cluster import DemoNode
from quadlog.demo.ontology import read_turtle
from quadlog.demo.proof import canonical_lines
from quadlog.demo.split import batches, components, updates_of
from quadlog.errors import OutcomeUnknown, StateError

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = b"""
@prefix : <urn:> .
:pump a :Class ; :label "Pump", "Pumpe"@de ;
  :shape [ :path :feeds ; :or ( [ :class :Tank ] [ :class :Pipe ] ) ] .
:valve :shape _:shared .
:pipe :shape _:shared ; :label "Pipe" .
_:shared :path :isFedBy .
:pump a :Class .
"""

nodes = st.integers(0, 12).map(lambda n: BlankNode(f"n{n}"))
names = st.integers(0, 4).map(lambda n: NamedNode(f"urn:{n}"))
flat = st.builds(
    Triple,
    st.one_of(nodes, names),
    names,
    st.one_of(nodes, names, st.integers(0, 4).map(lambda n: Literal(str(n)))),
)
graphs = st.lists(st.one_of(flat, st.builds(Triple, st.one_of(nodes, names), names, flat)), max_size=60)


def labels(triple: Triple) -> list[str]:
    """Return the blank nodes in a triple, however deep: counted here, not as the split does it."""
    return re.findall(r"_:\w+", str(triple))


def test_a_small_file() -> None:
    sizes = [len(component) for component in components(read_turtle(SMALL))]
    assert sorted(sizes) == [1, 1, 1, 1, 3, 9], (
        "four plain ones, :shared with its uses, the list with its shapes"
    )
    assert [update.triples for update in updates_of(read_turtle(SMALL), target=4)] == [3, 9, 4]


def test_the_same_file_gives_the_same_updates() -> None:
    once, again = updates_of(read_turtle(SMALL)), updates_of(read_turtle(SMALL))
    assert once == again
    assert len({update.key for update in updates_of(read_turtle(SMALL), target=1)}) == 6


@given(graphs, st.integers(1, 20))
def test_every_triple_is_in_one_batch(graph: list[Triple], target: int) -> None:
    assert Counter(triple for batch in batches(graph, target=target) for triple in batch) == Counter(
        set(graph)
    )


@given(graphs, st.integers(1, 20))
def test_no_blank_node_is_in_two_batches(graph: list[Triple], target: int) -> None:
    found = [
        {label for triple in batch for label in labels(triple)} for batch in batches(graph, target=target)
    ]
    assert sum(map(len, found)) == len(set[str]().union(*found))


@given(graphs, st.integers(1, 20))
def test_a_batch_is_small_or_one_component(graph: list[Triple], target: int) -> None:
    for batch in batches(graph, target=target):
        assert len(batch) <= target or len(components(batch)) == 1


@given(graphs)
def test_a_component_cannot_be_split_further(graph: list[Triple]) -> None:
    for component in components(graph):
        reached = set(labels(component[0]))
        for _ in component:
            for triple in component:
                if reached.intersection(labels(triple)):
                    reached.update(labels(triple))
        assert all(reached.intersection(labels(triple)) for triple in component) or len(component) == 1


def test_the_updates_say_what_the_file_says() -> None:
    quads: list[Quad] = []
    for update in updates_of(read_turtle(SMALL), target=4):
        [operation] = parse_update(update.text, tx_id=update.key.encode())
        assert isinstance(operation, InsertData)
        quads += operation.quads
    assert canonical_lines(quads) == canonical_lines(
        quad
        for update in updates_of(read_turtle(SMALL))
        for operation in parse_update(update.text, tx_id=b"1")
        if isinstance(operation, InsertData)
        for quad in operation.quads
    )


# Sending.

MASTERS = [DemoNode(id=name, url=f"http://{name}") for name in ("m1", "m2", "m3")]
UPDATES = updates_of(read_turtle(SMALL), target=1)


def send(answer: Callable[[httpx.Request], httpx.Response]) -> tuple[int, list[tuple[str, str, str]]]:
    """Load through masters that answer so; return the failures and (master, key, text) of each success."""
    taken: list[tuple[str, str, str]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        response = answer(request)
        if response.is_success:
            taken.append((request.url.host, request.headers["idempotency-key"], request.content.decode()))
        return response

    async def run() -> int:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as http:
            return await loading.load(http, MASTERS, UPDATES, lambda _: None)

    return asyncio.run(run()), taken


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PAUSE", 0.0)
    monkeypatch.setattr(loading, "PATIENCE", 0.2)


def test_all_masters_take_their_share() -> None:
    failed, taken = send(lambda _: httpx.Response(204))
    assert failed == 0
    assert Counter(key for _, key, _ in taken) == Counter(update.key for update in UPDATES)


def test_a_dead_master_and_one_that_does_not_know_lose_nothing() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "m1":
            raise httpx.ConnectError(request.url.host)
        return httpx.Response(503 if request.url.host == "m2" else 204)

    failed, taken = send(answer)
    assert failed > 0
    assert {(key, text) for _, key, text in taken} == {(update.key, update.text) for update in UPDATES}
    assert len(taken) == len(UPDATES)
    assert {master for master, _, _ in taken} == {"m3"}


def test_a_refusal_ends_the_load() -> None:
    with pytest.raises(StateError, match="409 no"):
        send(lambda _: httpx.Response(409, text="no"))


def test_what_nobody_acknowledges_is_told() -> None:
    with pytest.raises(OutcomeUnknown, match="no master acknowledged"):
        send(lambda _: httpx.Response(503))
