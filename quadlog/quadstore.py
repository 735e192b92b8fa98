"""The one door to a worker's quads on disk.

A directory holds pyoxigraph's files and one small file with the name of a reserved graph.  That
graph has one quad, whose literal says up to where the log has been applied; it is replaced in the
same atomic update as the quads, so that after any crash the two agree.  pyoxigraph does not
fsync: after a power loss both may be older, but still agree.

The evaluating worker's store may be ahead of that: what was anticipated has records in the reserved
graph (``journal.py``), reads are kept out by a gate (``gate.py``), and ``open`` takes it back.
"""

from __future__ import annotations

import threading
import time
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

from pyoxigraph import Literal, NamedNode, Quad, Store

from quadlog.applied import Applied
from quadlog.commit import UpdateText, in_pieces, net_of
from quadlog.core import signature
from quadlog.core.control import Control, ControlChange, after
from quadlog.errors import SetupError, StateError
from quadlog.failpoints import Failpoint, within
from quadlog.gate import Gate
from quadlog.journal import JOURNAL, number_of, records_of, undoing
from quadlog.quaddir import FILES, copy_name, new_reserved_graph, open_locked, reserved_graph
from quadlog.quadquery import run_query, solutions_of
from quadlog.quadview import Visible

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyoxigraph import DefaultGraph

    from quadlog.commit import Net
    from quadlog.core.effect import Change, NamedGraph
    from quadlog.core.lines import Lines
    from quadlog.core.operations import DeletePattern, Where
    from quadlog.core.template import Row, Term
    from quadlog.hiding import Dataset
    from quadlog.quadquery import Answer
    from quadlog.quadview import Settle

__all__ = ["Applied", "QuadStore"]

_APPLIED = NamedNode("urn:quadlog:applied")
_BEGUN = NamedNode("urn:quadlog:begun")
_CONTROL = NamedNode("urn:quadlog:control")
_OWN = frozenset((_APPLIED, _CONTROL))
# Lines handed over at once; iterating over quads holds the GIL, for some 5 ms a chunk.
_CHUNK = 5_000


class QuadStore:
    """A worker's quads with the applied state; a ``State`` of ``quadlog.core.effect``.

    One thread applies and anticipates; any number may query.
    """

    def __init__(self, store: Store, reserved: NamedNode, applied: Applied, path: Path) -> None:
        """Use ``open``."""
        self.controls: Mapping[str, Control] = {}
        """Those of the applied state, by name and in the order of names.  Replaced as a whole: any thread may look."""
        self._store = store
        self._path = path
        self._reserved = reserved
        self._applied = applied
        self._ahead: dict[Quad, int] = {}
        """Records of what was anticipated, with their numbers."""
        self._number = 0
        self._begun: dict[Quad, int] = {}
        """Say that a batch is made in pieces, of which not all are there, and up to which index it goes."""
        self._commits = threading.Lock()
        self.gate = Gate()
        """Every read passes it: closed while there is anything that was anticipated."""

    @classmethod
    def open(cls, path: Path) -> QuadStore:
        """Open or create the store in this directory.

        Raises:
            SetupError: somebody else holds it, or its files cannot be read.
            StateError: it contradicts itself.

        """
        path.mkdir(parents=True, exist_ok=True)
        store = open_locked(path)
        try:
            return cls._opened(path, store)
        except RuntimeError as error:  # pyoxigraph's words for a block whose checksum is wrong
            raise SetupError(f"StoreUnusable: {path}: {error}") from error

    @classmethod
    def _opened(cls, path: Path, store: Store) -> QuadStore:
        reserved = reserved_graph(path, store)
        found = list(store.quads_for_pattern(reserved, _APPLIED, None, reserved))
        match found:
            case []:
                applied = Applied()
                store.add(_applied_quad(reserved, applied))
            case [quad] if isinstance(quad.object, Literal):
                applied = Applied.decode(quad.object.value)
            case _:
                raise StateError(f"{path}: {len(found)} applied states where there is one; rebuild it")
        opened = cls(store, reserved, applied, path)
        begun = store.quads_for_pattern(_BEGUN, _APPLIED, None, reserved)
        opened._begun = {quad: _last_of(quad) for quad in begun}
        if opened._begun:
            opened.gate.shut()
        records = store.quads_for_pattern(None, JOURNAL, None, reserved)
        opened._ahead = {record: number_of(record) for record in records}
        opened.take_back(list(opened._ahead))
        opened.controls = after({}, map(_change_of, store.quads_for_pattern(None, _CONTROL, None, reserved)))
        return opened

    @property
    def applied(self) -> Applied:
        """Up to where the log is applied; read from disk once, at ``open``."""
        return self._applied

    @property
    def is_ahead(self) -> bool:
        """Whether anything stands in the store that is not applied."""
        return bool(self._ahead) or bool(self._begun)

    @property
    def name(self) -> str:
        """Tells this store from one that was made anew in its place; nothing of the reserved graph's name shows."""
        return blake2b(self._reserved.value.encode(), digest_size=8).hexdigest()

    def copy_to(self, path: Path) -> None:
        """A store of its own in a new directory, as of this moment; ``open`` takes back what was anticipated.

        Hard links where the file system has them: 8 ms for a million quads, and no other thread waits.

        Raises:
            OSError: it could not be made; no space, or the directory is there already.

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

    def copy(self, path: Path) -> Applied:
        """Copy the store as it is at a moment when nothing is anticipated.

        Returns what is applied in the copy.

        Raises:
            OSError: as `copy_to`.
            Unavailable: there was no such moment for long.

        """
        with self.gate.reading(), self._commits:
            self._copy_to(path)
            return self._applied

    @classmethod
    def read_copy(cls, path: Path) -> QuadStore:
        """What `copy` made, to be read only."""
        store = Store.read_only(str(path / FILES))
        return cls(store, reserved_graph(path, store), Applied(), path)

    @classmethod
    def adopt(cls, path: Path, applied: Applied) -> None:
        """Make pyoxigraph's files in this directory, which know of no log, a store that says what is applied."""
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
        """Make consecutive changes, of quads and of controls, and say so, in one atomic update; a large one in several.

        Trusts its caller that the changes are exact and that ``applied`` tells their result,
        together with what the records ``anticipated`` stand for: that stays.
        """
        update = UpdateText()
        held = after(self.controls, controls) if controls else self.controls
        net = net_of(changes)
        if net.is_one_update:
            update.add(net)
        else:
            self._make_in_pieces(net, applied.index)
        made = [quad for quad, last in self._begun.items() if last <= applied.index]
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
            for quad in made:
                del self._begun[quad]
        if anticipated or made:
            self._forget(anticipated)

    def _make_in_pieces(self, net: Net, last: int) -> None:
        """Make what is no single update, behind a quad that says so: what a crash leaves is made again, and not read.

        1. No read begins.  2. Say that it begins, and that it is whole with the entry ``last``: after a crash the
        log may come in other batches.  3. All pieces, each an atomic update.  4. The caller says the end.
        """
        self.gate.shut()
        with self._commits:
            begun = Quad(_BEGUN, _APPLIED, Literal(str(last)), self._reserved)
            self._store.add(begun)
            self._begun[begun] = last
            for update in in_pieces(net):
                self._carry_out(update)

    def _carry_out(self, update: UpdateText) -> None:
        """In one atomic update, but for graphs that no text can drop: again and again it comes to the same."""
        self._store.update(update.text(), custom_functions=update.functions())
        for graph in update.unnamed:
            self._store.remove_graph(graph)

    def _control_quads(self, those: Mapping[str, Control], others: Mapping[str, Control]) -> list[Quad]:
        """Of the controls that only the first ones have."""
        if those is others:
            return []
        found = (control for name, control in those.items() if others.get(name) != control)
        return [
            Quad(self._reserved, _CONTROL, Literal(control.encode()), self._reserved) for control in found
        ]

    def anticipate(self, changes: Sequence[Change], lines: Sequence[Lines]) -> list[Quad]:
        """Make consecutive changes, `lines` in text, with records that can take them back.

        In one update; of large ones the records first.  The caller has closed the gate.
        """
        records = records_of(changes, lines, self, first=self._number, reserved=self._reserved)
        net, update = net_of(lines), UpdateText()
        if net.is_one_update:
            update.add(net)
        self._replace(update, (), records)
        for each in chain([update], () if net.is_one_update else in_pieces(net)):
            self._carry_out(each)
        self._ahead.update((record, self._number + n) for n, record in enumerate(records))
        self._number += len(records)
        return records

    def take_back(self, records: Sequence[Quad] | None = None) -> None:
        """Undo what the newest records stand for, or all; the records go last, if not all in one update."""
        records = list(self._ahead) if records is None else records
        if records:
            net, update = undoing(records), UpdateText()
            if net.is_one_update:
                update.add(net)
            self._replace(update, records, ())
            for each in chain(() if net.is_one_update else in_pieces(net), [update]):
                self._carry_out(each)
        self._forget(records)

    def _forget(self, records: Iterable[Quad]) -> None:
        for record in records:
            del self._ahead[record]
        if not self.is_ahead:
            self._number = 0
            self.gate.open()

    def _replace(self, update: UpdateText, old: Iterable[Quad], new: Iterable[Quad]) -> None:
        """Quads of the reserved graph."""
        for texts, quads in ((update.deleted, old), (update.inserted, new)):
            triples = [str(quad.triple) for quad in quads]
            if triples:
                texts[str(self._reserved)] = triples

    def solutions(self, where: Where, functions: Mapping[NamedNode, Callable[..., Term]]) -> Iterator[Row]:
        """The solutions of an update's WHERE, with what was anticipated; UserError if it fails."""
        return solutions_of(self._store, where, reserved=self._reserved, functions=functions)

    def visible(self, settle: Settle) -> Visible:
        """What an entry's controls see: with what was anticipated, without what is reserved."""
        return Visible(self._store, self._reserved, settle)

    def query(
        self,
        text: str,
        *,
        accept: str = "*/*",
        base_iri: str | None = None,
        dataset: Dataset | None = None,
        triples: int | None = None,
    ) -> Answer:
        """Begin to answer a SPARQL query; updates are Forbidden, wrong syntax is SyntaxRefused.

        The answer is of this moment, however much later it is written out.  One of more than ``triples``
        is QueryStopped.
        """
        return run_query(
            self._store,
            text,
            reserved=self._reserved,
            gate=self.gate,
            accept=accept,
            base_iri=base_iri,
            dataset=dataset,
            commits=self._commits,
            triples=triples,
        )

    def contains(self, quad: Quad) -> bool:
        """Whether the quad is there."""
        return quad in self._store

    def has_graph(self, graph: NamedGraph) -> bool:
        """Whether the named graph exists, with quads or empty."""
        return self._store.contains_named_graph(graph)

    def quads_in(self, graph: NamedGraph | DefaultGraph) -> Iterator[Quad]:
        """The quads of a graph."""
        return self._store.quads_for_pattern(None, None, None, graph)

    def fitting(self, pattern: DeletePattern) -> Iterator[Quad]:
        """The quads that fit, but for those of the reserved graph."""
        quads = self._store.quads_for_pattern(
            pattern.subject, pattern.predicate, pattern.object, pattern.graph
        )
        return (quad for quad in quads if quad.graph_name != self._reserved)

    def graphs(self) -> Iterator[NamedGraph]:
        """All named graphs but the reserved one."""
        return (graph for graph in self._store.named_graphs() if graph != self._reserved)

    def lines(self) -> Iterator[str]:
        """The line of every quad and every empty graph, as the signature has them, as of this moment."""
        with self.gate.reading(), self._commits:
            quads = self._store.quads_for_pattern(None, None, None, None)
            empty = [graph for graph in self.graphs() if next(self.quads_in(graph), None) is None]
        return self._lines(quads, empty)

    def _lines(self, quads: Iterator[Quad], empty: list[NamedGraph]) -> Iterator[str]:
        for quad in quads:
            if quad.graph_name != self._reserved or quad.predicate not in _OWN:
                yield signature.quad_line(quad)
        yield from map(signature.empty_graph_line, empty)

    def dump(self) -> Generator[bytes]:
        """N-Quads in chunks, with comments that name the empty graphs, as of this moment; for one thread."""
        return _chunks(self.lines())

    def recount(self) -> tuple[int, int]:
        """Signature and number of quads, from what is stored."""
        total = quads = 0
        for number, line in enumerate(self.lines()):
            total += signature.digest(line)
            quads += not line.startswith("#")
            if number % _CHUNK == 0:
                time.sleep(0)
        return total % (1 << 256), quads

    def close(self) -> None:
        """Flush, and let go of the directory."""
        self._store.flush()
        del self._store


def _chunks(lines: Iterator[str]) -> Generator[bytes]:
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == _CHUNK:
            yield "\n".join((*chunk, "")).encode()
            chunk.clear()
    if chunk:
        yield "\n".join((*chunk, "")).encode()


def _change_of(quad: Quad) -> ControlChange:
    if not isinstance(quad.object, Literal):
        raise StateError(f"not a control: {quad}")
    control = Control.decode(quad.object.value)
    return ControlChange(name=control.name, control=control)


def _last_of(begun: Quad) -> int:
    """The entry with which what was begun is whole."""
    if not isinstance(begun.object, Literal):
        raise StateError(f"not the beginning of a change: {begun}")
    return int(begun.object.value)


def _applied_quad(reserved: NamedNode, applied: Applied) -> Quad:
    return Quad(reserved, _APPLIED, Literal(applied.encode()), reserved)
