"""Rollback: a store undoes what it applied of a branch, by exact inverses of its effects.

The worker's own topics hold what it applied.  They are read backwards, from the offsets up to which the store
was fed.  Only the records that lead to the applied state are used: effects are matched by the chain of effects,
entries by the chain of the log.  The inverses are applied in batches, newest first, each in one commit together
with the earlier state that results.  A worker that dies meanwhile reads the rewind again, and continues from
there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import TYPE_CHECKING, NamedTuple

import structlog

from quadlog import codec
from quadlog.core.effects import signature
from quadlog.core.effects.control import ControlChange, changes_of
from quadlog.core.effects.effect import named_graphs
from quadlog.core.effects.lines import ChangeLines, inverse, quads_of
from quadlog.core.model import GENESIS, LogPosition, effects_chain
from quadlog.core.records import Effect, LoggedEntry
from quadlog.errors import StateError, Unavailable
from quadlog.quadstore.commit import net_of
from quadlog.worker.replica.backlog import BATCH, BATCH_LINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quadlog.core.effects.effect import NamedGraph
    from quadlog.core.records import Rewind
    from quadlog.ports import Backwards, Record
    from quadlog.quadstore.applied import Applied, InAgreed
    from quadlog.quadstore.commit import NetChange
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.topics import Topics

log = structlog.get_logger()


class AppliedStep(NamedTuple):
    """An entry, its effect, and the state before it."""

    entry: LoggedEntry
    effect: Effect
    before: Applied


class AppliedHistory:
    """History that led to a state, newest first, read from the worker's own topics."""

    def __init__(self, topics: Topics, backwards: Backwards) -> None:
        self._topics, self._backwards = topics, backwards

    def _read(self, topic: str, end: int) -> Iterator[Record]:
        """Yield records, newest first, however long no broker answers: the store must not stay half undone."""
        while True:
            try:
                for record in self._backwards(topic, end):
                    end = record.offset
                    yield record
            except Unavailable as error:
                log.warning("rewind_waits", topic=topic, reason=str(error))
            else:
                return

    def entries(self, place: InAgreed) -> Iterator[LoggedEntry]:
        """Yield the entries that lead to a place in the agreed topic, newest first, down to the first entry of the log.

        Raises:
            StateError: the topic no longer holds them.

        """
        wanted, chunks = place.last, codec.ChunkJoiner()
        if not wanted.index:
            return
        for record in self._read(self._topics.agreed, place.offset):
            if record.key != b"%d" % wanted.index:
                continue
            said = chunks.join(record.value)
            if isinstance(said, LoggedEntry) and said.chain == wanted.chain:
                yield said
                wanted = LogPosition(said.index - 1, said.previous)
                if not wanted.index:
                    return
        raise StateError(
            f"{self._topics.agreed} does not hold entry {wanted.index}, or not before its successor"
        )

    def effects(self, applied: Applied) -> Iterator[tuple[Effect, bytes]]:
        """Yield the effects that lead to a state, newest first, down to the first; raises as `entries`.

        Each comes with the chain before it.
        """
        newer: Effect | None = None
        wanted, chunks = applied.index, codec.ChunkJoiner()
        if not wanted:
            return
        for record in self._read(self._topics.effects, applied.effects_offset):
            if record.key != b"%d" % wanted:
                continue
            effect = chunks.join(record.value)
            if not isinstance(effect, Effect):
                continue
            if newer is None:
                if effect.chain != applied.effects_chain:
                    continue
            elif _follows(newer, effect.chain) and effect.signature_after == newer.signature_before:
                yield newer, effect.chain
            else:
                continue
            newer, wanted = effect, wanted - 1
            if not wanted and _follows(newer, GENESIS):
                yield newer, GENESIS
                return
        raise StateError(f"{self._topics.effects} does not hold effect {wanted}, or not before its successor")

    def steps(self, applied: Applied) -> Iterator[AppliedStep]:
        """Yield the steps that lead to a state, newest first, down to the first entry of the log.

        Raises:
            StateError: the topics no longer hold them, or contradict each other.

        """
        entries = dropwhile(lambda entry: entry.index > applied.index, self.entries(applied.in_agreed))
        state = applied
        for entry, (effect, chain) in zip(entries, self.effects(applied), strict=False):
            if (entry.chain, effect.entry_chain) != (state.chain, state.chain):
                raise StateError(f"what the topics hold of entry {entry.index} is not what was applied here")
            state = _before(state, entry, effect, chain)
            yield AppliedStep(entry, effect, state)

    def control(self, name: str, applied: Applied) -> ControlChange:
        """Return the control of this name in a state, as set or deleted by the newest entry that concerns it."""
        for entry, effect, _ in self.steps(applied):
            for change in changes_of([(entry, effect)]):
                if change.name == name:
                    return change
        return ControlChange(name=name, control=None)


def _follows(effect: Effect, chain: bytes) -> bool:
    """Return True if `chain` is the effects' chain before this effect."""
    return effects_chain(chain, effect.entry_chain, effect.outcome, effect.signature_after) == effect.chain


def _before(state: Applied, entry: LoggedEntry, effect: Effect, chain: bytes) -> Applied:
    """Return the state before an effect that led to `state`.  The offsets stay: the topics are read on from there."""
    before = signature.after(state.signature, inverse(effect))
    if before.to_bytes(32, "big") != effect.signature_before:
        raise StateError(f"effect {effect.index} does not lead to the signature that it says")
    return replace(
        state,
        index=entry.index - 1,
        chain=entry.previous,
        effects_chain=chain,
        signature=before,
        quads=effect.quads - len(effect.inserted) + len(effect.deleted),
        heard=state.in_agreed.last,
    )


@dataclass(slots=True)
class _RollbackBatch:
    """Effects that are undone in one commit, newest first."""

    store: QuadStore
    effects: list[Effect] = field(default_factory=list[Effect])
    controls: list[ControlChange] = field(default_factory=list[ControlChange])
    lines: int = 0

    def add(self, effect: Effect) -> None:
        """Add the next older effect."""
        self.effects.append(effect)
        self.lines += len(effect.deleted) + len(effect.inserted)

    @property
    def is_full(self) -> bool:
        return self.lines >= BATCH_LINES or len(self.effects) >= BATCH

    def commit(self, applied: Applied) -> None:
        """Undo the effects, and store `applied` with them."""
        changes = list(map(inverse, self.effects))
        made = self._graphs_made(net_of(changes))
        self.store.apply([*changes, ChangeLines(dropped=made)], applied, controls=self.controls)
        self.effects, self.controls, self.lines = [], [], 0

    def _graphs_made(self, net: NetChange) -> tuple[str, ...]:
        """Return the graphs that their first quads created and that did not exist before: no effect records this.

        A graph that existed and was empty is recorded as filled.  A graph that had quads keeps some of them, or
        they are inserted again and re-create it.
        """
        touched = named_graphs(quads_of(line for effect in self.effects for line in effect.inserted))
        made = (graph for graph in touched if not net.graphs.get(str(graph)))
        return tuple(sorted(str(graph) for graph in made if not self._keeps_any(graph, net)))

    def _keeps_any(self, graph: NamedGraph, net: NetChange) -> bool:
        return any(net.quads.get(signature.quad_line(quad), True) for quad in self.store.quads_in(graph))


def undo_half(store: QuadStore, half: Sequence[Effect]) -> None:
    """Undo effects that are not applied, but of which parts may be in the store; they are given oldest first."""
    batch = _RollbackBatch(store)
    for effect in reversed(half):
        batch.add(effect)
    batch.commit(store.applied)


def go_back(
    store: QuadStore, past: AppliedHistory, rewind: Rewind, *, behind: int, half: Sequence[Effect]
) -> None:
    """Undo the effects after the one that a rewind names; nothing in the store may be anticipated.

    `behind` is the offset in the effects topic after the rewind.  Of the effects `half`, which are not applied,
    parts may be in the store, oldest first.

    Raises:
        StateError: the topics do not hold all effects that must be undone.

    """
    applied, batch = store.applied, _RollbackBatch(store)
    if applied.index <= rewind.index:
        undo_half(store, half)
        return
    for effect in reversed(half):
        batch.add(effect)
    for entry, effect, before in past.steps(applied):
        batch.add(effect)
        batch.controls += [past.control(change.name, before) for change in changes_of([(entry, effect)])]
        if before.index == rewind.index:
            batch.commit(
                replace(
                    before,
                    effects_offset=behind,
                    term=rewind.term,
                    attempt=rewind.attempt,
                    handover=0,
                    handover_epoch=0,
                    rewound=rewind.epoch,
                    cut=rewind.cut,
                )
            )
            return
        if batch.is_full:
            batch.commit(before)
    raise AssertionError("the steps lead down to the first entry, or say that they are not there")
