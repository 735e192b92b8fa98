"""The judge of the random updates is judged first."""

from __future__ import annotations

import random

import pyoxigraph as ox
import pytest

from tests.support.isomorphism import isomorphic


def quads(text: str) -> list[ox.Quad]:
    dot = "" if text.endswith((".", "}")) else " ."
    return list(ox.parse(text + dot, format=ox.RdfFormat.TRIG))


def ring(size: int, name: str) -> str:
    return "".join(f"_:{name}{n} <urn:p> _:{name}{(n + 1) % size} ." for n in range(size))


def all_to_all(size: int, name: str) -> str:
    return "".join(f"_:{name}{n} <urn:p> _:{name}{m} ." for n in range(size) for m in range(size))


SAME = {
    "ground": ("<urn:a> <urn:p> 1, 'x'@EN", "<urn:a> <urn:p> 'x'@EN, 1"),
    "labels": ("_:a <urn:p> _:b . _:b <urn:q> 1", "_:b <urn:p> _:a . _:a <urn:q> 1"),
    "rings": (ring(6, "a") + ring(3, "b"), ring(3, "x") + ring(6, "y")),
    "many alike": ("".join(f"_:a{n} <urn:p> 1 ." for n in range(20)), "[] <urn:p> 1 ." * 20),
    "very many alike": ("[] <urn:p> 1 ." * 1000, "".join(f"_:a{n} <urn:p> 1 ." for n in range(1000))),
    "many rings": (
        "".join(ring(3 + n % 2, f"a{n}x") for n in range(100)),
        "".join(ring(4 - n % 2, f"b{n}x") for n in range(100)),
    ),
    "all to all": (all_to_all(14, "a"), all_to_all(14, "b")),
    "triple terms": ("_:a <urn:p> <<( _:a <urn:p> _:b )>>", "_:b <urn:p> <<( _:b <urn:p> _:a )>>"),
    "graphs": (
        "GRAPH <urn:g> { _:a <urn:p> 1 } _:a <urn:p> 2 .",
        "_:z <urn:p> 2 . GRAPH <urn:g> { _:z <urn:p> 1 }",
    ),
}
OTHER = {
    "literals as written": ("_:a <urn:p> 02", "_:a <urn:p> 2 ."),
    "languages": ("_:a <urn:p> 'x'@en", "_:a <urn:p> 'x'@de"),
    "ground": ("<urn:a> <urn:p> 1", "<urn:a> <urn:p> 01"),
    "one for two": ("_:a <urn:p> 1 . _:a <urn:q> 1", "_:a <urn:p> 1 . _:b <urn:q> 1"),
    "rings": (ring(6, "a"), ring(3, "a") + ring(3, "b")),
    "many alike": ("[] <urn:p> 1 ." * 19, "[] <urn:p> 1 ." * 20),
    "how often which ring": (
        "".join(ring(3 + (n < 7), f"a{n}x") for n in range(14)),
        "".join(ring(3 + (n < 7), f"b{n}x") for n in range(12)) + ring(6, "b"),
    ),
    "triple terms": ("_:a <urn:p> <<( _:a <urn:p> _:b )>>", "_:a <urn:p> <<( _:b <urn:p> _:a )>>"),
    "graphs": (
        "GRAPH <urn:g> { _:a <urn:p> 1 } _:a <urn:p> 2 .",
        "GRAPH <urn:g> { _:a <urn:p> 2 } _:a <urn:p> 1",
    ),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_the_same_but_for_labels(pair: tuple[str, str]) -> None:
    assert isomorphic(*map(quads, pair))


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_not_the_same(pair: tuple[str, str]) -> None:
    assert not isomorphic(*map(quads, pair))


@pytest.mark.parametrize("seed", range(30))
def test_any_renaming_is_seen_through_and_any_change_is_seen(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"n{n}" for n in range(chance.randint(2, 30))]
    edges = {(chance.choice(names), chance.choice("pq"), chance.choice(names)) for _ in names * 2}
    others = dict(zip(names, chance.sample(names, len(names)), strict=True))

    def text(renamed: dict[str, str]) -> str:
        return "".join(f"_:{renamed[s]} <urn:{p}> _:{renamed[o]} ." for s, p, o in edges)

    there = quads(text({name: name for name in names}))
    assert isomorphic(there, quads(text(others)))
    assert not isomorphic(there, quads(text(others))[1:])
