"""The node: one thread that owns the agreement, and performs what it requests in order.

Events arrive through its `inbox`.  Records that tails read are handled by `dispatcher`, payloads by
`acquiring`, effects by `effects_follower`, what a round makes durable by `state_writer`, and what one master does for
its data centre by `leader_tasks`.
"""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from quadlog.clock import Turns, now
from quadlog.core.messages import ForgottenPayloadError, LocalStatus, Promoted, Tick
from quadlog.errors import DuplicateNode, TopicLost
from quadlog.master.clients.limbo_state import limbo_troubles
from quadlog.master.clients.split_state import split_troubles
from quadlog.master.effects.effects_copying import CopyStart
from quadlog.master.events import (
    ClientLeftEarly,
    EffectsEndLocated,
    EntriesRegained,
    EntryPublished,
    Event,
    PayloadDurable,
    PayloadMirrored,
    PromotionAsked,
    RecordsRead,
    StopNode,
    TopicIdentified,
    TopicShortened,
    TransactionOffered,
    WorkerDismissed,
)
from quadlog.master.log.joining import ForkFound
from quadlog.master.node.dispatcher import RecordDispatcher
from quadlog.master.node.leader_tasks import LOOK_MS
from quadlog.master.node.perform import perform
from quadlog.master.node.state_writer import StateWriter
from quadlog.master.node.topic_identity import PeerMasters, TopicIdentity
from quadlog.master.retention.trimming import checkpoint_in, stock_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from producers.rounds import RoundsProducer
    from quadlog.anchors import Anchor
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.messages import Now, Ready
    from quadlog.core.model import Post, RejoinReport
    from quadlog.core.records import Checkpoint, Cut, Place, Reached, Seed
    from quadlog.master.clients.pending_requests import PendingRequests
    from quadlog.master.clients.suspended import SuspendedTransactions
    from quadlog.master.effects.effects_follower import EffectsFollower
    from quadlog.master.log.duplicate_node import DuplicateNodeDetector
    from quadlog.master.log.joining import Joining
    from quadlog.master.node.dispatcher import TopicRoles
    from quadlog.master.node.fork_requests import ForkRequests
    from quadlog.master.node.inbox import Inbox
    from quadlog.master.node.leader_tasks import LeaderTasks
    from quadlog.master.node.shared_settings import SharedSettings
    from quadlog.master.payloads.acquiring import Acquiring
    from quadlog.master.payloads.bodies import Bodies
    from quadlog.master.payloads.relay import PayloadRelay
    from quadlog.master.recovery.superseded import Superseded
    from quadlog.master.retention.topic_monitor import TopicMonitor
    from quadlog.master.retention.trimming import Stock, Trimming
    from quadlog.master.split_reports.split_reporter import SplitReporter
    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.master.workers.worker_watch import WorkerWatch
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Together
    from quadlog.topics import Topics

log = structlog.get_logger()

LATER_MS: Final = 30.0
"""Maximum milliseconds that a turn spends on records of payloads, effects and logs."""


@dataclass(kw_only=True, eq=False, repr=False)
class Node:
    """Main thread of a master.  Everything but reads of settled facts happens on it."""

    agreement: Agreement
    store: MasterStore
    inbox: Inbox
    topic_roles: TopicRoles
    dc_of: Mapping[str, str]
    """Data centre of every master."""
    urls: Mapping[str, str]
    """Address of every master that the settings name."""
    posts: RoundsProducer
    duplicate_detector: DuplicateNodeDetector
    superseded: Superseded
    together: Together
    """Sends what is produced within a turn at its end."""
    acquiring: Acquiring
    effects_follower: EffectsFollower
    bodies: Bodies
    pending_requests: PendingRequests
    worker_registry: WorkerRegistry
    watch: WorkerWatch
    joining: Joining
    relay: PayloadRelay
    leader_tasks: LeaderTasks
    trimming: Trimming
    fork_requests: ForkRequests
    split_reporter: SplitReporter
    monitor: TopicMonitor
    topics: Topics
    """The own topics."""
    shared_settings: SharedSettings
    suspended: SuspendedTransactions
    settle: Callable[[], None]
    """Waits until all produced records are acknowledged; for failpoints."""
    failed: Callable[[str], None]
    """Ends the process with a reason."""

    def __post_init__(self) -> None:
        """Connect the parts; nothing runs before `start`."""
        self.cluster = self.agreement.cluster()
        """The cluster after the newest turn, for any thread; it shows an outcome before the client is answered."""
        self.dc = self.dc_of[self.agreement.node]
        self.topic_health = self.leader_tasks.topic_health
        self.pending_effects = self.leader_tasks.pending_effects
        self._state_writer = StateWriter(
            self.agreement,
            store=self.store,
            bodies=self.bodies,
            acquiring=self.acquiring,
            effects_follower=self.effects_follower,
            pending_requests=self.pending_requests,
            log_publisher=self.leader_tasks.log_publisher,
            duty=self.leader_tasks.duty,
            anchors=self._anchors,
        )
        self.dispatcher = RecordDispatcher(
            self.topic_roles,
            dc=self.dc,
            agreement=self.agreement,
            acquiring=self.acquiring,
            effects_follower=self.effects_follower,
            state_writer=self._state_writer,
            joining=self.joining,
            relay=self.relay,
            duplicate_detector=self.duplicate_detector,
            worker_registry=self.worker_registry,
            leader_tasks=self.leader_tasks,
            heard=self.inbox.heard,
        )
        self._topic_identity = TopicIdentity(
            self.topic_roles,
            self._state_writer,
            self.acquiring,
            self.leader_tasks,
            self.joining,
            masters=PeerMasters(self.agreement, self.store, self.dc_of),
        )
        self._turns = Turns(most_ms=20, each_ms=0.3)
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)

    # --- for any thread -----------------------------------------------------------------------------

    def start(self, reached: Reached | None, said: Iterable[tuple[Place | Cut, int]]) -> None:
        """Start the thread; the arguments are those of `StateWriter.start`."""
        self._state_writer.start(reached, said)
        self._thread.start()

    @property
    def rejoined(self) -> RejoinReport | None:
        """What this master gave up when it took over a stronger side's log; None: nothing since its start."""
        return self._state_writer.rejoined

    @property
    def seed(self) -> Seed | None:
        """Seed that the log begins with; None if it is not known to begin with one."""
        return self.effects_follower.ledger.seed

    @property
    def has_begun(self) -> bool:
        """True if the log contains anything."""
        return self.cluster.last.index > 0 or self.has_effects

    @property
    def has_effects(self) -> bool:
        """True if any entry was decided."""
        return self.effects_follower.ledger.index > 0

    def knows(self, transaction_id: bytes) -> bool:
        """Return whether a master accepted a transaction with this id, as far as is known here.

        Such a transaction may be executed.
        """
        return self.pending_requests.is_known(transaction_id) or self.is_queued(transaction_id)

    def is_queued(self, transaction_id: bytes) -> bool:
        """Return whether the incoming queue has a transaction with this id."""
        return transaction_id in self.agreement.queue

    @property
    def shown(self) -> int:
        """Index that shows everything that was acknowledged here."""
        return self.pending_requests.shown

    @property
    def agreed(self) -> int:
        """Index of the last entry that may be evaluated: an undecided synchronous one holds up the others."""
        first = self.cluster.limbo.first
        return first[0].index - 1 if first else self.cluster.last.index

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash that the own log has at an index; None if it has no entry there."""
        return self.store.chain_at(index)

    @property
    def elsewhere(self) -> Sequence[str]:
        """URLs of the view's members in other data centres, the home's first.

        Empty unless the own effects topic lacks effects that were acknowledged here.
        """
        if not self.pending_effects.is_begun:
            return ()
        view = self.cluster.view
        names = [name for name in view.members if self.dc_of[name] != self.dc and name in self.urls]
        names.sort(key=lambda name: self.dc_of[name] != view.home)
        return [self.urls[name] for name in names]

    def put(self, event: Event) -> None:
        """Add an event to the inbox."""
        self.inbox.put(event)

    def stop(self) -> None:
        """End the thread; all promises are durable already."""
        self.inbox.put(StopNode())
        self._thread.join(timeout=5)

    # --- the loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._tend(now().steady)
            while self._turn():
                pass
        except DuplicateNode as error:
            with suppress(OSError):  # a full disk
                self.superseded.note()  # as the error says: older copies of topics may not show it at the next start
            self.failed(f"DuplicateNode: {error}")
        except ForgottenPayloadError as error:
            log.exception("master_failed")
            with suppress(OSError):
                self.superseded.note()
            what_to_do = "Start this master again: it comes back as one without its disk"
            self.failed(f"{error}: its disk and its topics are older copies. {what_to_do}")
        except TopicLost as error:
            self.failed(f"TopicLost: {error}")
        except Exception as error:
            log.exception("master_failed")
            self.failed(str(error))
        finally:
            self.inbox.end()

    def _turn(self) -> bool:
        """Process all events and records, decide once, and perform the decision; return False to stop."""
        self._turns.gather(len(self.pending_requests) + len(self.agreement.queue))
        pause = 0.0 if self.dispatcher.has_more else min(self.agreement.wake_at - now().steady, LOOK_MS)
        events = self.inbox.drain(pause / 1000)
        with self.together():
            for event in events:
                if isinstance(event, StopNode):
                    return False
                self._take(event)
            self.dispatcher.hear_the_rest(until=now().steady + LATER_MS)
            self.joining.note()
            moment = now()
            self.topic_health.check(moment.steady)
            self._report(moment)  # a vote reports how far the effects go that were heard, all of them
            self.agreement.step(Tick(), moment)
            if ready := self.agreement.ready():
                self._perform(ready)
        self._publish_cluster()
        self.watch.compare()
        self._settle_requests()
        is_whole = self.effects_follower.follows(self.agreement.view)
        self.suspended.tick(moment.steady, leads=self.leader_tasks.leads, is_whole=is_whole)
        self._tend(moment.steady)
        self._report(moment)
        self.watch.check(
            moment,
            agreed=self.agreed,
            leads=self.leader_tasks.leads,
            more=lambda: (
                *self.topic_health.troubles(),
                *self._topic_identity.troubles(),
                *self.monitor.troubles,
                *self.shared_settings.troubles(self.agreement),
                *split_troubles(self.cluster, moment.steady),
                *limbo_troubles(self.cluster, moment.steady),
            ),
        )
        return True

    def _publish_cluster(self) -> None:
        before, self.cluster = self.cluster, self.agreement.cluster()
        if (phase := self.cluster.join_phase) is not before.join_phase:
            log.info("join_phase_changed", phase=phase.value, epoch=self.cluster.view.epoch)
        for name, member in self.cluster.masters.items():
            known = before.masters.get(name)
            if (
                member.rejoined
                and (known is None or known.rejoined != member.rejoined)
                and name != self.cluster.node
            ):
                _, kept, gave_way, ended = member.rejoined
                log.info("peer_gave_way", peer=name, kept=kept, gave_way=gave_way, ended=ended)

    @property
    def _known_outcomes(self) -> int:
        """Index up to which it is known what became of synchronous transactions, and none must be submitted again."""
        follower, first = self.effects_follower, self.suspended.first
        known = follower.index if follower.follows(self.agreement.view) else 0
        return min(known, first - 1) if first else known

    def _report(self, moment: Now) -> None:
        """Report the status of this data centre to the agreement."""
        # This master must have heard what a worker has applied, else its vote would revoke it.
        full = self.topic_health.is_full and self.effects_follower.index >= self.worker_registry.applied()
        status = LocalStatus(
            effects=self.effects_follower.held,
            full=full,
            unheard=self.relay.reachability.unheard,
            rejoined=self.rejoined,
            known=self._known_outcomes,
        )
        self.agreement.step(status, moment)

    def _settle_requests(self) -> None:
        """Answer clients whose transactions a worker here shows or, if none can, another data centre's worker.

        Strict reads need no more than is decided, even if their barriers follow what is undecided.
        """
        self.pending_requests.complete(
            decided=self.effects_follower.index,
            applied=self.worker_registry.applied(),
            confirmed=self.agreement.effects_confirmed,
        )
        self.pending_effects.tick(is_full=self.topic_health.is_full, applied=self.worker_registry.applied())
        if (index := self.pending_effects.index) is not None:
            self.pending_requests.complete(decided=index, applied=index)
        self.pending_requests.answer_barriers(self.agreement.read_index)

    def _tend(self, moment: float) -> None:
        self.relay.tick(moment, leads=self.leader_tasks.leads)
        self.joining.tick(moment, unheard=self.relay.reachability.unheard)
        self.superseded.tick(moment, is_outside=self.agreement.standing.joining is not None)
        self.leader_tasks.tick(moment)
        self.split_reporter.tick(self.cluster, moment, leads=self.leader_tasks.leads)
        if self.leader_tasks.leads:
            self.fork_requests.tick(self.cluster, moment)
            lacks = self.monitor.lacks_checkpoint
            self.trimming.tick(self._stock, self._checkpoint, moment, lacks_checkpoint=lacks)

    def _stock(self) -> Stock | None:
        if self.fork_requests.is_pending:
            return None  # workers go back to where the log parted
        return stock_of(
            self.agreement,
            self.effects_follower,
            self.worker_registry,
            held=self.leader_tasks.log_publisher.held,
        )

    def _checkpoint(self) -> Checkpoint | None:
        return checkpoint_in(self.store, self.topics)

    def _anchors(self) -> dict[str, Anchor]:
        """Return the last record read of each topic and, for the own rounds, the last post known to be in the topic."""
        written = self.duplicate_detector.anchor
        return self.dispatcher.anchors() | ({} if written is None else {self.topics.rounds: written})

    # --- events -------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case for each event
        match event:
            case TransactionOffered(payload=payload, waiter=waiter):
                self.acquiring.offer(payload, waiter)
            case ClientLeftEarly(transaction_id=transaction_id, waiter=waiter):
                self.pending_requests.leave(transaction_id, waiter, queued=self.is_queued(transaction_id))
            case PayloadDurable():
                self.acquiring.durable(event)
            case PayloadMirrored():
                self.acquiring.mirrored(event)
            case EntryPublished(place=place, offset=offset):
                self._state_writer.published(place, offset)
            case RecordsRead(records=records):
                self.dispatcher.on_records(records)
            case TopicIdentified():
                self.dispatcher.hear_the_rest(until=math.inf)  # read from the topic that existed before
                if event.is_other:
                    self.dispatcher.forget(event.topic)
                self._topic_identity.recognise(event)
            case TopicShortened():
                self.dispatcher.hear_the_rest(until=math.inf)
                self.dispatcher.forget(event.topic)
                self._topic_identity.lacks(event)
            case EffectsEndLocated(handover=handover):
                self.leader_tasks.duty.located(handover)
            case CopyStart():
                self.leader_tasks.copying.found(event)
            case ForkFound():
                self.joining.found(event)
            case EntriesRegained(entries=entries):
                self.leader_tasks.log_publisher.regained(entries)
            case WorkerDismissed(worker=worker):
                self.worker_registry.dismiss(worker, now().steady)
            case PromotionAsked(until=until):
                self.agreement.step(Promoted(until), now())
            case StopNode():
                pass
            case _:
                assert_never(event)

    # --- performing -----------------------------------------------------------------------------------

    def _perform(self, ready: Ready) -> None:
        if ready.save.standing is not None:
            view = self.agreement.view
            self.duplicate_detector.learn(ready.save.standing)
            self.leader_tasks.duty.install(view, (self.dc_of[name] for name in view.members))
            self.leader_tasks.look_soon()
        self.leader_tasks.duty.note(ready.entries)
        perform(
            ready,
            save=self._state_writer.save,
            cut=lambda adopted: self._state_writer.truncate(ready.save, adopted),
            publish=self._state_writer.publish,
            post=self._post,
            settle=self.settle,
        )
        self._state_writer.release(ready)

    def _post(self, post: Post) -> None:
        self.duplicate_detector.check_may_post(post)
        self.duplicate_detector.said(post.sequence, self.posts.publish(post, at=now().wall))
