"""Tasks of a leader: what one master of a data centre does for the whole data centre, while the others stand by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import EffectsPosition, View
    from quadlog.master.effects.duty import Duty
    from quadlog.master.effects.effects_copying import EffectsCopying
    from quadlog.master.effects.effects_follower import EffectsFollower
    from quadlog.master.effects.pending_effects import PendingEffects
    from quadlog.master.effects.topic_health import TopicHealth
    from quadlog.master.log.dc_leader import DcLeader
    from quadlog.master.log.log_publisher import LogPublisher
    from quadlog.master.payloads.intake import Intake
    from quadlog.master.payloads.relay import PayloadRelay
    from quadlog.master.workers.worker_client import WorkerClient
    from quadlog.master.workers.worker_registry import WorkerRegistry

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""Milliseconds between two checks of which master leads, and whether a worker evaluates."""


class LeaderTasks:
    """Tasks of the leading master: the agreed topic, the copies of effects, the appointment of the evaluating worker.

    Owned by the node's thread.  Peers' payloads are copied by the node itself; `leads` determines whether it
    copies them.
    """

    def __init__(
        self,
        *,
        agreement: Agreement,
        dc_of: Mapping[str, str],
        effects_follower: EffectsFollower,
        relay: PayloadRelay,
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
        """Start without leading.

        `dc_of`: data centre of every master; `peers`: intakes of other data centres' payloads, by topic; `read` reads
        such a topic from an offset on.
        """
        self._agreement, self._dc_of, self._dc = agreement, dc_of, dc_of[agreement.node]
        self._effects_follower, self._relay = effects_follower, relay
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

    def tick(self, moment: float) -> None:
        """Check at intervals which master leads, and, if this one does, copy effects and have a worker evaluate."""
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        agreement, follower = self._agreement, self._effects_follower
        view, ballot = agreement.view, agreement.standing.ballot
        mine = self._lead.is_mine(agreement.heard_at, moment)
        if mine != self.leads:
            self._change(mine=mine)
        if not self.leads:
            return
        if (floor := follower.floored) is not None:
            for one in self._worker_registry.all():
                self._worker_client.tell_floor(one.beat.url, floor)
        self._tend_own_topic(moment)
        if not agreement.may_agree:
            self.copying.stop()  # what is decided meanwhile is decided by others
            return
        is_voting = ballot is not None and ballot.epoch > view.epoch
        effects_of, full = self._reports(view)
        is_whole = self.copying.tick(
            view,
            moment,
            is_held=is_voting,
            heard=follower.heard,
            fork=follower.left if view.home == self._dc else follower.fork,
            others=effects_of,
            ways=self._relay.reachability.ways,
            is_full=self.topic_health.is_full,
        )
        self.duty.tick(
            moment,
            last_index=agreement.last.index,
            is_whole=is_whole and not is_voting,
            others=effects_of,
            is_full=self.topic_health.is_full,
            full=full,
        )
        # If the topic is full, the duty moves; if it cannot move, evaluation is tried again here.
        is_able = not follower.is_held and (not self.topic_health.is_full or self.topic_health.lasts(moment))
        if (
            self.duty.is_here
            and is_able
            and (worker := self._worker_registry.to_appoint(moment, self.duty.agreed.term))
        ):
            log.info("worker_asked_to_evaluate", worker=worker.beat.worker)
            self._worker_client.ask_to_evaluate(
                worker.beat.url,
                self.duty.agreed,
                decides_to=agreement.standing.promise,
                suspends=not agreement.has_majority,
                sync_graphs=agreement.settings.sync_graphs,
            )

    def _reports(self, view: View) -> tuple[dict[str, list[EffectsPosition]], frozenset[str]]:
        """Return what the last posts of the view's masters report of the effects topics of other data centres.

        That is the effects, by data centre, and the data centres whose topics accept no records.
        """
        effects_of: dict[str, list[EffectsPosition]] = {}
        full = set[str]()
        for name in view.members:
            dc, member = self._dc_of[name], self._agreement.members.get(name)
            if dc != self._dc and member is not None and member.said is not None:
                effects_of.setdefault(dc, []).append(member.said.effects)
                if member.said.full:
                    full.add(dc)
        return effects_of, frozenset(full)

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
