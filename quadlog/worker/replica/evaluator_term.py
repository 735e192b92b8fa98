"""Term of an evaluator: the time during which a worker evaluates, from the request to the end.

On a master's request the worker writes a fence.  When the worker reads it back, its term begins, after all
records before the fence.  Another fence, a handover, a cut, a rewind, or an own effect that it does not know
ends the term.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.core.records import Fence, Outcome, Undecided
from quadlog.core.synchronous import FATE
from quadlog.errors import Unavailable
from quadlog.failpoints import Failpoint, visit
from quadlog.worker.evaluate.evaluator import Evaluator
from quadlog.worker.evaluate.limits import EvaluationLimits, LimitWatch
from quadlog.worker.evaluate.loader import Loader, LoadLimits
from quadlog.worker.evaluate.suspects import Suspects
from quadlog.worker.reexec import begin_anew
from quadlog.worker.replica.synchrony import Synchrony

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyoxigraph import Quad

    from quadlog.core.effects.lines import Lines
    from quadlog.core.records import Effect, Handover, LoggedEntry
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.worker.replica.backlog import CountedRecords
    from quadlog.worker.replica.host import Host, Publishers

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """A master's request to evaluate."""

    term: bytes
    handover: int = 0
    """Index of the entry whose handover gives the term; 0: the view gives it."""
    epoch: int = 1
    """Epoch of the view to which the term belongs.  The first view gives its term without a handover."""
    decides_to: int = 1
    """Epoch of the last view up to that one that held a majority: only decisions of views up to it count."""
    suspends: bool = False
    """True if that view holds no majority: synchronous transactions without such a decision are set aside."""
    sync_graphs: tuple[str, ...] = ()
    """The setting `sync-graphs`, as it counts for entries that are not evaluated."""

    @property
    def order(self) -> tuple[int, int]:
        """Order of the handover after which the worker must evaluate."""
        return self.epoch, self.handover


@dataclass(frozen=True, slots=True)
class EpochFloor:
    """A master's report that the home was moved away from here: see `EffectsConsumer.floor`."""

    epoch: int
    index: int


class EvaluatorTerm:
    """A worker's duty to evaluate, and its evaluator.  Used only by the replica's thread."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        store: QuadStore,
        counted_records: CountedRecords,
        publishers: Publishers,
        host: Host,
        fetched: Callable[[], None],
    ) -> None:
        """Start without a duty.

        `fetched` is called, on any thread, when all that an entry needs from other servers was fetched.
        """
        self._settings, self._store = settings, store
        self._counted_records, self._heard, self._backlog = (
            counted_records,
            counted_records.effects,
            counted_records.backlog,
        )
        self._publishers, self._host = publishers, host
        self.evaluator: Evaluator | None = None
        self.suspects: Suspects | None = None
        self._asked: EvaluateRequest | None = None
        """Request for a term whose handover was not received yet."""
        self._fence: Fence | None = None
        """This worker's own fence, once it is written."""
        self._epoch = 1
        """Epoch of the view in which the fence was written."""
        self._synchrony = Synchrony(
            self._backlog, (), decides_to=0, suspends=False, report=self._publish_undecided
        )
        """What concerns synchronous transactions in that term."""
        self._confirmed_fence: Fence | None = None
        """The same fence, once it was read back as the newest one."""
        self._agreed_end: int | None = None
        """Offset after all that was agreed by then, once it is known."""
        self._limits: Final = EvaluationLimits.of(settings)
        self._watch: Final = LimitWatch(self._limits, begin_anew)
        self._load_limits: Final = LoadLimits.of(settings)
        self._loader: Final = Loader(self._load_limits, fetched)

    @property
    def has_duty(self) -> bool:
        """True if this worker has the duty to evaluate, even if it has not begun to evaluate."""
        return self._confirmed_fence is not None

    def start(self) -> None:
        """Start to watch the limits of evaluations."""
        self._watch.start()

    def stop_watching(self) -> None:
        """Stop watching: the process ends, and the current evaluation may exceed its limits."""
        self._watch.close()

    def close(self) -> None:
        """End the process of a trial, if there is one."""
        if self.suspects is not None:
            self.suspects.close()

    def take_over(self, asked: EvaluateRequest) -> None:
        """Write a fence; the duty begins when it is read back, after all records before it.

        The handover must have been received before: records before the handover count, and a fence would make
        them void.
        """
        if asked.order > self._heard.order:
            self._asked = asked
        if (
            asked.order != self._heard.order
            or self.evaluator is not None
            or self._confirmed_fence is not None
        ):
            return
        publish_health = self._publishers.publish_health
        if publish_health is not None and not publish_health.clear(now().steady):
            return
        self._epoch = asked.epoch
        self._synchrony = Synchrony(
            self._backlog,
            asked.sync_graphs,
            decides_to=asked.decides_to,
            suspends=asked.suspends,
            report=self._publish_undecided,
        )
        self._fence = Fence(term=asked.term, attempt=self._heard.highest + 1, worker=self._settings.node_id)
        self._publishers.effects.publish_fence(self._fence, at=now().wall, epoch=self._epoch)

    def on_handover(self, handover: Handover) -> None:
        """Process a handover: from here on another data centre evaluates, or this one in a new term."""
        log.info("handover_read", dc=handover.dc, index=handover.index, epoch=handover.epoch)
        self.retire()
        asked = self._asked
        if asked is not None and asked.order <= handover.order:
            self._asked = None
            if asked.term == handover.term:
                self.take_over(asked)

    def fall_silent(self) -> None:
        """End the duty if published effects were not accepted and were given up: none is assumed to count.

        Those that reach the topic all the same count like those of any evaluator, as long as no other worker
        has the duty.
        """
        if self._publishers.publish_health is not None and self._publishers.publish_health.take_loss():
            self.retire()
            self._fence = self._asked = None

    def meet(self, fence: Fence) -> None:
        """Process the newest fence: its worker evaluates, and any worker that did so before stops."""
        self.retire()
        self._confirmed_fence = fence if fence == self._fence else None
        self._agreed_end = None
        log.info(
            "fence_read", attempt=fence.attempt, worker=fence.worker, mine=self._confirmed_fence is not None
        )

    def meet_cut(self, epoch: int) -> None:
        """Process a cut: what was decided, is on trial or loaded may be of the branch.

        Entries after the fork are of the view `epoch`.  A duty of an earlier view ends; a duty of this view
        that waits for the cut begins with these entries.
        """
        self._loader.forget()
        if self.evaluator is not None or self._epoch < epoch:
            self.retire()

    def evaluate(self) -> bool:
        """Evaluate agreed entries while on duty; return True if there is more to do soon even if no record arrives."""
        if self._confirmed_fence is not None and self.evaluator is None and self._may_begin():
            self._begin(self._confirmed_fence)
        if self.evaluator is None or self.suspects is None:
            return False
        evaluator = self.evaluator
        return self.suspects.turn(evaluator, self._due_to(evaluator)) or evaluator.evaluate(
            self._due_to(evaluator)
        )

    def _due_to(self, evaluator: Evaluator) -> Iterator[LoggedEntry]:
        """Return the agreed entries after the evaluated ones, of views up to that of the duty.

        A data centre that copies these effects may be in another view by now: before effects of entries agreed
        in a later view, it must receive the data centre that has the duty in that view.

        They end before the first synchronous transaction that is not decided: nothing behind it is evaluated.  One
        that must not be evaluated is marked with its outcome.
        """
        for entry in takewhile(
            lambda entry: entry.epoch <= self._epoch, self._backlog.behind(evaluator.point)
        ):
            if not entry.is_synchronous:
                yield entry
                continue
            outcome = self._synchrony.outcome_of(entry)
            if outcome is None:
                return
            is_evaluated = outcome is Outcome.APPLIED
            yield entry if is_evaluated else replace(entry, options={**entry.options, FATE: outcome.value})

    def applied(self, effects: Sequence[Effect]) -> None:
        """Notify the evaluator of effects that the store has applied, decided here or elsewhere."""
        if self.evaluator is not None:
            for effect in effects:
                self.evaluator.applied(effect.index)

    def _may_begin(self) -> bool:
        """Return True if all effects before the fence are applied, and all entries agreed by then are received.

        These entries are suspects.  A full backlog is enough: the worker before had not received more either.
        """
        if self._backlog.has_effects or not self._counted_records.is_cut:
            return False
        if self._agreed_end is None:
            try:
                self._agreed_end = self._host.agreed_end()
            except Unavailable as error:
                log.warning("evaluation_delayed", reason=str(error))
                return False
        return self._counted_records.agreed_offset >= self._agreed_end or self._backlog.is_full

    def _begin(self, duty: Fence) -> None:
        """Start the evaluator; entries in the log that have no effect may be what ended the worker before."""
        self.evaluator = Evaluator(
            self._store,
            duty,
            self._publish,
            self._loader,
            self._watch,
            together=self._publishers.together,
            synchrony=self._synchrony,
        )
        waiting = [entry.index for entry in self._due_to(self.evaluator)]
        self.suspects = Suspects(
            self._store,
            duty,
            until=max(waiting, default=0),
            limits=self._limits,
            load_limits=self._load_limits,
            directory=self._settings.data_dir / "trial",
        )

    def retire(self) -> None:
        """End the duty: effects that were decided and not read back are removed from the store."""
        if self.suspects is not None:
            self.suspects.close()
            self.suspects = None
        if self.evaluator is not None:
            self.evaluator.retire()
            self.evaluator = None
        self._confirmed_fence = None  # also if effects before the fence prevented its beginning

    def _publish(self, effect: Effect, entry: LoggedEntry) -> None:
        visit(Failpoint.AFTER_EVALUATE)
        self._publishers.effects.publish(
            effect,
            at=now().wall,
            epoch=self._epoch,
            traceparent=entry.traceparent,
            by_effect=self._synchrony.by_effect == entry.chain,
        )
        visit(Failpoint.AFTER_PUBLISH, self._publishers.settle)

    def _publish_undecided(self, entry: LoggedEntry) -> None:
        fence = self._confirmed_fence
        if fence is not None:
            undecided = Undecided(
                index=entry.index,
                id=entry.id,
                entry_chain=entry.chain,
                term=fence.term,
                attempt=fence.attempt,
            )
            self._publishers.effects.publish_undecided(undecided, at=now().wall, epoch=self._epoch)

    def due(self, effects: Sequence[Effect]) -> tuple[Sequence[Lines], list[Quad]]:
        """Return the changes to apply, and records of the changes that the store already has.

        Effects of other workers are applied whole, own effects as far as the store lacks them.
        """
        if self.evaluator is not None:
            own = [self.evaluator.decided(effect) for effect in effects]
            decided = [one for one in own if one is not None]
            if len(decided) == len(effects):
                lines = [one.due(effect) for effect, one in zip(effects, decided, strict=True)]
                return lines, [record for one in decided for record in one.records]
            log.error("own_effect_unrecognized", first=effects[0].index)
            self.retire()
        return effects, []
