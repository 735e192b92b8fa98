"""A change as text: canonical N-Quads lines and terms, as effects contain it.

Workers that apply effects need nothing else: a line is what is signed, and almost SPARQL syntax.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyoxigraph import BlankNode, NamedNode, RdfFormat, parse

from quadlog.core.effects.effect import Change
from quadlog.core.effects.signature import quad_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyoxigraph import Quad

    from quadlog.core.effects.effect import NamedGraph
    from quadlog.core.records import Effect


class ChangeLines(NamedTuple):
    """A `Change` as text: quads are N-Quads lines without line feeds, graphs are N-Quads terms."""

    deleted: tuple[str, ...] = ()
    inserted: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


Lines: TypeAlias = "ChangeLines | Effect"
"""The difference between two states as text: every effect is one."""


def lines_of(change: Change) -> ChangeLines:
    """Return a change as text."""
    return ChangeLines(
        deleted=tuple(map(quad_line, change.deleted)),
        inserted=tuple(map(quad_line, change.inserted)),
        emptied=tuple(map(str, change.emptied)),
        filled=tuple(map(str, change.filled)),
        dropped=tuple(map(str, change.dropped)),
    )


def inverse(lines: Lines) -> ChangeLines:
    """Return the change that reverts another one, except for graphs that were created with their first quads.

    Only the state shows which graphs these are.  A dropped graph returns with the quads that it had.

    >>> inverse(ChangeLines(inserted=("<urn:s> <urn:p> <urn:o> <urn:g> .",), filled=("<urn:g>",))).emptied
    ('<urn:g>',)
    """
    return ChangeLines(
        deleted=lines.inserted, inserted=lines.deleted, emptied=lines.filled, filled=lines.emptied
    )


def change_of(lines: Lines) -> Change:
    """Return the change that the text describes."""
    return Change(
        deleted=tuple(quads_of(lines.deleted)),
        inserted=tuple(quads_of(lines.inserted)),
        emptied=tuple(map(graph_of, lines.emptied)),
        filled=tuple(map(graph_of, lines.filled)),
        dropped=tuple(map(graph_of, lines.dropped)),
    )


def quads_of(lines: Iterable[str]) -> Iterable[Quad]:
    """Return the quads of N-Quads lines."""
    return parse("\n".join(lines), format=RdfFormat.N_QUADS, lenient=True)


def graph_of(text: str) -> NamedGraph:
    """Return the graph that an N-Quads term names."""
    return NamedNode(text[1:-1]) if text.startswith("<") else BlankNode(text.removeprefix("_:"))
