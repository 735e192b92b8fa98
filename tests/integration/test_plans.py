"""A plan says what reading says: of random updates and of the W3C's, with other constants in them."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from quadlog.core.sparql.planning import NoPlan, plan_of
from quadlog.core.sparql.text.skeleton import taken_apart
from quadlog.core.sparql.update import PLANS, _known, parse_update, read_update
from quadlog.errors import UserError
from tests.support.update_texts import BODIES, PROLOGUE
from tests.support.w3c import Suite
from tests.support.workers.updates import Generator

if TYPE_CHECKING:
    from quadlog.core.sparql.plan import Plan
    from quadlog.core.sparql.text.skeleton import Skeleton

TEXTS = int(os.environ.get("TEST_UPDATES", "3000"))
SEED = int(os.environ.get("TEST_SEED", "0")) or random.randrange(1, 1 << 32)
XSD = "http://www.w3.org/2001/XMLSchema#"

CONSTANTS = {
    "<": (
        "<urn:a>", "<urn:b>", "<http://é/?a=(b)&&c!d*e+f-g/h'i'#j>", "<rel>", "<a:>", "<http://[>", "<urn:a/../b>",
        "<urn:%zz>", "<urn:quadlog:state:x>", "<urn:quadlog:constant:(0>", "<urn:quadlog:function:uuid>", "<urn:NOW()>",
        f"<{XSD}integer>", f"<{XSD}dateTime>", f"<{XSD}string>", f"<{XSD}boolean>",
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>",
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
    ),
    '"': (
        '""', '"x"', r'"\"\n\t\\ \'"', '"<urn:a> # } ; { 1 "', "\"'\"", '"01"', '"1"', '"TRUE"',
        '"é\u2028\x00\U0001f600"',
        "'x'", "''", """'"'""", '"2020-01-01T24:00:00"', '"quadlog constant 0"', '"GRAPH ?g { NOW() }"',
    ),
    "1": ("0", "1", "7", "999999999999999999", "700700700700000000"),
}  # fmt: skip
"""Other constants of a kind, some of which are none."""


class Twins:
    """What was found."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[tuple[str, object, object]] = []
        """Texts, what was made of each, and what should have been."""
        self.chance = random.Random(SEED)

    def try_all_of(self, text: str) -> None:
        """A text, and others that differ in their constants."""
        skeleton, constants = taken_apart(text)
        self.compare(text, skeleton.text(constants), text)
        try:
            plan = plan_of(skeleton)
        except NoPlan:
            self.counts["no plan"] += 1
            self.same(text)
            return
        self.counts["plan"] += 1
        for _ in range(4):
            others = [
                self.chance.choice((one, *CONSTANTS[kind]))
                for kind, one in zip(skeleton.kinds, constants, strict=True)
            ]
            self.as_read(plan, skeleton, others)
            self.same(skeleton.text(others))

    def as_read(self, plan: Plan, skeleton: Skeleton, constants: list[str]) -> None:
        """The plan itself says what reading says, or nothing."""
        text = skeleton.text(constants)
        if "urn:quadlog:state:" in text:
            return  # no plan is asked
        self.compare(text, taken_apart(text), (skeleton, constants))
        planned = plan.operations(constants, b"tx")
        if planned is None:
            self.counts["no constants"] += 1
            return
        self.counts["filled"] += 1
        self.compare(text, planned, read_update(text, tx_id=b"tx"))

    def same(self, text: str) -> None:
        """The usual way says what reading says, good or bad, before and after there is a plan."""
        expected = outcome(read_update, text)
        for _ in range(3):
            self.compare(text, outcome(parse_update, text), expected)

    def compare(self, text: str, found: object, expected: object) -> None:
        self.counts["compared"] += 1
        if found != expected:
            self.wrong.append((text, found, expected))


def outcome(read: object, text: str) -> object:
    assert callable(read)
    try:
        return read(text, tx_id=b"tx2")
    except UserError as error:
        return type(error), str(error)


@pytest.mark.parametrize("texts", [800, pytest.param(TEXTS, marks=pytest.mark.soak)])
def test_random_updates(texts: int) -> None:
    print("TEST_SEED =", SEED)
    twins, generator = Twins(), Generator(SEED)
    for _ in range(texts):
        twins.try_all_of(generator.update().text)
    print(twins.counts)
    assert twins.wrong == []
    assert twins.counts["plan"] > texts / 4
    assert twins.counts["filled"] > texts / 4


def test_all_that_data_may_say() -> None:
    twins = Twins()
    for body in BODIES.values():
        for _ in range(20):
            twins.try_all_of(f"INSERT DATA {{ {body} }}")
            twins.try_all_of(f"{PROLOGUE} INSERT DATA {{ {body} }}")
    print(twins.counts)
    assert twins.wrong == []
    assert twins.counts["filled"] > 100


OTHERS = (
    "INSERT DATA { # see <more> 5 \n <urn:a> <urn:b> <urn:c> }",
    "INSERT DATA { [] <urn:b> 1 } ; " * 60,
    "PREFIX : <urn:x:> INSERT DATA { :a :b <urn:c>, 'x', _:y, [] }",
    'PREFIX : <urn:x:> INSERT DATA { :a :b "1"^^:d, "2"^^<urn:d>, "3"@EN, "4"@en--ltr, 5, "6" }',
    f'PREFIX xsd: <{XSD}> INSERT DATA {{ <urn:a> <urn:b> "1"^^xsd:int , "02"^^<{XSD}int>, 7 }}',
    "INSERT DATA { _:a <p:> _:b, [], ( 1 2 ) GRAPH <urn:g> { _:a <urn:p> [ <urn:q> 3 ] } } ; INSERT DATA { _:c a 1 }",
    "INSERT DATA { <urn:a> <urn:b> 1 } ; PREFIX q: <urn:q:> INSERT DATA { q:a q:b 1 }",
    'DELETE DATA { GRAPH <urn:g> { <urn:a> <urn:b> "x" } } ;',
    'WITH <urn:g> DELETE { ?s ?p "x" } INSERT { ?s ?p _:n , "y"@de } WHERE { ?s ?p "x" . FILTER(?o = <urn:a>) }',
    "DELETE { ?s ?p ?o } USING <urn:g> USING NAMED <urn:h> WHERE { ?s ?p ?o FILTER(?o > 5 && ?o < 7) }",
    'DELETE WHERE { ?s <urn:p> "x" , 5 }',
    "INSERT { ?s <urn:p> ?c } WHERE { { SELECT ?s (COUNT(*) AS ?c) { ?s ?p ?o } GROUP BY ?s LIMIT 5 } }",
    'INSERT { <urn:a> <urn:b> ?c } WHERE { BIND(<urn:f>(<urn:a>, 5) AS ?c) VALUES (?x ?y) { (<urn:a> "5") }}',
    "INSERT { <urn:a> <urn:b> 1 } WHERE { FILTER(?a <urn:a>) }",
    "INSERT { <urn:a> <urn:b> 1 } WHERE { FILTER(?a <urn:a> ?b) }",
    "INSERT { <urn:a> <urn:b> 1 } WHERE { ?x (<urn:p>/<urn:q>) ?y FILTER(?x <urn:a>&&'b'> 5) }",
    'INSERT { <urn:a> <urn:b> 1 } WHERE { ?x <urn:p> (<urn:a> "b" 5) }',
    "INSERT { <urn:a> <urn:b> 1 } WHERE { ?x <urn:p> (5 <urn:a>) }",
    "INSERT DATA { _:a <urn:p> 1 } ; INSERT DATA { _:a <urn:p> <urn:b> }",
    'INSERT DATA { # don\'t <urn:c> 5\n <urn:a> <urn:b> <urn:c> # "no" <more> 5 \n } #',
    'INSERT DATA { # "<urn:c> 5\n <urn:a> <urn:b> "x" # \'no\' <more> 5 \n } #',
    'INSERT DATA { # say "no" 5 \n <urn:a> <urn:b> "x" # \'no\' <more:> 5 \n } #',
    "INSERT DATA { <urn:a> <urn:b> 'x' } # <urn:c> \"d\"",
    "INSERT DATA { <urn:a> <urn:b> 'a \"b' , 'c\" d' }",
    "INSERT DATA { <urn:a> <urn:b> 'a \"x\" d' }",
    'INSERT DATA { <urn:a> <urn:b> """a "b" """ , "c" }',
    "BASE <urn:x:> INSERT DATA { <urn:a> <b> <../c> }",
    "PREFIX a: <urn:a:> PREFIX a: <urn:b:> INSERT DATA { a:x <urn:b> a:5, a:y-5 , 5. }",
    "INSERT DATA { <urn:a> <urn:b> 5.0, -5, 5e3, +7 , 5 . GRAPH <urn:g> { } }",
    'INSERT DATA { <urn:a> <urn:b> "quadlog constant 0" , 1 }',
    "INSERT DATA { <urn:quadlog:constant:(1> <urn:b> <urn:c> }",
    "INSERT DATA { <urn:a> <urn:b> <urn:c> ~ <urn:r> {| <urn:q> 5 |} }",
    "INSERT { << ?a <urn:b> 5 >> <urn:c> 6 } WHERE { ?a <urn:b> 5 }",
    "CLEAR GRAPH <urn:a> ; INSERT DATA { <urn:a> <urn:b> 5 }",
    "COPY <urn:a> TO <urn:b>",
    "LOAD <urn:a> INTO GRAPH <urn:b>",
    "INSERT DATA { GRAPH <urn:a> { <urn:a> <urn:b> 5 } ; }",
    "INSERT DATA { ?a <urn:b> 5 }",
    "",
)


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_hard_to_tell(text: str) -> None:
    twins = Twins()
    for _ in range(30):
        twins.try_all_of(text)
    print(twins.counts)
    assert twins.wrong == []
    assert twins.counts["compared"] >= 120


def test_w3c() -> None:
    """As they are, and without their BASE and DROP, of which no plan is made."""
    twins, suite = Twins(), Suite()
    for test in suite.evaluations:
        twins.try_all_of(test.preparation)
        twins.try_all_of(test.preparation.removeprefix("DROP ALL ; "))
    for text in (*(test.text for test in suite.evaluations), *(test.text for test in suite.syntax)):
        twins.try_all_of(text)
        twins.try_all_of(text.partition("> ")[2])
    suite.close()
    print(twins.counts)
    assert twins.wrong == []
    assert twins.counts["plan"] > 100
    assert twins.counts["filled"] > 100


def test_many_skeletons_are_not_kept() -> None:
    for number in range(PLANS + 100):
        for constant in ("<urn:a>", "<urn:b>", "<urn:c>"):
            parse_update(f"INSERT DATA {{ <urn:s> a {' ' * number}{constant} }}", tx_id=b"tx")
    assert _known.cache_info().currsize == PLANS
