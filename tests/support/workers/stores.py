"""What tests of a worker's store share: updates carried out on it, and what it answers."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

from pyoxigraph import NamedNode

from quadlog.core.effects import signature
from quadlog.core.effects.effect import Change, effect_of
from quadlog.core.effects.lines import lines_of
from quadlog.core.sparql.operations import DataOperation, DeleteData, InsertData
from quadlog.core.sparql.update import parse_update

if TYPE_CHECKING:
    from quadlog.quadstore.quadquery import QueryAnswer
    from quadlog.quadstore.quadstore import Applied, QuadStore
    from quadlog.quadstore.query_scope import Dataset as Named

S, P, G = (NamedNode(f"urn:{name}") for name in "spg")


def after(applied: Applied, change: Change) -> Applied:
    return replace(
        applied,
        index=applied.index + 1,
        signature=signature.after(applied.signature, lines_of(change)),
        quads=applied.quads + change.growth,
    )


def data_of(text: str, number: int) -> list[DataOperation]:
    operations = parse_update(text, tx_id=b"%d" % number)
    return [o for o in operations if isinstance(o, (InsertData, DeleteData))]


def run(store: QuadStore, *texts: str) -> None:
    """Evaluate and apply each text by itself."""
    for text in texts:
        change = effect_of(data_of(text, store.applied.index), store)
        store.apply([lines_of(change)], after(store.applied, change))


def body(answer: QueryAnswer) -> bytes:
    output = BytesIO()
    answer.write_to(output)
    return output.getvalue()


def rows(store: QuadStore, text: str, dataset: Named | None = None) -> list[str]:
    return sorted(body(store.query(text, accept="text/csv", dataset=dataset)).decode().split("\r\n")[1:-1])


DATA = """INSERT DATA { <urn:a> <urn:p> <urn:b> , <urn:g1> . <urn:b> <urn:p> 2 .
  GRAPH <urn:g1> { <urn:a> <urn:p> <urn:b> . <urn:b> <urn:p> <urn:c> }
  GRAPH <urn:g2> { <urn:a> <urn:q> 'x' } GRAPH <urn:e> { <urn:a> a 1 } } ;
  DELETE DATA { GRAPH <urn:e> { <urn:a> a 1 } }"""
