"""Tenure: a worker's time as the one that evaluates, from the request to the end.

Asked by a master, it writes a fence; read back, the fence begins its tenure, behind all that stands before it.
Another fence, a handover, a cut, or an effect of its own that it does not know ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.core.records import Fence
from quadlog.errors import Unavailable
from quadlog.failpoints import Failpoint, visit
from quadlog.worker.anew import begin_anew
from quadlog.worker.evaluate.evaluator import Evaluator
from quadlog.worker.evaluate.limits import Limits, Watch
from quadlog.worker.evaluate.loader import Loader, LoadLimits
from quadlog.worker.evaluate.suspects import Suspects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyoxigraph import Quad

    from quadlog.core.effects.lines import Lines
    from quadlog.core.records import Effect, Handover, LoggedEntry
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.worker.replica.backlog import Hearing
    from quadlog.worker.replica.host import Host, Mouths

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Asked:
    """A master asks this worker to evaluate."""

    term: bytes
    handover: int = 0
    """Index of the entry whose handover gives the term; 0: a view gives it."""
    epoch: int = 1
    """Of the view that the term is of.  The first view gives its term without a handover."""

    @property
    def order(self) -> tuple[int, int]:
        """Of the handover behind which the worker is to evaluate."""
        return self.epoch, self.handover


@dataclass(frozen=True, slots=True)
class Floored:
    """A master says that the home was moved away from here: see `EffectsConsumer.floor`."""

    epoch: int
    index: int


class Tenure:
    """Owned by the replica's thread."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        store: QuadStore,
        hearing: Hearing,
        mouths: Mouths,
        host: Host,
        fetched: Callable[[], None],
    ) -> None:
        """Begin without a duty.

        Args:
            settings: of this worker.
            store: its quads.
            hearing: which effects, fences and handovers count, and what is agreed and not applied.
            mouths: where it says what it evaluated.
            host: knows how much is agreed.
            fetched: called, on any thread, when something that is to be loaded is there.

        """
        self._settings, self._store = settings, store
        self._hearing, self._heard, self._backlog = hearing, hearing.effects, hearing.backlog
        self._mouths, self._host = mouths, host
        self.evaluator: Evaluator | None = None
        self.suspects: Suspects | None = None
        self._asked: Asked | None = None
        """Asked for a term whose handover is not heard yet."""
        self._fence: Fence | None = None
        """This worker's own fence, from when it is written."""
        self._epoch = 1
        """Of the view that it was written in."""
        self._duty: Fence | None = None
        """It again, once it is read back as the newest."""
        self._agreed_end: int | None = None
        """Offset behind all that was agreed by then, once it is known."""
        self._limits: Final = Limits.of(settings)
        self._watch: Final = Watch(self._limits, begin_anew)
        self._load_limits: Final = LoadLimits.of(settings)
        self._loader: Final = Loader(self._load_limits, fetched)

    @property
    def has_duty(self) -> bool:
        """Whether this worker is the one that evaluates, if only from the next entry on."""
        return self._duty is not None

    def start(self) -> None:
        """Begin to watch over evaluations."""
        self._watch.start()

    def stop_watching(self) -> None:
        """Whatever is evaluated now may take its time: the process ends."""
        self._watch.close()

    def close(self) -> None:
        """Leave no process behind."""
        if self.suspects is not None:
            self.suspects.close()

    def take_over(self, asked: Asked) -> None:
        """Write a fence; the duty begins where it is read back, behind all that stands before it.

        Not before the handover is heard: what stands before that counts, and a fence would make it void.
        """
        if asked.order > self._heard.order:
            self._asked = asked
        if asked.order != self._heard.order or self.evaluator is not None or self._duty is not None:
            return
        voice = self._mouths.voice
        if voice is not None and not voice.clear(now().steady):
            return
        self._epoch = asked.epoch
        self._fence = Fence(term=asked.term, attempt=self._heard.highest + 1, worker=self._settings.node_id)
        self._mouths.effects.fence(self._fence, at=now().wall, epoch=self._epoch)

    def hand_over(self, handover: Handover) -> None:
        """From here on another data centre evaluates, or this one in a new term."""
        log.info("handover_read", dc=handover.dc, index=handover.index, epoch=handover.epoch)
        self.retire()
        asked = self._asked
        if asked is not None and asked.order <= handover.order:
            self._asked = None
            if asked.term == handover.term:
                self.take_over(asked)

    def fall_silent(self) -> None:
        """What was said is not taken, and was let go of: nothing of it counts, and nothing more is evaluated.

        What of it comes to the topic all the same counts as anybody's, as long as nobody else has the duty.
        """
        if self._mouths.voice is not None and self._mouths.voice.is_lost():
            self.retire()
            self._fence = self._asked = None

    def meet(self, fence: Fence) -> None:
        """The newest fence says who evaluates; whoever did so before stops."""
        self.retire()
        self._duty = fence if fence == self._fence else None
        self._agreed_end = None
        log.info("fence_read", attempt=fence.attempt, worker=fence.worker, mine=self._duty is not None)

    def meet_cut(self, epoch: int) -> None:
        """What was decided, is on trial or loaded may be of the branch; what follows the fork is of that epoch.

        A duty in an earlier view is over.  One in this view, that waits for the cut, begins with what follows.
        """
        self._loader.forget()
        if self.evaluator is not None or self._epoch < epoch:
            self.retire()

    def evaluate(self) -> bool:
        """Evaluate what is agreed, if that is the duty; whether there is more to do soon, whatever is heard."""
        if self._duty is not None and self.evaluator is None and self._may_begin():
            self._begin(self._duty)
        if self.evaluator is None or self.suspects is None:
            return False
        evaluator = self.evaluator
        return self.suspects.turn(evaluator, self._due_to(evaluator)) or evaluator.evaluate(
            self._due_to(evaluator)
        )

    def _due_to(self, evaluator: Evaluator) -> Iterator[LoggedEntry]:
        """What is agreed behind what was evaluated, in views up to that of the duty.

        Who copies these effects may be in another view by now: of what is agreed in a later one it must hear first
        who has the duty there.
        """
        return takewhile(lambda entry: entry.epoch <= self._epoch, self._backlog.behind(evaluator.point))

    def applied(self, effects: Sequence[Effect]) -> None:
        """They are in the store now, decided here or elsewhere."""
        if self.evaluator is not None:
            for effect in effects:
                self.evaluator.applied(effect.index)

    def _may_begin(self) -> bool:
        """Whether all effects before the fence are applied, and all entries heard that were agreed by then.

        Those are suspects; more than a full backlog the worker before had not heard either.
        """
        if self._backlog.has_effects or not self._hearing.is_cut:
            return False
        if self._agreed_end is None:
            try:
                self._agreed_end = self._host.agreed_end()
            except Unavailable as error:
                log.warning("evaluation_delayed", reason=str(error))
                return False
        return self._hearing.agreed_offset >= self._agreed_end or self._backlog.is_full

    def _begin(self, duty: Fence) -> None:
        """What stands in the log and has no effect may be what ended the worker before."""
        self.evaluator = Evaluator(
            self._store, duty, self._publish, self._loader, self._watch, together=self._mouths.together
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
        """The duty ends: what was decided and not heard back leaves the store."""
        if self.suspects is not None:
            self.suspects.close()
            self.suspects = None
        if self.evaluator is not None:
            self.evaluator.retire()
            self.evaluator = None
        self._duty = None  # also where effects that stood before the fence kept it from beginning

    def _publish(self, effect: Effect, entry: LoggedEntry) -> None:
        visit(Failpoint.AFTER_EVALUATE)
        self._mouths.effects.say(effect, at=now().wall, epoch=self._epoch, traceparent=entry.traceparent)
        visit(Failpoint.AFTER_PUBLISH, self._mouths.settle)

    def due(self, effects: Sequence[Effect]) -> tuple[Sequence[Lines], list[Quad]]:
        """What to apply: of others' effects all, of the own ones what the store lacks, and records of what it has."""
        if self.evaluator is not None:
            own = [self.evaluator.decided(effect) for effect in effects]
            decided = [one for one in own if one is not None]
            if len(decided) == len(effects):
                lines = [one.due(effect) for effect, one in zip(effects, decided, strict=True)]
                return lines, [record for one in decided for record in one.records]
            log.error("own_effect_unrecognized", first=effects[0].index)
            self.retire()
        return effects, []
