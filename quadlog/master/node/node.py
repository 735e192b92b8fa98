"""The node: one thread that owns the agreement, and performs what it asks for in order.

What happens comes through its `inbox`.  What tails read is the part of `listening`, payloads that of `acquiring`,
effects that of `decided`, what a round makes durable that of `saving`, what one master does for its data centre that
of `chores`.
"""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from quadlog.clock import Turns, now
from quadlog.core.messages import ForgottenPayloadError, Tick
from quadlog.errors import DuplicateNode, TopicLost
from quadlog.master.effects.copying import Found
from quadlog.master.events import (
    Dismissed,
    Durable,
    Event,
    Lacking,
    Left,
    Located,
    Mirrored,
    Offered,
    Published,
    Recognised,
    Regained,
    Stop,
    Told,
)
from quadlog.master.log.joining import Forked
from quadlog.master.node.chores import LOOK_MS, Scene
from quadlog.master.node.listening import Listening
from quadlog.master.node.perform import perform
from quadlog.master.node.remade import Masters, Remade
from quadlog.master.node.saving import Saving
from quadlog.master.retention.trimming import checkpoint_in, stock_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from producers.rounds import RoundsProducer
    from quadlog.anchors import Anchor
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.messages import Ready
    from quadlog.core.model import Held, Post
    from quadlog.core.records import Checkpoint, Cut, Place, Reached, Seed
    from quadlog.master.clients.desk import Desk
    from quadlog.master.effects.decided import Decided
    from quadlog.master.log.joining import Joining
    from quadlog.master.log.twins import Twins
    from quadlog.master.node.chores import Chores
    from quadlog.master.node.inbox import Inbox
    from quadlog.master.node.listening import Ears
    from quadlog.master.payloads.acquiring import Acquiring
    from quadlog.master.payloads.bodies import Bodies
    from quadlog.master.payloads.relay import Relay
    from quadlog.master.recovery.superseded import Superseded
    from quadlog.master.retention.topic_monitor import TopicMonitor
    from quadlog.master.retention.trimming import Stock, Trimming
    from quadlog.master.workers.crew import Crew
    from quadlog.master.workers.watch import Watch
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Together
    from quadlog.topics import Topics

log = structlog.get_logger()

LATER_MS: Final = 30.0
"""What a turn takes at the most to hear of payloads, effects and logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a node is made of."""

    agreement: Agreement
    """Decides."""
    store: MasterStore
    """Remembers."""
    inbox: Inbox
    """What happens."""
    ears: Ears
    """Sorts what is heard."""
    dc_of: Mapping[str, str]
    """Every master's data centre."""
    posts: RoundsProducer
    """Says posts."""
    twins: Twins
    """Sees to it that nobody else says them."""
    superseded: Superseded
    """Asks whether they count."""
    together: Together
    """What is said within a turn goes at its end."""
    acquiring: Acquiring
    """Payloads."""
    decided: Decided
    """Effects in the own topic."""
    bodies: Bodies
    """What payloads say."""
    desk: Desk
    """Who waits."""
    crew: Crew
    """The workers here."""
    watch: Watch
    """Whether they are there and right."""
    joining: Joining
    """Reads the log of a stronger side."""
    relay: Relay
    """Hears by way of others what does not come directly."""
    chores: Chores
    """What this master may have to do for its data centre."""
    trimming: Trimming
    """Shortens its topics."""
    monitor: TopicMonitor
    """Knows what is wrong with them."""
    topics: Topics
    """Its own ones."""
    settle: Callable[[], None]
    """Waits until all that was said is acknowledged; for failpoints."""
    failed: Callable[[str], None]
    """Ends the process with a reason."""


class Node:
    """A master's heart.  Everything but reads of settled facts happens on its thread."""

    def __init__(self, parts: Parts) -> None:
        """Nothing happens before `start`."""
        self.agreement: Final = parts.agreement
        self.store: Final = parts.store
        self.inbox: Final = parts.inbox
        self.desk: Final = parts.desk
        self.crew: Final = parts.crew
        self.watch: Final = parts.watch
        self.joining: Final = parts.joining
        self.relay: Final = parts.relay
        self.chores: Final = parts.chores
        self.fullness: Final = parts.chores.fullness
        self.foreseen: Final = parts.chores.foreseen
        self._trimming, self._topics, self._monitor = parts.trimming, parts.topics, parts.monitor
        self.dc_of: Final = parts.dc_of
        self.dc: Final = parts.dc_of[parts.agreement.node]
        self._superseded: Final = parts.superseded
        self._posts, self._twins, self._together = parts.posts, parts.twins, parts.together
        self._acquiring, self._decided = parts.acquiring, parts.decided
        self._saving = Saving(
            parts.agreement,
            store=parts.store,
            bodies=parts.bodies,
            acquiring=parts.acquiring,
            decided=parts.decided,
            desk=parts.desk,
            scribe=parts.chores.scribe,
            duty=parts.chores.duty,
            anchors=self._anchors,
        )
        self.listening: Final = Listening(
            parts.ears,
            dc=parts.dc_of[parts.agreement.node],
            agreement=parts.agreement,
            acquiring=parts.acquiring,
            decided=parts.decided,
            saving=self._saving,
            joining=parts.joining,
            relay=parts.relay,
            twins=parts.twins,
            crew=parts.crew,
            chores=parts.chores,
            heard=parts.inbox.heard,
        )
        self._remade = Remade(
            parts.ears,
            self._saving,
            parts.acquiring,
            parts.chores,
            parts.joining,
            masters=Masters(parts.agreement, parts.store, parts.dc_of),
        )
        self._settle, self._failed = parts.settle, parts.failed
        self._turns = Turns(most_ms=20, each_ms=0.3)
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)

    # --- from any thread ----------------------------------------------------------------------------

    def start(self, reached: Reached | None, said: Iterable[tuple[Place | Cut, int]]) -> None:
        """Begin to take part.

        Args:
            reached: how far the agreed topic was followed; None: that is not known.
            said: what stands behind that, in order, each with its offset.

        """
        self._saving.start(reached, said)
        self._thread.start()

    @property
    def seed(self) -> Seed | None:
        """What the log begins with, if that is known to be a seed."""
        return self._decided.seed

    @property
    def has_begun(self) -> bool:
        """Whether the log holds anything."""
        return self.agreement.last.index > 0 or self.has_effects

    @property
    def has_effects(self) -> bool:
        """Whether any entry was decided."""
        return self._decided.ledger.index > 0

    def knows(self, transaction_id: bytes) -> bool:
        """Whether this or another master took a transaction of this id, as far as is known here: it may be done."""
        return self.desk.is_known(transaction_id) or transaction_id in self.agreement.queue

    def put(self, event: Event) -> None:
        """Hand over something that happened."""
        self.inbox.put(event)

    def stop(self) -> None:
        """End the thread; what was promised is durable already."""
        self.inbox.put(Stop())
        self._thread.join(timeout=5)

    # --- the loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._tend(now().steady)
            while self._turn():
                pass
        except DuplicateNode as error:
            with suppress(OSError):  # a full disk
                self._superseded.note()  # as the error says: an older copy of its topics may not tell at the next start
            self._failed(f"DuplicateNode: {error}")
        except ForgottenPayloadError as error:
            log.exception("master_failed")
            with suppress(OSError):
                self._superseded.note()
            what_to_do = "Start this master again: it comes back as one without its disk"
            self._failed(f"{error}: its disk and its topics are older copies. {what_to_do}")
        except TopicLost as error:
            self._failed(f"TopicLost: {error}")
        except Exception as error:
            log.exception("master_failed")
            self._failed(str(error))
        finally:
            self.inbox.end()

    def _turn(self) -> bool:
        """1. Take in all there is.  2. Decide once.  3. Perform."""
        self._turns.gather(len(self.desk) + len(self.agreement.queue))
        pause = 0.0 if self.listening.has_more else min(self.agreement.wake_at - now().steady, LOOK_MS)
        events = self.inbox.take(pause / 1000)
        with self._together():
            for event in events:
                if isinstance(event, Stop):
                    return False
                self._take(event)
            self.listening.hear_the_rest(until=now().steady + LATER_MS)
            self.joining.note()
            moment = now()
            # A vote says how far the effects are that were taken in, all of them.
            self.agreement.effects = self._decided.held
            self.fullness.look(moment.steady)
            # What a worker has applied this master has to have heard, or its vote would take it back.
            self.agreement.full = self.fullness.is_full and self._decided.index >= self.crew.applied()
            self.agreement.step(Tick(), moment)
            if ready := self.agreement.ready():
                self._perform(ready)
        self.watch.compare()
        self._settle_desk()
        self._tend(moment.steady)
        self.agreement.effects = self._decided.held
        self.watch.look(
            moment,
            agreed=self.agreement.last.index,
            leads=self.chores.leads,
            more=(*self.fullness.troubles(), *self._remade.troubles(), *self._monitor.troubles),
        )
        return True

    def _settle_desk(self) -> None:
        """Whoever waits is answered when a worker here shows it, or where none can, when another one does."""
        self.desk.settle(decided=self._decided.index, applied=self.crew.applied())
        self.foreseen.tend(is_full=self.fullness.is_full, applied=self.crew.applied())
        if (index := self.foreseen.index) is not None:
            self.desk.settle(decided=index, applied=index)

    def _tend(self, moment: float) -> None:
        self.relay.tend(moment, leads=self.chores.leads)
        self.agreement.unheard = self.relay.unheard
        self.joining.tend(moment, unheard=self.relay.unheard)
        self._superseded.tend(moment, is_outside=self.agreement.standing.joining is not None)
        self.chores.tend(self._scene, moment)
        if self.chores.leads:
            lacks = self._monitor.lacks_checkpoint
            self._trimming.tend(self._stock, self._checkpoint, moment, lacks_checkpoint=lacks)

    def _stock(self) -> Stock | None:
        return stock_of(self.agreement, self._decided, self.crew, held=self.chores.scribe.held)

    def _checkpoint(self) -> Checkpoint | None:
        return checkpoint_in(self.store, self._topics)

    def _anchors(self) -> dict[str, Anchor]:
        """Of topics the last record that was read, or of the own posts is known to stand there."""
        written = self._twins.anchor
        return self.listening.anchors() | ({} if written is None else {self._topics.rounds: written})

    def _scene(self) -> Scene:
        agreement = self.agreement
        view, standing = agreement.view, agreement.standing
        effects_of: dict[str, list[Held]] = {}
        full = set[str]()
        for name in view.members:
            member = agreement.members.get(name)
            if self.dc_of[name] != self.dc and member is not None and member.said is not None:
                effects_of.setdefault(self.dc_of[name], []).append(member.said.effects)
                full |= {self.dc_of[name]} if member.said.full else set()
        return Scene(
            view=view,
            is_voting=standing.ballot is not None and standing.ballot.epoch > view.epoch,
            heard_at=agreement.heard_at,
            last_index=agreement.last.index,
            effects_heard=self._decided.heard,
            fork=self._decided.left if view.home == self.dc else self._decided.fork,
            is_held=self._decided.is_held,
            full=frozenset(full),
            floored=self._decided.floored,
            effects_of=effects_of,
            ways=self.relay.ways,
        )

    # --- taking in ----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case Offered(payload=payload, waiter=waiter):
                self._acquiring.offer(payload, waiter)
            case Left(transaction_id=transaction_id, waiter=waiter):
                self.desk.leave(transaction_id, waiter, queued=transaction_id in self.agreement.queue)
            case Durable():
                self._acquiring.durable(event)
            case Mirrored():
                self._acquiring.mirrored(event)
            case Published(place=place, offset=offset):
                self._saving.published(place, offset)
            case Told(records=records):
                self.listening.hear(records)
            case Recognised() | Lacking() | Located() | Found() | Forked() | Regained() | Dismissed():
                self._arrange(event)
            case Stop():
                pass
            case _:
                assert_never(event)

    def _arrange(self, event: Recognised | Lacking | Located | Found | Forked | Regained | Dismissed) -> None:
        """What was asked for, what an operator says, and which topics there are."""
        match event:
            case Recognised():
                self.listening.hear_the_rest(until=math.inf)  # it was read of the topic that was there before
                if event.is_other:
                    self.listening.forget(event.topic)
                self._remade.recognise(event)
            case Lacking():
                self.listening.hear_the_rest(until=math.inf)
                self.listening.forget(event.topic)
                self._remade.lacks(event)
            case Located(handover=handover):
                self.chores.duty.located(handover)
            case Found():
                self.chores.copying.found(event)
            case Forked():
                self.joining.found(event)
            case Regained(entries=entries):
                self.chores.scribe.regained(entries)
            case Dismissed(worker=worker):
                self.crew.dismiss(worker, now().steady)

    # --- performing -----------------------------------------------------------------------------------

    def _perform(self, ready: Ready) -> None:
        if ready.save.standing is not None:
            view = self.agreement.view
            self._twins.learn(ready.save.standing)
            self.chores.duty.install(view, (self.dc_of[name] for name in view.members))
            self.chores.look_soon()
        self.chores.duty.note(ready.entries)
        perform(
            ready,
            save=self._saving.save,
            cut=lambda adopted: self._saving.cut(ready.save, adopted),
            publish=self.chores.scribe.write,
            post=self._post,
            settle=self._settle,
        )
        self._saving.release(ready)

    def _post(self, post: Post) -> None:
        self._twins.say(post)
        self._twins.said(post.sequence, self._posts.say(post, at=now().wall))
