"""Tasks of a leader: what one master of a data centre does for the whole data centre, while the others stand by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quadlog.core.model import EffectsPosition, View
    from quadlog.master.effects.duty import Duty
    from quadlog.master.effects.effects_copying import EffectsCopying
    from quadlog.master.effects.pending_effects import PendingEffects
    from quadlog.master.effects.topic_health import TopicHealth
    from quadlog.master.log.dc_leader import DcLeader
    from quadlog.master.log.log_publisher import LogPublisher
    from quadlog.master.payloads.intake import Intake
    from quadlog.master.workers.worker_client import WorkerClient
    from quadlog.master.workers.worker_registry import WorkerRegistry

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""Milliseconds between two checks of which master leads, and whether a worker evaluates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """State of the node at a check.  Times are steady milliseconds."""

    view: View
    """The installed view."""
    may_agree: bool
    """False if this side waits for others, and decides nothing."""
    sync_graphs: Sequence[str]
    """The setting `sync-graphs`."""
    decides_to: int
    """Epoch of the last view on this side that held a majority."""
    has_majority: bool
    """True if the view holds a majority of the voting data centres."""
    is_voting: bool
    """True if a vote was cast for another view that is not installed yet."""
    heard_at: Mapping[str, float]
    """Time at which each other master was last heard."""
    last_index: int
    """Index of the last agreed entry."""
    effects_heard: int
    """Offset after the last record of the own effects that was heard."""
    fork: int | None
    """Index of the last own effect that belongs to the log, if later ones are of a branch; None if all belong to it."""
    effects_of: Mapping[str, Iterable[EffectsPosition]]
    """Effects as reported by the masters' last posts, by data centre, for the other data centres of the view."""
    ways: Mapping[str, Sequence[str]]
    """For each data centre out of reach, the data centres through which it is heard."""
    is_held: bool
    """True if own effects are not accepted until it is known where the next view has its home."""
    full: frozenset[str]
    """Other data centres whose effects topics accept no records, as their masters report."""
    floored: tuple[int, int] | None
    """Epoch and index after which effects of earlier views are void here.

    None if a rewind in the topic says so, or if none are void.
    """


class LeaderTasks:
    """Tasks of the leading master: the agreed topic, the copies of effects, the appointment of the evaluating worker.

    Owned by the node's thread.  Peers' payloads are copied by the node itself; `leads` determines whether it
    copies them.
    """

    def __init__(
        self,
        *,
        lead: DcLeader,
        log_publisher: LogPublisher,
        copying: EffectsCopying,
        duty: Duty,
        worker_registry: WorkerRegistry,
        peers: Mapping[str, Intake],
        read: Callable[[str, int], None],
        worker_client: WorkerClient,
        topic_health: TopicHealth,
        pending_effects: PendingEffects,
    ) -> None:
        """`peers`: intakes of other data centres' payloads, by topic; `read` reads such a topic from an offset on."""
        self.log_publisher: Final = log_publisher
        self.leads = False
        self.copying: Final = copying
        self.duty: Final = duty
        self.topic_health: Final = topic_health
        self.pending_effects: Final = pending_effects
        self._was_full = False
        self._lead, self._worker_registry = lead, worker_registry
        self.read: Final = read
        self._peers, self._worker_client = peers, worker_client
        self._looked_at = float("-inf")

    def tick(self, snapshot: Callable[[], ClusterSnapshot], moment: float) -> None:
        """Check at intervals which master leads, and, if this one does, copy effects and have a worker evaluate."""
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        there = snapshot()
        mine = self._lead.is_mine(there.heard_at, moment)
        if mine != self.leads:
            self._change(mine=mine)
        if not self.leads:
            return
        if there.floored is not None:
            for one in self._worker_registry.all():
                self._worker_client.tell_floor(one.beat.url, there.floored)
        self._tend_own_topic(moment)
        if not there.may_agree:
            self.copying.stop()  # what is decided meanwhile is decided by others
            return
        is_whole = self.copying.tick(
            there.view,
            moment,
            is_held=there.is_voting,
            heard=there.effects_heard,
            fork=there.fork,
            others=there.effects_of,
            ways=there.ways,
            is_full=self.topic_health.is_full,
        )
        self.duty.tick(
            moment,
            last_index=there.last_index,
            is_whole=is_whole and not there.is_voting,
            others=there.effects_of,
            is_full=self.topic_health.is_full,
            full=there.full,
        )
        # If the topic is full, the duty moves; if it cannot move, evaluation is tried again here.
        is_able = not there.is_held and (not self.topic_health.is_full or self.topic_health.lasts(moment))
        if (
            self.duty.is_here
            and is_able
            and (worker := self._worker_registry.to_appoint(moment, self.duty.agreed.term))
        ):
            log.info("worker_asked_to_evaluate", worker=worker.beat.worker)
            self._worker_client.ask_to_evaluate(
                worker.beat.url,
                self.duty.agreed,
                decides_to=there.decides_to,
                suspends=not there.has_majority,
                sync_graphs=there.sync_graphs,
            )

    def _tend_own_topic(self, moment: float) -> None:
        """Restart copying if the own effects topic has become full, or is tried again.

        While it is full, the copied records are also followed as if they were in the topic; once it is not,
        all records that it lacks are written.
        """
        is_news = self.topic_health.is_full and not self._was_full
        self._was_full = self.topic_health.is_full
        if self.topic_health.tries_again(moment) or is_news:
            self.copying.begin_again()

    def look_soon(self) -> None:
        """Make the next check due, because something changed."""
        self._looked_at = float("-inf")

    def _change(self, *, mine: bool) -> None:
        """Start or stop leading."""
        log.info("leadership_taken" if mine else "leadership_released", unsaid=len(self.log_publisher))
        self.leads = mine
        self.log_publisher.lead(mine=mine)
        if not mine:
            self.copying.stop()
            return
        for topic, intake in self._peers.items():
            if intake.awaited is not None:
                self.read(topic, intake.awaited)
