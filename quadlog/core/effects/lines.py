"""A change as text: canonical N-Quads lines and terms, as effects hold it.

Who follows needs no more: a line is what is signed, and nearly what SPARQL says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyoxigraph import BlankNode, NamedNode, RdfFormat, parse

from quadlog.core.effects import signature
from quadlog.core.effects.effect import Change
from quadlog.core.effects.signature import quad_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyoxigraph import Quad

    from quadlog.core.effects.effect import NamedGraph


class Lines(Protocol):
    """The difference between two states, as a `Change` is; every `Effect` says one."""

    @property
    def deleted(self) -> Sequence[str]:
        """N-Quads lines, without their line feeds."""
        ...

    @property
    def inserted(self) -> Sequence[str]:
        """N-Quads lines."""
        ...

    @property
    def emptied(self) -> Sequence[str]:
        """N-Quads terms."""
        ...

    @property
    def filled(self) -> Sequence[str]:
        """N-Quads terms."""
        ...

    @property
    def dropped(self) -> Sequence[str]:
        """N-Quads terms."""
        ...


class ChangeLines(NamedTuple):
    """Lines by themselves."""

    deleted: tuple[str, ...] = ()
    inserted: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def lines_of(change: Change) -> ChangeLines:
    """A change as text."""
    return ChangeLines(
        deleted=tuple(map(quad_line, change.deleted)),
        inserted=tuple(map(quad_line, change.inserted)),
        emptied=tuple(map(str, change.emptied)),
        filled=tuple(map(str, change.filled)),
        dropped=tuple(map(str, change.dropped)),
    )


def inverse(lines: Lines) -> ChangeLines:
    """What takes a change back, but for graphs that came with their first quads: only the state tells which those are.

    A graph that was dropped comes back with the quads that it had.

    >>> inverse(ChangeLines(inserted=("<urn:s> <urn:p> <urn:o> <urn:g> .",), filled=("<urn:g>",))).emptied
    ('<urn:g>',)
    """
    return ChangeLines(
        deleted=tuple(lines.inserted),
        inserted=tuple(lines.deleted),
        emptied=tuple(lines.filled),
        filled=tuple(lines.emptied),
    )


def change_of(lines: Lines) -> Change:
    """What the text says."""
    return Change(
        deleted=tuple(quads_of(lines.deleted)),
        inserted=tuple(quads_of(lines.inserted)),
        emptied=tuple(map(graph_of, lines.emptied)),
        filled=tuple(map(graph_of, lines.filled)),
        dropped=tuple(map(graph_of, lines.dropped)),
    )


def signature_after(before: int, change: Change) -> int:
    """The signature of a state of signature ``before`` once the change is made."""
    return signature.after(before, lines_of(change))


def quads_of(lines: Iterable[str]) -> Iterable[Quad]:
    """The quads of N-Quads lines."""
    return parse("\n".join(lines), format=RdfFormat.N_QUADS, lenient=True)


def graph_of(text: str) -> NamedGraph:
    """The graph that an N-Quads term names."""
    return NamedNode(text[1:-1]) if text.startswith("<") else BlankNode(text.removeprefix("_:"))
