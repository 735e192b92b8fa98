"""A worker's store of quads on disk, through which all changes to them are made.

A directory contains pyoxigraph's files and one small file with the name of a reserved graph.  That
graph has one quad whose literal states up to where the log has been applied; it is replaced in the
same atomic update as the quads, so that after any crash the two agree.  pyoxigraph does not
fsync: after a power loss both may be older, but still agree.

The evaluating worker's store may be ahead of that: anticipated changes have records in the reserved
graph (``journal.py``), a gate keeps reads out (``gate.py``), and ``open`` takes the changes back.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from pyoxigraph import Literal, NamedNode, Quad, Store

from quadlog.core.effects.control import Control, ControlChange, after
from quadlog.damage import Damage, told_of
from quadlog.errors import SetupError, StateError, StoreDamaged
from quadlog.failpoints import Failpoint, within
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.chunked_commit import ChunkedCommitMarks
from quadlog.quadstore.commit import UpdateText, UpdateTexts, net_of
from quadlog.quadstore.flushing import Flushing
from quadlog.quadstore.journal import JOURNAL, number_of, records_of, undoing
from quadlog.quadstore.quaddir import (
    FILES,
    bytes_of,
    copy_name,
    name_of,
    new_reserved_graph,
    open_locked,
    reserved_graph,
    touched_at,
)
from quadlog.quadstore.store_reader import APPLIED, CONTROL, StoreReader, applied_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from quadlog.core.effects.effect import Change
    from quadlog.core.effects.lines import Lines

__all__ = ["Applied", "QuadStore"]


class QuadStore(StoreReader):
    """A worker's quads with the applied state.

    Only one thread at a time may apply and anticipate; any number of threads may query.
    """

    def __init__(self, store: Store, reserved: NamedNode, applied: Applied, path: Path) -> None:
        """Use ``open`` instead."""
        super().__init__(store, reserved)
        self.controls: Mapping[str, Control] = {}
        """Controls of the applied state, in the order of names.  Replaced as a whole, so any thread may read them."""
        self._path = path
        self.touched_at = 0
        """When its files were last changed before it was opened, in milliseconds since 1970; 0: it is new."""
        self.name: Final = name_of(path, reserved)
        """Distinguishes this store from one that was re-created in its place, or copied to it."""
        self._applied = applied
        self._ahead: dict[Quad, int] = {}
        """Records of the anticipated changes, with their numbers."""
        self._number = 0
        self._begun = ChunkedCommitMarks(reserved)
        self.damage = Damage(path / FILES)
        """Damage that was found in the store."""
        self._flushing = Flushing(store.flush, self.damage.note)

    @classmethod
    def open(cls, path: Path) -> QuadStore:
        """Open or create the store in this directory.

        Raises:
            SetupError: another process holds it, or its files cannot be read.
            StoreDamaged: its files are damaged, or contradict each other.

        """
        path.mkdir(parents=True, exist_ok=True)
        before = touched_at(path)
        store = open_locked(path)
        try:
            with told_of(path):
                opened = cls._opened(path, store)
                opened.touched_at = before
                return opened
        except RuntimeError as error:
            raise SetupError(f"StoreUnusable: {path}: {error}") from error

    @classmethod
    def _opened(cls, path: Path, store: Store) -> QuadStore:
        reserved = reserved_graph(path, store)
        try:
            found = applied_in(store, reserved)
        except StateError as error:
            raise StoreDamaged(f"{path}: {error}") from error
        applied = found or Applied()
        if found is None:
            if len(store):
                raise StoreDamaged(f"{path}: it has quads, and does not say up to where the log is applied")
            store.add(_applied_quad(reserved, applied))
        opened = cls(store, reserved, applied, path)
        if opened._begun.find(store):
            opened.gate.shut()
        records = store.quads_for_pattern(None, JOURNAL, None, reserved)
        opened._ahead = {record: number_of(record) for record in records}
        opened.take_back(list(opened._ahead))
        opened.controls = after({}, map(_change_of, store.quads_for_pattern(None, CONTROL, None, reserved)))
        return opened

    @property
    def applied(self) -> Applied:
        """The point up to which the log is applied; read from disk once, by ``open``."""
        return self._applied

    @property
    def is_ahead(self) -> bool:
        """True if the store contains changes that are not applied."""
        return bool(self._ahead) or bool(self._begun)

    @property
    def half_made(self) -> int:
        """Index up to which the store may contain parts of entries that are not applied yet; 0: it contains none."""
        return self._begun.half_made

    @property
    def half_undone(self) -> bool:
        """True if parts of what is applied are undone: the way back must be completed."""
        return self._begun.half_undone

    @property
    def reserved(self) -> str:
        """The name of the reserved graph; only for code that has access to all quads anyway."""
        return self._reserved.value

    def copy_to(self, path: Path) -> None:
        """Create an independent store in a new directory, as of this moment; ``open`` takes back what was anticipated.

        Uses hard links where the file system has them: 8 ms for a million quads, and no other thread waits.

        Raises:
            OSError: the copy cannot be made: no space, the directory exists, or a change in pieces is half made.

        """
        with self._commits:
            self._copy_to(path)

    def _copy_to(self, path: Path) -> None:
        if self._begun:
            raise OSError(
                f"entry {self._applied.index + 1} is applied to the half: the log has to be heard again"
            )
        path.mkdir()
        copy_name(self._path, path)
        self._store.backup(str(path / FILES))

    def size(self) -> int:
        """Return the bytes of a copy.  Flushes first, since the size on disk of data in memory is unknown."""
        self._store.flush()
        return bytes_of(self._path)

    def copy(self, path: Path) -> Applied:
        """Copy the store at a moment when nothing is anticipated; return what is applied in the copy.

        Raises:
            OSError: as for `copy_to`.
            Unavailable: no such moment occurred while the gate was waited for.

        """
        with self.gate.reading(), self._commits:
            self._copy_to(path)
            return self._applied

    @classmethod
    def adopt(cls, path: Path, applied: Applied) -> None:
        """Turn pyoxigraph's files in this directory, which have no applied state, into a store with this one."""
        store = open_locked(path)
        reserved = new_reserved_graph(path)
        store.add(_applied_quad(reserved, applied))
        store.flush()

    def apply(
        self,
        changes: Sequence[Lines],
        applied: Applied,
        *,
        anticipated: Sequence[Quad] = (),
        controls: Sequence[ControlChange] = (),
    ) -> None:
        """Make consecutive changes of quads and controls, and record ``applied``, in one atomic update.

        A large change takes several.  The caller must ensure that the changes are exact, and that ``applied`` is their
        result, together with the changes of the records ``anticipated``, which stay in the store.  If ``applied`` is
        not a later state, the changes must undo what was applied since, and all that is half made.
        """
        self.apply_updates(
            UpdateTexts.of(net_of(changes)), applied, anticipated=anticipated, controls=controls
        )

    def apply_updates(
        self,
        updates: UpdateTexts,
        applied: Applied,
        *,
        anticipated: Sequence[Quad] = (),
        controls: Sequence[ControlChange] = (),
    ) -> None:
        """Apply changes as `apply` does, given as updates."""
        back = applied.index <= self._applied.index
        assert back or not self.half_undone, "what is half undone is undone before anything else is applied"
        update, pieces, lines = updates
        if pieces:
            self._make_in_pieces(pieces, self._begun.mark(applied.index, back=back))
        self._conclude(update, applied, back=back, anticipated=anticipated, controls=controls)
        self._flushing.changed(lines, applied.quads)

    def apply_in_pieces(
        self,
        pieces: Iterable[UpdateText | Iterable[Quad]],
        applied: Applied,
        controls: Sequence[ControlChange] = (),
    ) -> None:
        """Apply a change of any size as `apply` does, given as pieces that have the same result if they are repeated.

        A piece that consists of quads is inserted in bulk.  If the process dies in between, the log is read again from
        the state applied before, with the same result.
        """
        assert not self._ahead, "nothing is anticipated"
        assert self.half_made <= applied.index, "what is half made is whole with this"
        self._make_in_pieces(pieces, self._begun.mark(applied.index, back=False))
        self._conclude(UpdateText(), applied, back=False, anticipated=(), controls=controls)

    def _conclude(
        self,
        update: UpdateText,
        applied: Applied,
        *,
        back: bool,
        anticipated: Sequence[Quad],
        controls: Sequence[ControlChange],
    ) -> None:
        """Make the rest of a change, and record what is applied with it."""
        held = after(self.controls, controls) if controls else self.controls
        made = self._begun.whole_at(applied.index, back=back)
        self._replace(
            update,
            [
                *anticipated,
                *made,
                *self._control_quads(self.controls, held),
                _applied_quad(self._reserved, self._applied),
            ],
            [*self._control_quads(held, self.controls), _applied_quad(self._reserved, applied)],
        )
        with self._commits:
            text, functions = update.text(), update.functions()
            with within(Failpoint.WITHIN_APPLY):
                self._store.update(text, custom_functions=functions)
            self._applied, self.controls = applied, held
            self._begun.forget(made)
        if anticipated or made:
            self._forget(anticipated)

    def _make_in_pieces(self, pieces: Iterable[UpdateText | Iterable[Quad]], mark: Quad) -> None:
        """Make a change that needs several updates, after a mark: what a crash leaves is made again, and not read.

        1. Close the gate.  2. Add the mark with the entry with which the change is whole, or undone: after a crash the
        log may arrive in other batches.  3. Make all pieces, each an atomic update or a bulk insertion.  4. The caller
        deletes the mark.
        """
        self.gate.shut()
        with self._commits:
            self._store.add(mark)
            self._begun.note(mark)
            for piece in pieces:
                if isinstance(piece, UpdateText):
                    self._carry_out(piece)
                else:
                    self._store.bulk_extend(piece)

    def _carry_out(self, update: UpdateText) -> None:
        """Execute an update atomically, except for graphs that no text can drop; repeating it has the same result."""
        self._store.update(update.text(), custom_functions=update.functions())
        for graph in update.unnamed:
            self._store.remove_graph(graph)

    def _control_quads(self, those: Mapping[str, Control], others: Mapping[str, Control]) -> list[Quad]:
        """Return the quads of the controls that are in `those` but not in `others`."""
        if those is others:
            return []
        found = (control for name, control in those.items() if others.get(name) != control)
        return [Quad(self._reserved, CONTROL, Literal(control.encode()), self._reserved) for control in found]

    def anticipate(self, changes: Sequence[Change], lines: Sequence[Lines]) -> list[Quad]:
        """Make consecutive changes, with text `lines`, and return records that can take them back.

        One update makes both; for large changes the records come first.  The caller must have closed the gate.
        """
        records = records_of(changes, lines, self, first=self._number, reserved=self._reserved)
        update, pieces, changed = UpdateTexts.of(net_of(lines))
        self._replace(update, (), records)
        for each in chain([update], pieces or ()):
            self._carry_out(each)
        self._ahead.update((record, self._number + n) for n, record in enumerate(records))
        self._number += len(records)
        self._flushing.changed(changed + len(records), self._applied.quads)
        return records

    def take_back(self, records: Sequence[Quad] | None = None) -> None:
        """Undo the changes of the newest records, or of all; if that takes several updates, the records go last."""
        records = list(self._ahead) if records is None else records
        if records:
            update, pieces, _ = UpdateTexts.of(undoing(records))
            self._replace(update, records, ())
            for each in chain(pieces or (), [update]):
                self._carry_out(each)
        self._forget(records)

    def _forget(self, records: Iterable[Quad]) -> None:
        for record in records:
            del self._ahead[record]
        if not self.is_ahead:
            self._number = 0
            self.gate.open()

    def _replace(self, update: UpdateText, old: Iterable[Quad], new: Iterable[Quad]) -> None:
        """Add to an update the replacement of quads of the reserved graph."""
        for texts, quads in ((update.deleted, old), (update.inserted, new)):
            triples = [str(quad.triple) for quad in quads]
            if triples:
                texts[str(self._reserved)] = triples

    def close(self) -> None:
        """Flush, and release the directory."""
        self._flushing.close()
        self._store.flush()
        del self._store, self._flushing


def _change_of(quad: Quad) -> ControlChange:
    if not isinstance(quad.object, Literal):
        raise StateError(f"not a control: {quad}")
    control = Control.decode(quad.object.value)
    return ControlChange(name=control.name, control=control)


def _applied_quad(reserved: NamedNode, applied: Applied) -> Quad:
    return Quad(reserved, APPLIED, Literal(applied.encode()), reserved)
