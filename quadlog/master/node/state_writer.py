"""Writer of the durable state: what a round saves beyond the agreement's state, and how long payloads are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from quadlog.clock import now, wall
from quadlog.core.model import RejoinReport
from quadlog.failpoints import visit
from quadlog.master.log.phases import given_up, phases
from quadlog.master.log.retained_payloads import RetainedPayloads
from quadlog.masterstore.store import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quadlog.anchors import Anchor
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.messages import Adopted, Ready, Save
    from quadlog.core.model import Entry, HardState
    from quadlog.core.records import Cut, Handover, Place, Reached, Seed
    from quadlog.master.clients.pending_requests import PendingRequests
    from quadlog.master.effects.duty import Duty
    from quadlog.master.effects.effects_follower import EffectsFollower
    from quadlog.master.log.log_publisher import LogPublisher
    from quadlog.master.log.retained_payloads import Key
    from quadlog.master.payloads.acquiring import Acquiring
    from quadlog.master.payloads.bodies import Bodies
    from quadlog.masterstore.store import MasterStore

log = structlog.get_logger()


class StateWriter:
    """Makes rounds durable; only it writes the store.  Owned by the node's thread."""

    def __init__(
        self,
        agreement: Agreement,
        *,
        store: MasterStore,
        bodies: Bodies,
        acquiring: Acquiring,
        effects_follower: EffectsFollower,
        pending_requests: PendingRequests,
        log_publisher: LogPublisher,
        duty: Duty,
        anchors: Callable[[], Mapping[str, Anchor]] = dict,
    ) -> None:
        """`anchors`: returns the new anchors by topic: of the last record read or, in own topics, written here."""
        self._agreement, self._store, self._bodies = agreement, store, bodies
        self._acquiring, self._effects_follower = acquiring, effects_follower
        self._pending_requests, self._log_publisher, self._duty = pending_requests, log_publisher, duty
        self._retained = RetainedPayloads(())
        self._stood = agreement.standing
        self._duty_saved: tuple[Handover, Handover] | None = store.duty()
        self._seed_saved: Seed | None = store.seed()
        self._recognised: dict[str, str] = {}
        """Ids of topics that are not saved yet."""
        self._anchors = anchors
        self._heard: dict[str, bytes] = {}
        """Incarnations of other masters as they are saved."""
        self.rejoined: RejoinReport | None = None
        """What this master gave up last; None: nothing since its start."""
        self._unanchored: set[str] = set()
        """Topics whose saved anchor is invalid."""

    def recognise(self, topic: str, identity: str) -> None:
        """Note the id of a topic whose position is saved from now on."""
        self._recognised[topic] = identity

    def forget(self, topic: str) -> None:
        """Note that the saved anchor of a topic is invalid: what was read is no longer in the topic."""
        self._unanchored.add(topic)

    def start(self, reached: Reached | None, said: Iterable[tuple[Place | Cut, int]]) -> None:
        """Resume in the agreed topic.

        `reached`: how far it was followed, if that is known; `said`: the records after that, each with its offset.
        """
        self._log_publisher.resume(reached, said, self._store.last_cut())
        self._retained = RetainedPayloads(
            kept for kept in self._store.kept() if kept[0] <= self._log_publisher.held
        )

    def save(self, save: Save) -> None:
        """Make a round durable, with everything that was heard so far."""
        decided, reached = self._effects_follower, self._log_publisher.reached
        if save.standing is not None:
            decided.apply_standing(save.standing)
        ledger = decided.ledger
        heard = {name: member.incarnation for name, member in self._agreement.members.items()}
        positions = {topic: intake.position for topic, intake in self._acquiring.topics.items()}
        positions[decided.topic] = decided.heard
        duty, seed = (self._duty.agreed, ledger.duty), ledger.seed
        unpublished = {entry.pair.key for entry in save.entries}
        unneeded = [key for key in save.released if key not in unpublished]
        if save.adopted is not None:
            adopted = save.adopted
            held = self._log_publisher.goes_along(
                adopted.joined_log.chain_at, kept=adopted.kept, last=adopted.last.index
            )
            reached = replace(reached, held=held)
            gave_way = max(0, self._store.last.index - adopted.kept)
            self.rejoined = RejoinReport(wall(), adopted.kept, gave_way, len(adopted.ended))
            self._retained.truncate(adopted.kept)
        else:
            unneeded += self._retained.release_up_to(self._releasable)
        self._store.save(
            save,
            payloads=self._bodies,
            taken=Taken(
                positions=positions,
                effects=(ledger.index, ledger.attempt, ledger.rewound),
                rejected=self._pending_requests.rejected,
                back=self._pending_requests.back,
                duty=duty if duty != self._duty_saved else None,
                seed=seed if seed != self._seed_saved else None,
                topics=self._recognised,
                heard=dict(heard.items() - self._heard.items()),
                anchors={**dict.fromkeys(self._unanchored), **self._anchors()},
                floor=decided.floor,
                reached=reached,
            ),
            unneeded=unneeded,
        )
        self._bodies.saved()
        self._pending_requests.saved()
        self._recognised = {}
        self._heard |= heard
        self._unanchored.clear()
        self._duty_saved, self._seed_saved = duty, seed
        if save.standing is not None:
            before, self._stood = self._stood, save.standing
            self._tell(before, save.standing)
            _tell_settings(before, save.standing, save.adopted)
            for phase in phases(before, save.standing):
                visit(phase)

    @property
    def _releasable(self) -> int:
        """Index up to which no payload is needed again.

        A synchronous transaction may be set aside, and is then submitted again, until its outcome is known.
        """
        agreement = self._agreement
        if not agreement.limbo.begins_at and not agreement.settings.sync_graphs:
            return agreement.settled
        return min(agreement.settled, agreement.known_outcomes)

    def _tell(self, before: HardState, after: HardState) -> None:
        """Log what an operator needs to find the reason of a split."""
        if lost := given_up(before, after):
            moment, heard_at = now().steady, self._agreement.heard_at
            silent = {name: round((moment - heard_at[name]) / 1000, 1) for name in lost if name in heard_at}
            log.warning("members_given_up", members=sorted(lost), epoch=before.view.epoch, silent_s=silent)
        if after.view != before.view:
            log.info("view_installed", epoch=after.view.epoch, members=after.view.members)

    def truncate(self, save: Save, adopted: Adopted) -> None:
        """Notify all parts that follow the log that it was replaced after an entry, and that this is saved."""
        cut = self._store.last_cut()
        assert cut is not None, "it is saved with what was adopted"
        gave_way = 0 if self.rejoined is None else self.rejoined.gave_way
        log.info("log_adopted", kept=adopted.kept, last=adopted.last.index, gave_way=gave_way)
        self._effects_follower.truncate(adopted.kept)
        self._pending_requests.truncate(
            adopted.kept,
            waits=self._agreement.queue.__contains__,
            dequeued=[pair.id for pair in save.dequeued],
        )
        self._retain(self._log_publisher.truncate(cut, adopted.last.index))

    def publish(self, entry: Entry) -> None:
        """Have a saved entry written to the agreed topic, unless that holds it."""
        self._retain(self._log_publisher.write(entry))

    def published(self, place: Place | Cut, offset: int, *, mine: bool = True) -> None:
        """Note that the agreed topic goes as far as this place.

        Bodies are kept nowhere else from then on, unless they may have to wait again.
        """
        self._retain(self._log_publisher.holds(place, offset, mine=mine))

    def _retain(self, held: Sequence[tuple[int, Key]]) -> None:
        self._retained.add(held)
        for _, key in held:
            self._bodies.drop(key)

    def release(self, ready: Ready) -> None:
        """Release what is no longer needed after a `Ready` was performed."""
        self._pending_requests.agreed(ready.entries, self._bodies, confirms=self._agreement.confirms)
        if ids := {entry.pair.id for entry in ready.entries}:
            self._acquiring.synchronised(ids)
        for key in ready.save.released:
            self._bodies.drop(key)


def _tell_settings(before: HardState, after: HardState, adopted: Adopted | None) -> None:
    """Log which settings were changed, and which changes ended with a branch."""
    had, have = ({one.name: one for one in standing.settings} for standing in (before, after))
    for name, one in have.items():
        if one != had.get(name):
            was = had[name].value if name in had else None
            log.info("setting_changed", name=name, was=was, value=one.value, by=one.by, index=one.index)
    if adopted is None:
        return
    for name, one in had.items():
        if one.index > adopted.kept and one != have.get(name):
            log.warning("setting_revoked", name=name, value=one.value, by=one.by, index=one.index)
