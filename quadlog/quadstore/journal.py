"""Records of anticipated changes, and how to take the changes back.

A record is one quad of the reserved graph.  It is inserted in the same atomic update as its change, or
before the pieces of a large one.  Its literal is an increasing number, then lines on the state before:

    +<quad>   this quad existed          -<quad>   it did not
    +<graph>  this graph existed         -<graph>  it did not
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadlog.core.effects.effect import graph_words, named_graphs
from quadlog.errors import StateError
from quadlog.quadstore.commit import NetChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from quadlog.core.effects.effect import Change, NamedGraph, State
    from quadlog.core.effects.lines import Lines

JOURNAL: Final = NamedNode("urn:quadlog:journal")


def records_of(
    changes: Sequence[Change], texts: Sequence[Lines], before: State, *, first: int, reserved: NamedNode
) -> list[Quad]:
    """Return one record for each of consecutive changes, with texts ``texts``, to the state ``before``."""
    exists: dict[NamedGraph, bool] = {}
    records: list[Quad] = []
    for number, (change, said) in enumerate(zip(changes, texts, strict=True), first):
        lines = [f"+{line}" for line in said.deleted]
        lines += [f"-{line}" for line in said.inserted]
        for graph in _touched(change):
            there = exists[graph] if graph in exists else before.has_graph(graph)
            lines.append(f"{'+' if there else '-'}{graph}")
        exists.update(graph_words(change))
        text = "\n".join((str(number), *lines))
        records.append(Quad(reserved, JOURNAL, Literal(text), reserved))
    return records


def _touched(change: Change) -> Iterator[NamedGraph]:
    """Yield the graphs that may exist only before or only after the change, or have been empty."""
    yield from sorted(
        named_graphs(change.inserted) | {*change.emptied, *change.filled, *change.dropped}, key=str
    )


def undoing(records: Iterable[Quad]) -> NetChange:
    """Return the change that takes all records back: for every quad and graph the oldest record has the state."""
    quads: dict[str, bool] = {}
    graphs: dict[str, bool] = {}
    for record in sorted(records, key=number_of, reverse=True):
        for word in _text_of(record).split("\n")[1:]:
            (quads if word.endswith(" .") else graphs)[word[1:]] = word[0] == "+"
    return NetChange(quads, graphs)


def number_of(record: Quad) -> int:
    """Return the number of a record, which gives its place among the others."""
    return int(_text_of(record).partition("\n")[0])


def _text_of(record: Quad) -> str:
    if not isinstance(record.object, Literal) or isinstance(record.graph_name, DefaultGraph):
        raise StateError(f"not a record of a journal: {record}")
    return record.object.value
