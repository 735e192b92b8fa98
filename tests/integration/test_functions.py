"""Functions that make terms (SPARQL 1.1, 17.4.2, 17.4.4.1, 17.4.5.1), in queries and in updates."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from quadlog.core.records import Outcome
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.stores import body

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.core.records import Effect

XSD = "http://www.w3.org/2001/XMLSchema#"
ROWS = "VALUES ?x { 1 2 3 }"


class Scene:
    """One evaluating worker."""

    def __init__(self, worker: Worker, log: Log) -> None:
        self.worker, self.log = worker, log
        worker.take_over()

    def update(self, text: str, created: int = 1_700_000_000_000) -> Effect:
        self.log.agree(text, created=created)
        self.worker.hear(TOPICS.agreed)
        self.worker.turn()
        self.worker.catch_up()
        effect = self.log.effects()[-1]
        assert effect.outcome is Outcome.APPLIED, effect.reason
        return effect

    def rows(self, text: str) -> list[dict[str, str]]:
        found = json.loads(body(self.worker.store.query(text, accept="application/sparql-results+json")))
        return [{name: _term(value) for name, value in row.items()} for row in found["results"]["bindings"]]

    def objects(self, text: str, created: int = 1_700_000_000_000) -> list[str]:
        """What an update inserts with `urn:made`."""
        lines = self.update(text, created).inserted
        return [line.partition("<urn:made> ")[2].removesuffix(" .") for line in lines]


def _term(value: dict[str, str]) -> str:
    if value["type"] != "literal":
        return value["value"]
    tag = f"@{value['xml:lang']}" if "xml:lang" in value else ""
    datatype = f"^^{value['datatype'].removeprefix(XSD)}" if "datatype" in value else ""
    return f'"{value["value"]}"{tag}{datatype}'


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    log = Log()
    worker = Worker(tmp_path_factory.mktemp("functions"), log, "w1")
    yield Scene(worker, log)
    worker.close()


# --- BNODE ---------------------------------------------------------------------------------------------

MAKE = """INSERT { ?s <urn:made> ?b , ?c } WHERE {
  VALUES ?s { <urn:1> <urn:2> <urn:3> } BIND(BNODE("k") AS ?b) BIND(BNODE("k") AS ?c) }"""


def test_a_label_is_another_node_for_each_solution_and_request(scene: Scene) -> None:
    first, second = scene.objects(MAKE), scene.objects(f"{MAKE} ; {MAKE}")
    assert len(first) == len(set(first)) == 3
    assert len(second) == len(set(second)) == 6
    assert not set(first) & set(second)
    text = f'SELECT ?b {{ {ROWS} BIND(BNODE("k") AS ?b) }}'
    asked = [row["b"] for row in (*scene.rows(text), *scene.rows(text))]
    # Labels are of one answer.
    assert len(set(asked[:3])) == len(set(asked[3:])) == 3


def test_no_label_reaches_a_node_that_is_stored(scene: Scene) -> None:
    [node] = scene.objects('INSERT { <urn:a> <urn:made> ?b } WHERE { BIND(BNODE("k") AS ?b) }')
    label = node.removeprefix("_:")
    scene.update(f'INSERT {{ ?b <urn:taken> 1 }} WHERE {{ BIND(BNODE("{label}") AS ?b) }}')
    scene.update(f'DELETE {{ <urn:a> <urn:made> ?b }} WHERE {{ BIND(BNODE("{label}") AS ?b) }}')
    assert scene.rows("SELECT * { <urn:a> <urn:made> ?b FILTER NOT EXISTS { ?b <urn:taken> ?o } }")
    assert not scene.rows(f'SELECT * {{ BIND(BNODE("{label}") AS ?b) ?b ?p ?o }}')
    assert not scene.rows(f'SELECT * {{ ?s ?p ?b FILTER(sameTerm(?b, BNODE("{label}"))) }}')


def test_a_construct_and_an_ask_make_nodes_too(scene: Scene) -> None:
    text = f'CONSTRUCT {{ ?b <urn:made> ?x , ?c }} {{ {ROWS} BIND(BNODE("k") AS ?b) BIND(BNODE("k") AS ?c) }}'
    lines = body(scene.worker.store.query(text, accept="application/n-triples")).decode().splitlines()
    assert len({line.split()[0] for line in lines}) == 3
    assert len(lines) == 6
    assert b"true" in body(scene.worker.store.query('ASK { FILTER(sameTerm(BNODE("k"), BNODE("k"))) }'))
    graphs = 'SELECT * { GRAPH ?g { ?s ?p ?o } BIND(BNODE("k") AS ?b) }'
    scene.rows(graphs)


def test_a_control_sees_the_same(scene: Scene) -> None:
    same = 'ASK { FILTER(sameTerm(BNODE("k"), BNODE("k")) && !sameTerm(BNODE("k"), BNODE("l"))) }'
    scene.log.control("nodes", same)
    scene.update("INSERT DATA { <urn:a> <urn:controlled> 1 }")
    scene.log.control("nodes", None)
    scene.update("INSERT DATA { <urn:a> <urn:controlled> 2 }")
    assert [effect.outcome for effect in scene.log.effects()[-4:]] == [Outcome.APPLIED] * 4


# --- UUID, STRUUID, RAND, NOW ---------------------------------------------------------------------------

FRESH = {
    "UUID()": r"<?urn:uuid:[0-9a-f-]{36}>?",
    "STRUUID()": r'"[0-9a-f-]{36}"',
    "RAND()": r'".*double>?',
    "BNODE()": ".*",
}


@pytest.mark.parametrize(("call", "pattern"), FRESH.items())
def test_each_call_and_each_solution_makes_another(scene: Scene, call: str, pattern: str) -> None:
    where = f"{ROWS} BIND({call} AS ?a) BIND({call} AS ?b)"
    asked = [value for row in scene.rows(f"SELECT ?a ?b {{ {where} }}") for value in row.values()]
    update = f"INSERT {{ <urn:s> <urn:made> ?a , ?b }} WHERE {{ {where} }}"
    made = scene.objects(f"{update} ; {update}")
    assert len(set(asked)) == 6
    assert len(set(made)) == 12
    assert not set(made) & set(scene.objects(update))
    for value in (*asked, *made):
        assert re.fullmatch(pattern, value)


def test_now_is_one_moment_for_a_request(scene: Scene) -> None:
    where = f"{ROWS} BIND(NOW() AS ?a) FILTER(?a = NOW())"
    assert len({row["a"] for row in scene.rows(f"SELECT ?a {{ {where} }}")}) == 1
    text = f"INSERT {{ ?s <urn:made> ?a }} WHERE {{ {where} BIND(UUID() AS ?s) }}"
    moment = f'"2023-11-14T22:13:20Z"^^<{XSD}dateTime>'
    assert set(scene.objects(f"{text} ; {text}")) == {moment}
    assert set(scene.objects(text, created=1_700_000_001_500)) == {
        f'"2023-11-14T22:13:21.5Z"^^<{XSD}dateTime>'
    }


# --- terms of other terms --------------------------------------------------------------------------------

TABLE = {
    # 17.4.2.8 IRI: a relative one is resolved against the base
    'IRI("x")': "<http://e/d/x>",
    'URI("../x")': "<http://e/x>",
    'IRI("#x")': "<http://e/d/f#x>",
    'IRI("")': "<http://e/d/f>",
    'IRI("urn:x")': "<urn:x>",
    "IRI(<urn:x>)": "<urn:x>",
    'IRI("a b")': None,
    'IRI("http://[")': None,
    "IRI(1)": None,
    'IRI("urn:x"@en)': None,
    # 17.4.2.10 STRDT: of a simple literal and an IRI
    'STRDT("x", <urn:d>)': '"x"^^<urn:d>',
    f'STRDT("x", <{XSD}string>)': '"x"',
    f'STRDT("7", <{XSD}integer>)': f'"7"^^<{XSD}integer>',
    'STRDT("x"@en, <urn:d>)': None,
    'STRDT("x", "urn:d")': None,
    "STRDT(1, <urn:d>)": None,
    # 17.4.2.11 STRLANG: of two simple literals, of which one is a language tag
    'STRLANG("x", "en")': '"x"@en',
    'STRLANG("x", "EN-us")': '"x"@en-us',
    'STRLANG("x", "")': None,
    'STRLANG("x", "en_US")': None,
    'STRLANG("x"@en, "fr")': None,
    'STRLANG(1, "fr")': None,
    # 17.4.2.9 BNODE: an error unless of a simple literal
    "BNODE(1)": None,
    'BNODE("k"@en)': None,
    "BNODE(<urn:k>)": None,
    "BNODE(?unbound)": None,
}


@pytest.mark.parametrize(("call", "wanted"), TABLE.items(), ids=TABLE)
def test_terms_of_other_terms(scene: Scene, call: str, wanted: str | None) -> None:
    asked = body(
        scene.worker.store.query(
            f"BASE <http://e/d/f> SELECT ({call} AS ?v) {{}}", accept="text/tab-separated-values"
        )
    ).decode()
    made = scene.objects(
        f"BASE <http://e/d/f> INSERT {{ <urn:s> <urn:made> ?v }} WHERE {{ BIND({call} AS ?v) }}"
    )
    scene.update("DELETE WHERE { ?s <urn:made> ?o }")
    value = asked.split("\n")[1]
    if wanted == f'"7"^^<{XSD}integer>':
        value = f'"{value}"^^<{XSD}integer>'  # TSV says a number as it is
    assert [value, *(made or [""])] == [wanted or ""] * 2


def test_the_base_is_that_of_the_place(scene: Scene) -> None:
    make = 'INSERT { <urn:s> <urn:made> ?v } WHERE { BIND(IRI("x") AS ?v) }'
    assert scene.objects(make) == []
    assert set(scene.objects(f"BASE <http://a/b> {make} ; BASE <c/d> {make}")) == {
        "<http://a/x>",
        "<http://a/c/x>",
    }
