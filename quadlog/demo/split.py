"""Cut a graph into updates that hold blank nodes together.

A blank node has no name outside the update that makes it, so triples that share one, directly
or through others, must travel together.  These groups are the connected components of the
graph in which two blank nodes are neighbours if one triple has both.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from pyoxigraph import BlankNode, Triple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

TARGET = 300
"""Triples in an update: some 40 kB of text, a few milliseconds of a worker's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoUpdate:
    """One `INSERT DATA`; its key is a function of its text, so it can be sent any number of times."""

    key: str
    text: str
    triples: int


def updates_of(triples: Iterable[Triple], *, target: int = TARGET) -> list[DemoUpdate]:
    """Return updates that together say all of `triples`, each of them once."""
    return [_update(batch) for batch in batches(triples, target=target)]


def batches(triples: Iterable[Triple], *, target: int) -> Iterator[list[Triple]]:
    """Fill batches of at most `target` triples with whole components; a larger one goes alone."""
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
    """Return the blank nodes of a triple, also those of a triple inside it."""
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
        """Every node leads itself."""
        self._towards: dict[Hashable, Hashable] = {}

    def of(self, node: Hashable) -> Hashable:
        """Return the leader of a node; shorten the path for later lookups."""
        while (nearer := self._towards.get(node, node)) != node:
            self._towards[node] = node = self._towards.get(nearer, nearer)
        return node

    def join(self, one: Hashable, other: Hashable) -> None:
        """Make two components one."""
        self._towards[self.of(one)] = self.of(other)


def _update(triples: list[Triple]) -> DemoUpdate:
    lines = "\n".join(f"{triple} ." for triple in triples)
    text = f"INSERT DATA {{\n{lines}\n}}"
    return DemoUpdate(key=f"demo-{sha256(text.encode()).hexdigest()[:32]}", text=text, triples=len(triples))
