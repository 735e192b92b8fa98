"""Are two sets of quads the same but for the labels of their blank nodes?

rdflib's `isomorphic` and pyoxigraph's `canonicalize` look at every order of nodes that are alike, which takes for
ever where many are.  To say *whether* there is a renaming, one order is enough.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyoxigraph as ox

if TYPE_CHECKING:
    from collections.abc import Iterable

Colors: TypeAlias = dict[str, int]
"""Of every blank node; those of different colors are told apart by something."""
Painted: TypeAlias = Counter[tuple[str, tuple[int, ...]]]
"""Facts in colors in the place of labels."""
Looks: TypeAlias = frozenset[tuple[tuple[str, tuple[int, ...]], int]]
"""The same, as a key."""


class _Fact(NamedTuple):
    """A quad."""

    shape: str
    """Its text with a gap for each blank node."""
    nodes: tuple[str, ...]
    """The labels that stand in the gaps."""


def isomorphic(left: Iterable[ox.Quad], right: Iterable[ox.Quad]) -> bool:
    """Is there a renaming of blank nodes that makes one the other?

    Quads without a common blank node do not matter to each other, so each cluster of one side is to be one of the
    other side; which one of those that are the same is no matter.
    """
    ground, blank = _parted(left)
    other_ground, other_blank = _parted(right)
    if ground != other_ground:
        return False
    others = _clusters(other_blank)
    for looks, clusters in _clusters(blank).items():
        candidates = others.pop(looks, [])
        for facts in clusters:
            found = (other for other in candidates if _pair(facts, _plain(facts), other, _plain(other)))
            if (same := next(found, None)) is None:
                return False
            candidates.remove(same)
        if candidates:
            return False
    return not others


def _parted(quads: Iterable[ox.Quad]) -> tuple[set[_Fact], set[_Fact]]:
    """Those without blank nodes, and those with some."""
    facts = {_fact(quad) for quad in quads}
    blank = {fact for fact in facts if fact.nodes}
    return facts - blank, blank


def _clusters(facts: set[_Fact]) -> dict[Looks, list[set[_Fact]]]:
    """What hangs together by blank nodes, by what can be seen of it without their labels."""
    head: dict[str, str] = {}

    def head_of(node: str) -> str:
        while (above := head.setdefault(node, node)) != node:
            head[node] = node = head[above]
        return node

    for fact in facts:
        for node in fact.nodes[1:]:
            head[head_of(node)] = head_of(fact.nodes[0])
    together: defaultdict[str, set[_Fact]] = defaultdict(set)
    for fact in facts:
        together[head_of(fact.nodes[0])].add(fact)
    clusters: defaultdict[Looks, list[set[_Fact]]] = defaultdict(list)
    for cluster in together.values():
        colors = _refined(cluster, _plain(cluster))
        clusters[frozenset(_painted(cluster, colors).items())].append(cluster)
    return clusters


def _plain(facts: set[_Fact]) -> Colors:
    return {node: 0 for fact in facts for node in fact.nodes}


def _pair(facts: set[_Fact], colors: Colors, others: set[_Fact], other_colors: Colors) -> bool:
    """Is there a renaming that keeps the colors?

    Colors are refined by what nodes stand in.  Where some still are alike, one of them is taken to be one of its
    like on the other side, and so on.
    """
    colors, other_colors = _refined(facts, colors), _refined(others, other_colors)
    if _painted(facts, colors) != _painted(others, other_colors):
        return False
    alike: defaultdict[int, list[str]] = defaultdict(list)
    for node, color in colors.items():
        alike[color].append(node)
    unclear = min((nodes for nodes in alike.values() if len(nodes) > 1), key=len, default=None)
    if unclear is None:
        return True  # every color is one node on either side, and all facts are the same in these colors
    node = unclear[0]
    fresh = hash(("one of", colors[node]))
    candidates = [other for other, color in other_colors.items() if color == colors[node]]
    return any(
        _pair(facts, colors | {node: fresh}, others, other_colors | {other: fresh}) for other in candidates
    )


def _refined(facts: set[_Fact], colors: Colors) -> Colors:
    """Nodes keep one color only if all that is said of them is the same in these colors."""
    while True:
        said: defaultdict[str, list[int]] = defaultdict(list)
        for shape, nodes in facts:
            painted = hash((shape, tuple(colors[node] for node in nodes)))
            for place, node in enumerate(nodes):
                said[node].append(hash((painted, place)))
        finer = {node: hash((color, tuple(sorted(said[node])))) for node, color in colors.items()}
        if len(set(finer.values())) == len(set(colors.values())):
            return finer
        colors = finer


def _painted(facts: set[_Fact], colors: Colors) -> Painted:
    return Counter((shape, tuple(colors[node] for node in nodes)) for shape, nodes in facts)


def _fact(quad: ox.Quad) -> _Fact:
    nodes: list[str] = []
    shape = " ".join(_shape(term, nodes) for term in (*quad.triple, quad.graph_name))
    return _Fact(shape, tuple(nodes))


def _shape(term: object, nodes: list[str]) -> str:
    match term:
        case ox.BlankNode():
            nodes.append(term.value)
            return "_"
        case ox.Triple():
            return f"<<{' '.join(_shape(part, nodes) for part in term)}>>"
        case _:
            return str(term)
