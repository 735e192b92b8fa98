"""The evaluator: the part of the evaluating worker that decides each entry once.

It computes effect i against state i-1, publishes it, and continues at once: the next effect is computed against
effects that are published but not yet read back (`speculative.py`).  Reads never show these: the worker shows its own
effects, like those of others, when it reads them back (publish, then show).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from quadlog.core.approval import REASON, is_dropped
from quadlog.core.effects import control, signature
from quadlog.core.effects.effect import Change, effect_of, effect_of_load, effect_on_graphs
from quadlog.core.effects.lines import change_of, lines_of
from quadlog.core.effects.patch import MEDIA_TYPE, parse_patch
from quadlog.core.effects.template import filled_in
from quadlog.core.model import LogPosition, TransactionKind, effects_chain
from quadlog.core.records import Effect, Outcome
from quadlog.core.sparql.operations import DataOperation, DeleteData, InsertData, Load, Modify
from quadlog.core.sparql.text.volatile import settled
from quadlog.core.sparql.update import parse_update
from quadlog.core.sparql.using import Using
from quadlog.core.synchronous import DECISIONS, FATE, ROLLED_BACK, SUSPENDED
from quadlog.errors import StateError, UserError
from quadlog.ports import apart
from quadlog.worker.evaluate.answers import NOTHING
from quadlog.worker.evaluate.controls import Controls
from quadlog.worker.evaluate.limits import UNWATCHED, EvaluationObserver
from quadlog.worker.evaluate.loader import LoadFailed
from quadlog.worker.evaluate.speculative import LARGE, EvaluationSteps, SpeculativeEffect, SpeculativeState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyoxigraph import Quad

    from quadlog.core.records import Fence, LoggedEntry
    from quadlog.core.sparql.operations import Operation, Where
    from quadlog.ports import Together
    from quadlog.quadstore.quadstore import Applied, QuadStore
    from quadlog.worker.evaluate.controls import Verdict
    from quadlog.worker.evaluate.loader import Loaded, Loader, Wanted

AHEAD: Final = 2000
"""Effects that are published and not yet read back, at most: bounds the memory for them."""

TURN: Final = 64
"""Entries with a WHERE in one turn, at most: some 50 ms, then the worker reads, applies and answers again."""

GATE_S: Final = 0.02
"""Seconds to wait for reads that are about to start; then the worker does something else first."""

TOGETHER: Final = 64
"""Effects of updates with data only that are sent in one request, at most: some 10 ms of evaluating."""

QUICK: Final = 16 * 1024
"""Bytes of an update with data only that is evaluated within a millisecond or two."""

LONG_REASON: Final = 2_000
"""Characters of a reason, at most: it may quote an IRI of megabytes, and must fit into one record."""


class EffectSynchrony:
    """What an evaluator must know of synchronous transactions: see `quadlog.worker.replica.synchrony`.

    This class is for evaluations whose outcome another evaluator decides on: all entries are evaluated.
    """

    def outcome_of(self, entry: LoggedEntry) -> Outcome | None:
        """Return APPLIED for a synchronous transaction that must be evaluated; None if it is undecided."""
        del entry
        return Outcome.APPLIED

    def outcome_with(self, entry: LoggedEntry, change: Change) -> Outcome | None:
        """Return the same for an entry with this change; APPLIED if that does not make it synchronous."""
        del entry, change
        return Outcome.APPLIED

    def wait(self, entry: LoggedEntry) -> None:
        """Report that an entry is synchronous by its effect and undecided."""

    def note(self, entry: LoggedEntry) -> None:
        """Apply an evaluated entry if it concerns synchronous transactions."""


_WITHOUT_SYNCHRONY: Final = EffectSynchrony()


class Evaluator:
    """Evaluator of entries from a given state on, until another fence ends its duty."""

    def __init__(
        self,
        store: QuadStore,
        fence: Fence,
        say: Callable[[Effect, LoggedEntry], None],
        loader: Loader,
        watch: EvaluationObserver = UNWATCHED,
        *,
        together: Together = apart,
        foresee: Callable[[Verdict], None] | None = None,
        synchrony: EffectSynchrony = _WITHOUT_SYNCHRONY,
    ) -> None:
        """Start after what `store` has applied: all effects before `fence`.  `foresee`: see `Controls`."""
        self._synchrony = synchrony
        self._waits = b""
        """Chain hash of an entry that is synchronous by its effect, and was undecided."""
        self._together = together
        self._watch = watch
        applied: Applied = store.applied
        self._fence, self._say = fence, say
        self._store: Final = store
        self._ahead: Final = SpeculativeState(store)
        self._controls: Final = Controls(store, watch, foresee)
        self._loader: Final = loader
        self._loaded: Mapping[Wanted, Loaded] = {}
        """Documents and answers that the current entry needs from other servers."""
        self._parsed: tuple[bytes, Sequence[Operation] | str] = (b"", ())
        """Chain hash of the next entry, and its operations; a cut may replace the entry by another one."""
        self.point = applied.point
        """Index and chain hash of the last evaluated entry."""
        self._signature, self._quads = applied.signature, applied.quads
        self._chain = applied.effects_chain

    @property
    def index(self) -> int:
        """Index of the last evaluated entry."""
        return self.point.index

    def evaluate(self, entries: Iterable[LoggedEntry]) -> bool:
        """Publish the effects of the next entries; skip those that are evaluated already.

        Returns True if there is more to do soon, even if no record arrives.
        """
        more = self._evaluate_all(entries)
        if not more and not self._store.gate.is_open and not self._store.is_ahead:
            self._store.gate.open()  # requested, or closed, in vain
        return more

    def _evaluate_all(self, entries: Iterable[LoggedEntry]) -> bool:
        with self._together() as let_go:
            return self._evaluate_each(entries, let_go)

    def _evaluate_each(self, entries: Iterable[LoggedEntry], let_go: Callable[[], None]) -> bool:
        left, held = TURN, 0
        for entry in entries:
            if entry.index <= self.index:
                continue
            if self.is_full:
                return False
            if FATE in entry.options:
                self.set_aside(entry, Outcome(entry.options[FATE]))
                continue
            operations = self._operations(entry)
            controlled = self._controls.concern(entry, operations)
            held = held + 1 if not controlled and _is_quick(entry, operations) else TOGETHER
            if held >= TOGETHER:
                let_go()  # no update must wait long for another one
                held = 0
            if self._must_wait(entry) or not self._load_all(entry, operations):
                return False  # a record with a decision follows, or the loader calls back when it is done
            if controlled or _has_where(operations):
                ahead = self._goes_ahead(operations, controlled=controlled)
                if not left or (ahead and not self._store.gate.close(GATE_S)):
                    return True
                left -= 1
            if not self._evaluate(entry, operations):
                return False
            self._parsed, operations = (b"", ()), ()
            self._loaded = {}
            self._loader.forget()
        return False

    @property
    def is_full(self) -> bool:
        """True if more effects must be read back before more entries are decided."""
        return len(self._ahead) >= AHEAD or self._ahead.weight > LARGE

    def _must_wait(self, entry: LoggedEntry) -> bool:
        """Return True, and report it, if an entry was found to be synchronous by its effect, and is still undecided."""
        if entry.chain != self._waits or self._synchrony.outcome_of(entry) is not None:
            return False
        self._synchrony.wait(entry)
        return True

    def _load_all(self, entry: LoggedEntry, operations: Sequence[Operation] | str) -> bool:
        """Begin to load what an entry needs; return True if all of it is here."""
        wanted = [one for operation in operations for one in _wanted_by(operation)]
        if not wanted:
            return True
        loaded = self._loader.loaded(entry.id, wanted)
        self._loaded = loaded or {}
        return loaded is not None

    def _goes_ahead(self, operations: Sequence[Operation] | str, *, controlled: bool) -> bool:
        """Return True if a WHERE, or a control after it, needs changes in the store that are not shown to reads."""
        return self._ahead.in_memory or _has_where(operations[1:]) or (controlled and bool(operations))

    def _operations(self, entry: LoggedEntry) -> Sequence[Operation] | str:
        """Return the operations of an entry, or why it has none: an invalid entry is rejected."""
        if self._parsed[0] != entry.chain:
            self._parsed = entry.chain, _operations_of(entry)
        return self._parsed[1]

    def _evaluate(self, entry: LoggedEntry, operations: Sequence[Operation] | str) -> bool:
        """Publish the effect of the next entry; return False if that shows that it must wait for a decision."""
        self._watch.begin(entry.index)
        steps, reason = self._decide(entry, operations)
        self._watch.end()
        change, rest = steps.net()
        outcome = self._synchrony.outcome_with(entry, change)
        if outcome is Outcome.APPLIED:
            self._conclude(entry, change, rest, reason, steps.records)
            return True
        steps.take_back()
        if outcome is None:
            self._waits = entry.chain
            return False
        self.set_aside(entry, outcome)
        return True

    def outcome_with(self, effect: Effect, entry: LoggedEntry) -> Outcome | None:
        """Return what becomes of the next entry with the effect that a trial computed; None if it is undecided."""
        return self._synchrony.outcome_with(entry, change_of(effect))

    def adopt(self, effect: Effect, entry: LoggedEntry) -> None:
        """Publish the effect of the next entry that a trial computed.

        Raises:
            StateError: it was computed against another state.

        """
        change = change_of(effect)
        self._conclude(entry, change, change, effect.reason, [], outcome=effect.outcome)
        if (self.index, self._chain, self._quads) != (effect.index, effect.chain, effect.quads):
            message = f"the trial of entry {entry.index} began from another state than this worker is in"
            raise StateError(message)

    def reject(self, entry: LoggedEntry, reason: str) -> None:
        """Publish that the next entry is rejected, and why."""
        self._conclude(entry, Change(), Change(), reason, [])

    def set_aside(self, entry: LoggedEntry, outcome: Outcome) -> None:
        """Publish that the next entry, a synchronous transaction, is rolled back or suspended."""
        reason = ROLLED_BACK if outcome is Outcome.ROLLED_BACK else SUSPENDED
        self._conclude(entry, Change(), Change(), reason, [], outcome=outcome)

    def _conclude(
        self,
        entry: LoggedEntry,
        change: Change,
        rest: Change,
        reason: str | None,
        records: list[Quad],
        *,
        outcome: Outcome | None = None,
    ) -> None:
        before, lines = self._signature, lines_of(change)
        after = signature.after(before, lines)
        outcome = outcome or (Outcome.APPLIED if reason is None else Outcome.REJECTED)
        self.point, self._signature = LogPosition(entry.index, entry.chain), after
        self._quads += change.growth
        if reason is None and control.concerns(entry):
            self._controls.decided(entry)
        self._synchrony.note(entry)
        self._chain = effects_chain(self._chain, entry.chain, outcome, after.to_bytes(32, "big"))
        decided = SpeculativeEffect(
            change=change,
            chain=self._chain,
            rest=rest,
            lines=lines if rest is change else lines_of(rest),
            records=records,
        )
        self._ahead.decide(entry.index, decided)
        effect = Effect(
            index=entry.index,
            id=entry.id,
            entry_chain=entry.chain,
            term=self._fence.term,
            attempt=self._fence.attempt,
            outcome=outcome,
            reason=reason,
            quads=self._quads,
            signature_before=before.to_bytes(32, "big"),
            signature_after=after.to_bytes(32, "big"),
            chain=self._chain,
            deleted=lines.deleted,
            inserted=lines.inserted,
            emptied=lines.emptied,
            filled=lines.filled,
            dropped=lines.dropped,
        )
        self._say(effect, entry)

    def _decide(
        self, entry: LoggedEntry, operations: Sequence[Operation] | str
    ) -> tuple[EvaluationSteps, str | None]:
        """Return the steps of an entry; or no steps, and the reason of the rejection."""
        steps = EvaluationSteps(self._ahead)
        if isinstance(operations, str):
            return steps, operations[:LONG_REASON]
        try:
            for is_data, run in groupby(operations, _is_data):
                if is_data:
                    steps.add(effect_of(_data(run), steps.state))
                    continue
                for operation in run:
                    self._step(entry, operation, steps)
            reason = self._broken(entry, operations, steps)
        except UserError as error:
            reason = str(error)[:LONG_REASON]
        if reason is None:
            return steps, None
        steps.take_back()
        return EvaluationSteps(self._ahead), reason

    def _broken(
        self, entry: LoggedEntry, operations: Sequence[Operation], steps: EvaluationSteps
    ) -> str | None:
        """Return which control does not hold after these steps, and why; None if all hold.

        The steps are brought into the store before controls are evaluated.
        """
        if not self._controls.concern(entry, operations):
            return None  # the usual case: there are no controls
        if entry.kind is TransactionKind.CONFIG:
            steps.anticipate()
            return self._controls.broken_with(entry)
        if steps.net()[0] == Change() and not self._controls.concern_unchanged():
            return None
        steps.anticipate()
        return self._controls.broken_by(entry)

    def _step(self, entry: LoggedEntry, operation: Operation, steps: EvaluationSteps) -> None:
        """Evaluate one operation that is not a `DataOperation`."""
        if isinstance(operation, Load):
            self._load(operation, steps)
            return
        if not isinstance(operation, Modify):
            assert not isinstance(operation, DataOperation), "data are taken in runs"
            steps.add(effect_on_graphs(operation, steps.state))
            return
        steps.anticipate()
        seed = entry.id + operation.number.to_bytes(4, "big")
        where = self._answered(operation.where)
        text, functions = settled(where.text, seed=seed, created=entry.created)
        where = where if text is where.text else replace(where, text=text)
        solutions = self._store.solutions(where, functions)
        steps.add(effect_of(filled_in(operation, solutions, entry.id), steps.state))

    def _answered(self, where: Where) -> Where:
        """Return a WHERE with the answers of its SERVICE endpoints in their places."""
        if not where.services:
            return where
        answers: list[str] = []
        for service in where.services:
            answer = self._loaded[service]
            if isinstance(answer, LoadFailed):
                if not service.silent:
                    raise UserError(f"SERVICE {service.endpoint}: {answer.why}")
                answer = NOTHING
            assert isinstance(answer, str), "an endpoint's answer is text"
            answers.append(answer)
        return where.answered(answers)

    def _load(self, load: Load, steps: EvaluationSteps) -> None:
        loaded = self._loaded[load]
        if isinstance(loaded, tuple):
            steps.add(effect_of_load(load.graph, loaded, steps.state))
        elif not load.silent:
            assert isinstance(loaded, LoadFailed), "a document's quads, or why there are none"
            raise UserError(f"LOAD {load.source}: {loaded.why}")

    def decided(self, effect: Effect) -> SpeculativeEffect | None:
        """Return the decision on an effect that was read back; None if the effect is not this evaluator's own."""
        mine = (effect.term, effect.attempt) == (self._fence.term, self._fence.attempt)
        return self._ahead.decided(effect.index, effect.chain) if mine else None

    def applied(self, index: int) -> None:
        """Note that the store shows the effect of this index now."""
        self._ahead.applied(index)

    def retire(self) -> None:
        """Remove decided effects from the store: they are void, or will be read back like those of other workers."""
        self._store.take_back()


def _is_quick(entry: LoggedEntry, operations: Sequence[Operation] | str) -> bool:
    """Return True if the evaluation of an entry is too short to delay other entries."""
    return isinstance(operations, str) or (
        len(entry.body) <= QUICK and all(isinstance(o, InsertData | DeleteData) for o in operations)
    )


def _wanted_by(operation: Operation | str) -> Sequence[Wanted]:
    """Return what an operation needs from other servers."""
    if isinstance(operation, Load):
        return (operation,)
    return operation.where.services if isinstance(operation, Modify) else ()


def _has_where(operations: Sequence[Operation] | str) -> bool:
    return not isinstance(operations, str) and any(isinstance(o, Modify) for o in operations)


def _operations_of(entry: LoggedEntry) -> Sequence[Operation] | str:
    if entry.kind is TransactionKind.EVALUATOR or entry.kind in DECISIONS:
        return ()
    if is_dropped(entry.digest) or entry.kind not in {TransactionKind.TX, TransactionKind.CONFIG}:
        return REASON if is_dropped(entry.digest) else f"{entry.kind} entries are not known to this version"
    try:
        if entry.kind is TransactionKind.CONFIG:
            if control.concerns(entry):
                control.change_of(entry)
            return ()  # peers, settings and approvals are for masters, and a control changes no quads
        if entry.media_type == MEDIA_TYPE:
            return tuple(parse_patch(entry.body, tx_id=entry.id))
        return parse_update(entry.body.decode(), tx_id=entry.id, using=Using.of(entry.options))
    except (UserError, UnicodeDecodeError) as error:
        return str(error)


def _is_data(operation: Operation) -> bool:
    return isinstance(operation, DataOperation)


def _data(run: Iterable[Operation]) -> list[DataOperation]:
    return [operation for operation in run if isinstance(operation, DataOperation)]
