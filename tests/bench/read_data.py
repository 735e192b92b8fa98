"""What is asked of which data when reads are measured."""

from __future__ import annotations

from typing import Final

SIDE: Final = 1000
"""Subjects of the data: pairs of them make answers of any size."""
LINES: Final = " ".join(f"<urn:{number}> <urn:cross> {number} ." for number in range(SIDE))
TEN: Final = " ".join(map(str, range(10)))

ONE: Final = "SELECT ?o { <urn:1> <urn:cross> ?o }"
QUERIES: Final = {
    "SELECT, one solution": ONE,
    "SELECT, 1,000 solutions": "SELECT * { ?s <urn:cross> ?o }",
    "ASK": "ASK { <urn:1> <urn:cross> 1 }",
    "CONSTRUCT, 10,000 triples": (
        f"CONSTRUCT {{ ?x <urn:with> ?y }} {{ VALUES ?a {{ {TEN} }} ?x <urn:cross> ?a . ?y <urn:cross> ?b }}"
    ),
}
_COUNT: Final = (
    "SELECT (COUNT(*) AS ?n) {{ ?x <urn:cross> ?a . ?y <urn:cross> ?b . ?z <urn:cross> ?c"
    " FILTER(?c < {} && STR(?a) < CONCAT(STR(?b), STR(?c))) }}"
)
AGGREGATES: Final = {"a second": _COUNT.format(2), "ten seconds": _COUNT.format(20)}
"""By about how long each takes a core that is not fast."""
LARGE: Final = "SELECT * { ?x <urn:cross> ?a . ?y <urn:cross> ?b FILTER(?a < 390) }"
"""100 MB as JSON."""
