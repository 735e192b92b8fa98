"""Tenure: a worker's time as the one that evaluates, from the request to the end.

Asked by a master, it writes a fence; read back, the fence begins its tenure, behind all that stands before it.
Another fence, a handover, or an effect of its own that it does not know ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.core.model import Fence
from quadlog.failpoints import Failpoint, visit
from quadlog.worker.anew import begin_anew
from quadlog.worker.evaluator import Evaluator
from quadlog.worker.limits import Limits, Watch
from quadlog.worker.loader import Loader, LoadLimits
from quadlog.worker.suspects import Suspects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyoxigraph import Quad

    from consumers.effects import EffectsConsumer
    from producers.effects import EffectsProducer
    from quadlog.core.lines import Lines
    from quadlog.core.model import Effect, Handover, LoggedEntry
    from quadlog.ports import Together
    from quadlog.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.worker.backlog import Backlog

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Asked:
    """A master asks this worker to evaluate, in this term, behind this handover (0: none)."""

    term: bytes
    handover: int = 0


class Tenure:
    """Owned by the replica's thread."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        store: QuadStore,
        heard: EffectsConsumer,
        backlog: Backlog,
        effects: EffectsProducer,
        settle: Callable[[], None] | None,
        together: Together,
        fetched: Callable[[], None],
    ) -> None:
        """Begin without a duty.

        Args:
            settings: of this worker.
            store: its quads.
            heard: which effects, fences and handovers count.
            backlog: what is agreed and not applied.
            effects: where it says what it evaluated.
            settle: waits until all that was said is acknowledged; for failpoints.
            together: what effects are said within, so that those of a turn go in one request.
            fetched: called, on any thread, when something that is to be loaded is there.

        """
        self._settings, self._store, self._heard, self._backlog = settings, store, heard, backlog
        self._say_effects, self._settle, self._together = effects, settle, together
        self.evaluator: Evaluator | None = None
        self.suspects: Suspects | None = None
        self._asked: Asked | None = None
        """Asked for a term whose handover is not heard yet."""
        self._fence: Fence | None = None
        """This worker's own fence, from when it is written."""
        self._duty: Fence | None = None
        """It again, once it is read back as the newest."""
        self._limits: Final = Limits.of(settings)
        self._watch: Final = Watch(self._limits, begin_anew)
        self._load_limits: Final = LoadLimits.of(settings)
        self._loader: Final = Loader(self._load_limits, fetched)

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
        if self.evaluator is not None or self._duty is not None:
            return
        if asked.handover != self._heard.handover_of(self._heard.term):
            self._asked = asked
            return
        self._fence = Fence(term=asked.term, attempt=self._heard.attempt + 1, worker=self._settings.node_id)
        self._say_effects.fence(self._fence, at=now().wall)

    def hand_over(self, handover: Handover) -> None:
        """From here on another data centre evaluates, or this one in a new term."""
        log.info("handover", dc=handover.dc, index=handover.index)
        self.retire()
        asked, self._asked = self._asked, None
        if asked is not None and asked.term == handover.term:
            self.take_over(asked)

    def meet(self, fence: Fence) -> None:
        """The newest fence says who evaluates; whoever did so before stops."""
        self.retire()
        self._duty = fence if fence == self._fence else None
        log.info("fence", attempt=fence.attempt, worker=fence.worker, mine=self._duty is not None)

    def evaluate(self) -> bool:
        """Evaluate what is agreed, if that is the duty; whether there is more to do soon, whatever is heard."""
        if self._duty is not None and self.evaluator is None and not self._backlog.has_effects:
            self._begin(self._duty)
        if self.evaluator is None or self.suspects is None:
            return False
        return self.suspects.turn(self.evaluator, self._backlog.entries()) or self.evaluator.evaluate(
            self._backlog.entries()
        )

    def applied(self, effects: Sequence[Effect]) -> None:
        """They are in the store now, decided here or elsewhere."""
        if self.evaluator is not None:
            for effect in effects:
                self.evaluator.applied(effect.index)

    def _begin(self, duty: Fence) -> None:
        """What stands in the log and has no effect may be what ended the worker before."""
        self.evaluator = Evaluator(
            self._store, duty, self._publish, self._loader, self._watch, together=self._together
        )
        waiting = [entry.index for entry in self._backlog.entries()]
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
        self._say_effects.say(effect, at=now().wall, traceparent=entry.traceparent)
        visit(Failpoint.AFTER_PUBLISH, self._settle)

    def due(self, effects: Sequence[Effect]) -> tuple[Sequence[Lines], list[Quad]]:
        """What to apply: of others' effects all, of the own ones what the store lacks, and records of what it has."""
        if self.evaluator is not None:
            own = [self.evaluator.decided(effect) for effect in effects]
            decided = [one for one in own if one is not None]
            if len(decided) == len(effects):
                lines = [one.due(effect) for effect, one in zip(effects, decided, strict=True)]
                return lines, [record for one in decided for record in one.records]
            log.error(
                "an effect that this worker did not decide came back as its own", first=effects[0].index
            )
            self.retire()
        return effects, []
