"""Application of a bundle: a store goes from the state before it to the state after it, or stays where it is."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from quadlog.core.effects.lines import quads_of
from quadlog.errors import StateError
from quadlog.quadstore.commit import PIECE, NetChange, UpdateText
from quadlog.replay.bundle import BundleManifest, LastWord, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyoxigraph import Quad

    from quadlog.quadstore.quadstore import QuadStore

BULK: Final = 50_000
"""Quads that are inserted at once: this takes half a second, in which no other thread runs."""


def load_bundle(store: QuadStore, directory: Path) -> BundleManifest:
    """Apply a bundle to a store that has no readers meanwhile.

    Raises:
        StateError: the bundle begins at another state than the store's, or is not as it was proven; nothing was
            changed.

    """
    manifest, applied = BundleManifest.read(directory), store.applied
    before = manifest.before
    if (before.point, before.signature) != (applied.point, applied.signature):
        raise StateError(
            f"{directory} begins behind effect {before.index}, and the store is at {applied.index}, or of another"
            " history: make a bundle from its state"
        )
    if store.half_undone or store.half_made > manifest.after.index:
        raise StateError("a change is half made, or half undone, in the store: let it hear the log first")
    manifest.verify(directory)
    store.apply_in_pieces(pieces_of(directory, manifest), manifest.after, manifest.controls)
    return manifest


def pieces_of(directory: Path, manifest: BundleManifest) -> Iterator[UpdateText | Iterable[Quad]]:
    """Yield the changes that a store must make, in order.

    Graphs come first: a graph that is dropped here and has quads is re-created by these quads.
    """
    graphs = {
        line: word is LastWord.EMPTIED
        for word in (LastWord.FILLED, LastWord.DROPPED, LastWord.EMPTIED)
        for line in _lines(directory, manifest, word)
    }
    yield UpdateText.of(NetChange({}, graphs))
    for lines in _some(_lines(directory, manifest, LastWord.DELETED), PIECE):
        yield UpdateText.of(NetChange(dict.fromkeys(lines, False), {}))
    for word in (LastWord.INSERTED, LastWord.KEPT):
        for lines in _some(_lines(directory, manifest, word), BULK):
            yield quads_of(lines)


def _lines(directory: Path, manifest: BundleManifest, word: LastWord) -> Iterator[str]:
    for file in manifest.files:
        if file.word is word:
            for some in lines_of(directory / file.name):
                yield from (line.decode() for line in some)


def _some(lines: Iterator[str], most: int) -> Iterator[list[str]]:
    while some := list(islice(lines, most)):
        yield some
