"""Changes as an effect's record holds them, and back: canonical N-Quads lines and terms."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pyoxigraph import BlankNode, NamedNode, RdfFormat, parse

from quadlog.core.effect import Change
from quadlog.core.signature import quad_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.effect import NamedGraph
    from quadlog.core.model import Effect


def with_change(effect: Effect, change: Change) -> Effect:
    """The effect with the lists of a change."""
    return replace(
        effect,
        deleted=tuple(map(quad_line, change.deleted)),
        inserted=tuple(map(quad_line, change.inserted)),
        emptied=tuple(map(str, change.emptied)),
        filled=tuple(map(str, change.filled)),
        dropped=tuple(map(str, change.dropped)),
    )


def changes_of(effects: Sequence[Effect]) -> list[Change]:
    """What effects change, in their order; parsed in one go, since most are small."""
    lines = [line for effect in effects for part in (effect.deleted, effect.inserted) for line in part]
    quads = parse("\n".join(lines), format=RdfFormat.N_QUADS, lenient=True)
    return [
        Change(
            deleted=tuple(islice(quads, len(effect.deleted))),
            inserted=tuple(islice(quads, len(effect.inserted))),
            emptied=tuple(map(graph_of, effect.emptied)),
            filled=tuple(map(graph_of, effect.filled)),
            dropped=tuple(map(graph_of, effect.dropped)),
        )
        for effect in effects
    ]


def graph_of(text: str) -> NamedGraph:
    """The graph that an N-Quads term names."""
    return NamedNode(text[1:-1]) if text.startswith("<") else BlankNode(text.removeprefix("_:"))
