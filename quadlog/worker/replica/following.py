"""Following: a worker reads its two topics, and applies each effect together with its entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from quadlog.clock import now
from quadlog.core.effects import control, signature
from quadlog.core.records import Cut, Effect, Fence, Handover, LoggedEntry, Rewind, Seed
from quadlog.errors import ForeignRecord, StateError, Unavailable
from quadlog.quadstore.applied import Applied, InAgreed, InEffects
from quadlog.quadstore.commit import UpdateTexts, net_of
from quadlog.worker.replica.commits import Commits
from quadlog.worker.replica.out_of_log import Gaps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quadlog import codec
    from quadlog.ports import Record
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.topics import Topics
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.repair.health import Health
    from quadlog.worker.replica.backlog import CountedRecords
    from quadlog.worker.replica.evaluator_term import EvaluatorTerm
    from quadlog.worker.replica.host import Host
    from quadlog.worker.replica.rewind_handler import RewindHandler

log = structlog.get_logger()

T = TypeVar("T")

FED_MS: Final = 1_000.0
"""Milliseconds after an entry during which more entries are expected."""


class Following:
    """Reader of the two topics that applies effects.  Used only by the replica's thread."""

    def __init__(
        self,
        *,
        topics: Topics,
        store: QuadStore,
        feed: Feed,
        counted_records: CountedRecords,
        evaluator_term: EvaluatorTerm,
        returning: RewindHandler,
        health: Health,
        host: Host,
    ) -> None:
        """Continue after what the store has applied."""
        self._topics, self._store, self._feed, self._counted_records = topics, store, feed, counted_records
        self.commits: Final = Commits(store)
        self._evaluator_term, self._returning, self._host = evaluator_term, returning, host
        self._health = health
        self._lacking: Seed | None = None
        """The seed that the log begins with and the store lacks: nothing is applied, evaluated or served."""
        self._stranger = 0
        """Index of the effect that waits for a cut or a rewind; 0: none."""
        self._gaps: Final = Gaps(counted_records, topics, store.applied, host.lacks_records)
        self._is_fed, self._fed_at = False, float("-inf")
        """True if an entry was received since the last check, and the time of the last check that found one, in
        steady milliseconds."""
        self.has_more = False
        """True if there may be another batch to apply, even if no record arrives."""
        self.full: frozenset[str] = frozenset()
        """Topics of which no more records should be delivered for now; any thread may read it."""

    @property
    def is_seedless(self) -> bool:
        """True if the store lacks the seed that the log begins with."""
        return self._lacking is not None

    @property
    def is_idle(self) -> bool:
        """True if nothing more is applied: the next process must take over, with another store."""
        is_lost = self._returning.is_lost or self._gaps.is_hole
        return self.is_seedless or is_lost or self._health.branch is not None

    @property
    def goes_on(self) -> bool:
        """True if anything may be applied or evaluated on top of the store's state."""
        return not self.is_idle and not self._store.half_undone

    def _look_whether_full(self) -> None:
        """Update `full`: enough entries wait for effects, or enough effects to be applied or for entries that arrive.

        Entries that wait before a cut may be of the branch and never get effects, so the cut must be read.
        Where nothing is applied, a rewind may be missing, and must be read: if the store is half undone, if the
        waiting entries are not those of the effects, and if no more entries arrive.
        """
        if self.is_idle:
            self.full = frozenset({self._topics.agreed, self._topics.effects})
            return
        backlog, full = self._counted_records.backlog, set[str]()
        if self._is_fed:
            self._is_fed, self._fed_at = False, now().steady
        if self._counted_records.is_cut and backlog.is_full:
            full.add(self._topics.agreed)
        is_fed = self.has_more or now().steady < self._fed_at + FED_MS
        if backlog.is_rich and is_fed and self.goes_on and not backlog.stranger:
            full.add(self._topics.effects)
        self.full = frozenset(full)

    def refuse_unless_seeded(self) -> None:
        """Check, before a read, that the store does not lack the log's seed.

        Raises:
            Unavailable: the store lacks the seed that the log begins with.

        """
        if self.is_seedless:
            raise Unavailable(
                "this worker lacks the seed that the log begins with; ask another one", retry_after=2
            )

    # --- reading ------------------------------------------------------------------------------------

    def on_record(self, record: Record, part: codec.Part | None = None) -> None:
        """Process the next record of either topic; `part`: its value as decoded by `codec.decode_ahead`."""
        if self.is_idle:
            return  # the next process reads it again
        self._gaps.note(record)
        if record.topic == self._topics.agreed:
            self._hear_agreed(record, part)
        else:
            self._hear_effects(record, part)

    def _hear_agreed(self, record: Record, part: codec.Part | None) -> None:
        agreed, backlog = self._counted_records.agreed, self._counted_records.backlog
        self._counted_records.agreed_offset = record.offset + 1
        said = _understood(record, part, agreed.on_record)
        self._gaps.heard(record, counts=said is not None)
        match said:
            case LoggedEntry() as entry:
                self._is_fed = True
                backlog.add_entry(entry, InAgreed(record.offset + 1, agreed.last, entry.epoch))
            case Cut() as cut:
                self.commits.wait()
                log.info("log_cut", behind=cut.index, epoch=cut.epoch)
                backlog.truncate(cut.index)
                self._evaluator_term.meet_cut(cut.epoch)
            case None:
                pass

    def _hear_effects(self, record: Record, part: codec.Part | None) -> None:
        effects = self._counted_records.effects
        try:
            said = _understood(record, part, effects.on_record)
        except StateError:
            if self._gaps.explains(record.topic):
                return
            raise
        self._gaps.heard(record, counts=said is not None)
        if said is None:
            return
        if isinstance(said, Effect):
            behind = InEffects(record.offset + 1, effects.order, effects.rewound, effects.cut)
            self._counted_records.backlog.add_effect(said, behind)
            return
        self.commits.wait()
        match said:
            case Fence() as fence:
                self._evaluator_term.meet(fence)
            case Handover() as handover:
                self._evaluator_term.on_handover(handover)
            case Rewind() as rewind:
                self._returning.go_back(rewind, record.offset + 1)
            case Seed() as seed:
                if self._host.lacks(seed):
                    self._lacking = seed
                    self._evaluator_term.retire()

    # --- applying -----------------------------------------------------------------------------------

    def apply(self) -> None:
        """Apply a batch of the effects whose entries were received, in one commit.

        The commit may still run on return, if there is another batch, this worker has no duty, and
        `RewindHandler.owes` is False.
        """
        self._apply()
        if self._host.stretch is not None:
            self._host.stretch.note(self._store.applied.index, now().steady)
        self._look_whether_full()

    def _apply(self) -> None:
        commits, backlog = self.commits, self._counted_records.backlog
        self._returning.take_up()
        pairs = backlog.batch(commits.last.point)
        self.has_more = False
        if not pairs:
            commits.wait()
            self._tell_of(backlog.stranger)
        if not pairs or not self.goes_on:
            return
        effects = [pair.effect for pair in pairs]
        lines, anticipated = self._evaluator_term.due(effects)
        self._check_signatures(effects)
        last = pairs[-1]
        applied = Applied.after(last.effect, last.in_agreed, last.in_effects)
        controls = control.changes_of((pair.entry, pair.effect) for pair in pairs)
        updates = UpdateTexts.of(net_of(lines))
        commits.wait()
        self._feed.add(effects, applied)
        backlog.drop(applied.index)
        self.has_more = backlog.has_effects and backlog.first_entry is not None
        aside = self.has_more and not self._evaluator_term.has_duty and not self._returning.owes
        commits.commit(updates, applied, anticipated=anticipated, controls=controls, aside=aside)
        self._evaluator_term.applied(effects)

    def _tell_of(self, stranger: int) -> None:
        """Log an effect that waits for a cut or a rewind: if it waits long, this shows why nothing is applied."""
        if stranger and stranger != self._stranger:
            log.info("effect_deferred", index=stranger)
        self._stranger = stranger

    def _check_signatures(self, effects: Sequence[Effect]) -> None:
        """Raise StateError unless each effect leads from the signature before it to the one that it states."""
        after = self.commits.last.signature
        for effect in effects:
            after = signature.after(after, effect)
            if after.to_bytes(32, "big") != effect.signature_after:
                message = (
                    f"the signature after entry {effect.index} ({effect.id.hex()}) is {after:064x} here and"
                    f" {effect.signature_after.hex()} in its effect: this worker has to be rebuilt"
                )
                raise StateError(message)


def _understood(
    record: Record, part: codec.Part | None, hear: Callable[[Record, codec.Part | None], T]
) -> T | None:
    """Return what `hear` returns for a record.

    A record of another program is skipped with a warning: an error would recur at each start.
    """
    try:
        return hear(record, part)
    except ForeignRecord as error:
        log.warning("record_skipped", topic=record.topic, offset=record.offset, error=str(error))
        return None
