"""Ground triples in one filter, against the same pattern as it came."""

from __future__ import annotations

import os
import random
import time

import pytest
from pyoxigraph import QuerySolutions, Store

from quadlog.core.sparql.operations import Modify
from quadlog.core.sparql.text.caution import weigh
from quadlog.core.sparql.text.ground import without_ground_triples
from quadlog.core.sparql.update import parse_update
from quadlog.errors import Unsupported

PATTERNS = int(os.environ.get("TEST_PATTERNS", "1500"))
SEED = int(os.environ.get("TEST_SEED", "1"))
"""Fixed, because one seed in 30 finds a pattern that pyoxigraph 0.5.13 answers wrongly as it came, and right without
its ground triples: ``GRAPH ?g { VALUES ?s { … } OPTIONAL { … } … }``, where the OPTIONAL binds ?g, and
``FILTER EXISTS { MINUS { … } }`` before a ground triple."""

DATA = """INSERT DATA { <urn:a> <urn:p> <urn:b> , 1 , 'x'@en ; a <urn:c> . <urn:b> <urn:p> <urn:a> . _:n <urn:p> 1 .
  _:n <urn:q> 2 . GRAPH <urn:g> { <urn:a> <urn:p> <urn:b> , true ; a <urn:c> }
  GRAPH <urn:h> { <urn:a> <urn:p> 1.50 . <urn:b> <urn:q> 1 } }"""
GROUND = (
    "<urn:a> <urn:p> <urn:b> .",
    "<urn:a> <urn:p> 1 , 'x'@en ; a <urn:c> .",
    "<urn:b> <urn:p> <urn:a> ; .",
    "<urn:a> <urn:p> 01 .",
    "<urn:a> <urn:p> '1.5'^^<http://www.w3.org/2001/XMLSchema#decimal> .",
    "x:a x:p true .",
    "<urn:no> <urn:p> <urn:b> .",
    "<urn:a> <urn:p> <urn:b> ; <urn:q> <urn:no> .",
    "<urn:a> <urn:p> 'x' .",
)
OTHERS = (
    "?s ?p ?o .",
    "?s <urn:p> ?o .",
    "_:b <urn:p> ?o . _:b <urn:q> ?z .",
    "<urn:a> ?p ?o .",
    "<urn:a> <urn:p> <urn:b> ; ?p ?o .",
    "<urn:a> <urn:p>/<urn:p> <urn:a> .",
    "<urn:a> (<urn:p>|<urn:q>) <urn:b> .",
    "VALUES ?s { <urn:a> <urn:b> <urn:x> }",
    "VALUES (?s ?o) { (<urn:a> <urn:b>) (1 2) }",
    "BIND(<urn:a> AS ?v{n})",
    "FILTER(?o != <urn:b>)",
    "FILTER STR(<urn:a>)",
    "{ SELECT ?s { ?s <urn:p> ?o } }",
)


class Generator:
    """Groups from a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._count = 0

    def group(self, depth: int = 0) -> str:
        items = [self.item(depth) for _ in range(self._chance.choice((1, 2, 2, 3, 4)))]
        text = " ".join(items)
        return text.removesuffix(".") if self._chance.random() < 0.3 else text

    def item(self, depth: int) -> str:
        self._count += 1
        draw = self._chance.random()
        if draw < 0.45:
            return self._chance.choice(GROUND)
        if draw < 0.75 or depth > 2:
            return (
                self._chance.choice(OTHERS)
                .replace("{n}", str(self._count))
                .replace("_:b", f"_:b{self._count}")
            )
        inner = f"{{ {self.group(depth + 1)} }}"
        words = ("OPTIONAL", "MINUS", "FILTER EXISTS", "FILTER NOT EXISTS", "GRAPH ?g", "GRAPH <urn:g>", "")
        if draw < 0.8:
            return f"{inner} UNION {{ {self.group(depth + 1)} }}"
        return f"{self._chance.choice(words)} {inner}"


def answer(store: Store, text: str) -> list[str]:
    found = store.query(text)
    assert isinstance(found, QuerySolutions)
    names = sorted(variable.value for variable in found.variables)
    return sorted(str([str(solution[name]) for name in names]) for solution in found)


def test_the_solutions_stay() -> None:
    print("TEST_SEED =", SEED)
    store, generator = Store(), Generator(SEED)
    store.update(DATA)
    changed = found = 0
    for _ in range(PATTERNS):
        text = f"PREFIX x: <urn:> SELECT * {{ {generator.group()} }}"
        other = without_ground_triples(text)
        try:
            wanted = answer(store, text)
        except SyntaxError:  # a variable that is bound twice
            continue
        assert answer(store, other) == wanted, text
        changed += other != text
        found += bool(wanted) and other != text
    print(f"{changed} changed, {found} of them with solutions")
    assert found > PATTERNS / 10


def ground(number: int) -> str:
    return " ".join(f"<urn:s> <urn:p> <urn:o{n}> ." for n in range(number))


@pytest.mark.parametrize("number", [250, 5_000])
def test_as_many_as_they_like(number: int) -> None:
    triples, store = ground(number), Store()
    store.update(f"INSERT DATA {{ {triples} }}")
    began = time.process_time()
    for text in (
        f"DELETE {{ {triples} }} INSERT {{ <urn:s> <urn:p> ?o }} WHERE {{ {triples} ?s ?p ?o }}",
        f"DELETE WHERE {{ {triples} ?s ?p ?o }}",
    ):
        [modify] = parse_update(text, tx_id=b"tx")
        assert isinstance(modify, Modify)
        assert len(modify.deletes) >= number
        found = store.query(modify.where.text)
        assert isinstance(found, QuerySolutions)
        assert len(list(found)) == number
    assert time.process_time() - began < number / 250


@pytest.mark.parametrize(
    "rest", ["?s ?p ?o ." * 120, "?s <urn:p>" + "/<urn:p>" * 120 + " ?o", "OPTIONAL { ?s ?p ?o }" * 60]
)
def test_the_rest_is_limited_as_ever(rest: str) -> None:
    with pytest.raises(Unsupported, match="joins too much"):
        parse_update(f"INSERT {{ ?s ?p ?o }} WHERE {{ {ground(250)} {rest} }}", tx_id=b"tx")


def test_beside_a_service_they_count() -> None:
    service = "SERVICE <urn:x> { ?s ?p ?o }"
    parse_update(f"INSERT {{ ?s ?p ?o }} WHERE {{ {ground(50)} {service} }}", tx_id=b"tx")
    with pytest.raises(Unsupported, match="with SERVICE joins too much"):
        parse_update(f"INSERT {{ ?s ?p ?o }} WHERE {{ {ground(250)} {service} }}", tx_id=b"tx")


def test_a_pattern_without_ground_triples_stays() -> None:
    for text in (
        "{ ?s ?p ?o }",
        "{ <urn:s> <urn:p> <urn:o> ; <urn:q> ?o }",
        "{ BIND(1 AS ?quadlog_s) <urn:s> <urn:p> 1 }",
    ):
        assert without_ground_triples(text) == text
    assert weigh(f"{{ {ground(250)} }}").joins >= 250
