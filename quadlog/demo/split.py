"""Split a graph into updates without separating triples that share blank nodes.

A blank node has no name outside the update that creates it, so triples that share one, directly or
through other triples, must be in the same update.  These groups are the connected components of the
graph in which two blank nodes are neighbours if one triple contains both.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from pyoxigraph import BlankNode, Triple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

TARGET = 300
"""Triples in an update: about 40 kB of text, which a worker evaluates in a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoUpdate:
    """One `INSERT DATA`; its key is a hash of its text, so that it can be sent repeatedly."""

    key: str
    text: str
    triples: int


def updates_of(triples: Iterable[Triple], *, target: int = TARGET) -> list[DemoUpdate]:
    """Return updates that together insert all `triples`, each triple once."""
    return [_update(batch) for batch in batches(triples, target=target)]


def batches(triples: Iterable[Triple], *, target: int) -> Iterator[list[Triple]]:
    """Yield batches of whole components, at most `target` triples each; a larger component is a batch of its own."""
    batch: list[Triple] = []
    for component in components(triples):
        if batch and len(batch) + len(component) > target:
            yield batch
            batch = []
        batch += component
    if batch:
        yield batch


def components(triples: Iterable[Triple]) -> list[list[Triple]]:
    """Group triples that are connected through blank nodes, in the order of their first triples.

    A triple without blank nodes is a component of its own.
    """
    distinct = list(dict.fromkeys(triples))
    leaders = _Leaders()
    for triple in distinct:
        nodes = blank_nodes(triple)
        for other in nodes[1:]:
            leaders.join(nodes[0], other)
    groups: dict[Hashable, list[Triple]] = {}
    for triple in distinct:
        nodes = blank_nodes(triple)
        groups.setdefault(leaders.of(nodes[0]) if nodes else triple, []).append(triple)
    return list(groups.values())


def blank_nodes(triple: Triple) -> list[BlankNode]:
    """Return the blank nodes of a triple, including those of nested triples."""
    found: list[BlankNode] = []
    for term in (triple.subject, triple.object):
        if isinstance(term, BlankNode):
            found.append(term)
        elif isinstance(term, Triple):
            found += blank_nodes(term)
    return found


class _Leaders:
    """Union-find: every node of a component has the same leader."""

    def __init__(self) -> None:
        """Start with every node as its own leader."""
        self._towards: dict[Hashable, Hashable] = {}

    def of(self, node: Hashable) -> Hashable:
        """Return the leader of a node; shorten the path for later lookups."""
        while (nearer := self._towards.get(node, node)) != node:
            self._towards[node] = node = self._towards.get(nearer, nearer)
        return node

    def join(self, one: Hashable, other: Hashable) -> None:
        """Merge the components of two nodes."""
        self._towards[self.of(one)] = self.of(other)


def _update(triples: list[Triple]) -> DemoUpdate:
    lines = "\n".join(f"{triple} ." for triple in triples)
    text = f"INSERT DATA {{\n{lines}\n}}"
    return DemoUpdate(key=f"demo-{sha256(text.encode()).hexdigest()[:32]}", text=text, triples=len(triples))
