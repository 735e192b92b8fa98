"""Trimming: shortens the agreed and the effects topic of a data centre to the log's limits (decision 34).

An entry is deleted if it is beyond a limit and has been received by every worker that was ever heard and
every member of the view, as their posts state.  Above the hard limit, entries are not kept for workers.
Nothing is deleted during a vote, while a side gives way or a worker goes back, while a peer is not in the
view, or while the view holds no majority: as long as entries may be cut, their content is needed.

Before anything is deleted, a checkpoint is published (decision 35): the saved state of this master, once no
entry of it can be cut any more and all of them are in the topics.  A master that loses its disk continues
there.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.broker import Admin, beginning_of, end_of, offset_at, ranges
from quadlog.broker.places import Places, index_of_effect, index_of_entry
from quadlog.clock import wall
from quadlog.core.limits import LogLimits, Needs, cutoff
from quadlog.core.records import Checkpoint, EffectsPlace
from quadlog.errors import QuadlogError, Unavailable
from quadlog.replay.job import run_job
from quadlog.replay.stretches import Stretches
from quadlog.snapshots.backups import backups_in, log_of, looked_through

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.master.effects.effects_follower import EffectsFollower
    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Acked
    from quadlog.settings import MasterSettings
    from quadlog.topics import Topics

log = structlog.get_logger()

LEAST: Final = 100
"""Minimum entries for which the topics are shortened."""
ARCHIVED: Final = 10_000
"""With an archive, the minimum is a tenth of the size limit, at most this: each time, Spark is started."""
ACKED_S: Final = 30.0
"""Seconds within which Kafka must acknowledge a checkpoint."""
KEPT: Final = 2
"""Number of backups that the log is kept for: the newest one may turn out to be damaged when it is needed."""
NEWEST: Final = "the newest backups"
UNREADABLE: Final = "backups that cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Log of this data centre at the time of a check."""

    last: int
    """Index of the newest entry."""
    needs: Needs
    settled: int
    """Index of the last entry that is never cut and that the agreed topic is known to contain."""


class Trimming:
    """Trimming by the master that leads.  `tick` is called by the node's thread; the rest runs in other threads."""

    def __init__(
        self,
        kafka: str,
        topics: Topics,
        limits: Callable[[], LogLimits],
        *,
        every_s: float,
        begin: Callable[[Callable[[], None]], None],
        say: Callable[[Checkpoint, Acked], None],
        chain_at: Callable[[int], bytes | None],
        archive: Callable[[int], Mapping[str, int]] | None = None,
        needs_of_backups: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """Prepare; the first check is after `every_s` seconds.

        `limits` returns the limits of the log, and `chain_at` the chain hash of the local entry at an index; any thread
        may call them.  `begin` runs a function in another thread, `say` publishes a checkpoint.  `archive` is as
        `archived_until`, by an index, and `needs_of_backups` as the function of this name; None: there are none.
        """
        self._kafka, self._topics, self._limits = kafka, topics, limits
        self._every_ms, self._begin = every_s * 1000, begin
        self._say, self._chain_at, self._archive = say, chain_at, archive
        self._needs_of_backups = needs_of_backups
        self._next_at: float | None = None
        self._checkpoint: Checkpoint | None = None
        """Checkpoint of this check, until all of its entries are settled."""
        self._is_busy = False
        self._index = 0
        """Index of the last deleted entry."""

    def tick(
        self,
        stock: Callable[[], Stock | None],
        saved: Callable[[], Checkpoint | None],
        moment: float,
        *,
        lacks_checkpoint: bool = False,
    ) -> None:
        """Check now and then whether entries may be deleted.

        `stock` returns None if nothing may be deleted; `saved`: the checkpoint for the state that is saved now, if
        there is one.  `lacks_checkpoint`: records are gone that no master deleted, and a checkpoint repairs that.
        """
        if self._is_busy or not (self._limits().is_any or lacks_checkpoint):
            return
        if self._next_at is None:
            self._next_at = moment + self._every_ms
        if self._checkpoint is None:
            if moment < self._next_at:
                return
            self._next_at = moment + self._every_ms
            self._checkpoint = saved()
        there, checkpoint = stock(), self._checkpoint
        if there is None or checkpoint is None:
            self._checkpoint = None
        elif there.settled >= checkpoint.last.index:
            self._checkpoint, self._is_busy = None, True
            self._begin(lambda: self._shorten(there, checkpoint, lacks_checkpoint=lacks_checkpoint))

    def _shorten(self, stock: Stock, checkpoint: Checkpoint, *, lacks_checkpoint: bool) -> None:
        try:
            is_of_this_log = self._chain_at(checkpoint.last.index) == checkpoint.last.chain
            if lacks_checkpoint and is_of_this_log:
                self._promise(checkpoint)
                log.warning(
                    "checkpoint_published", reason="records were deleted", index=checkpoint.last.index
                )
            if not self._limits().is_any:
                return
            index, kept_by = self._cutoff(stock)
            if index - self._index >= self._least and is_of_this_log:
                self._delete(index, checkpoint, kept_by)
        except QuadlogError as error:
            log.warning("log_trim_failed", reason=str(error))
        finally:
            self._is_busy = False

    def _cutoff(self, stock: Stock) -> tuple[int, tuple[str, ...]]:
        needs = stock.needs
        if self._needs_of_backups is not None:
            needs = Needs({**needs.workers, **self._needs_of_backups()}, needs.others)
        limits = self._limits()
        found = cutoff(stock.last, self._older(limits), limits, needs)
        return found.index, found.kept_by

    @property
    def _least(self) -> int:
        """Minimum entries for which the topics are shortened."""
        worth = min(ARCHIVED, (self._limits().size or ARCHIVED) // 10) if self._archive is not None else 0
        return max(LEAST, worth)

    def _older(self, limits: LogLimits) -> int:
        """Return the index of the newest effect that is older than the limit."""
        if limits.depth_s is None:
            return 0
        topic = self._topics.effects
        offset = offset_at(self._kafka, topic, wall() - round(limits.depth_s * 1000))
        with ranges(self._kafka, topic) as between:
            return Places(between, index_of_effect, beginning_of(self._kafka, topic)).last_before(offset)

    def _delete(self, index: int, checkpoint: Checkpoint, kept_by: tuple[str, ...]) -> None:
        archived: Mapping[str, int] = self._archive(index) if self._archive is not None else {}
        offsets: dict[str, int] = {}
        for topic, index_of, saved in (
            (self._topics.effects, index_of_effect, checkpoint.effects.offset),
            (self._topics.agreed, index_of_entry, checkpoint.reached.offset),
        ):
            beginning, (end, _) = beginning_of(self._kafka, topic), end_of(self._kafka, topic, count=0)
            with ranges(self._kafka, topic) as between:
                offset = Places(between, index_of, beginning).behind(index, min(saved, end))
            offsets[topic] = max(beginning, min(offset, saved, archived.get(topic, end)))
        self._promise(checkpoint)
        Admin(self._kafka).delete_before(offsets)
        self._index = index
        log.info(
            "log_trimmed",
            until=index,
            kept_by=",".join(kept_by),
            agreed=offsets[self._topics.agreed],
            effects=offsets[self._topics.effects],
        )

    def _promise(self, checkpoint: Checkpoint) -> None:
        is_there = threading.Event()
        self._say(checkpoint, lambda _: is_there.set())
        if not is_there.wait(ACKED_S):
            raise Unavailable(f"{self._topics.checkpoint} did not take a checkpoint within {ACKED_S:.0f} s")


def archived_until(directory: Path, settings: MasterSettings, topics: Topics, index: int) -> dict[str, int]:
    """Archive all entries up to an index that are not archived yet, by `quadlog archive` as a separate process.

    Returns:
        For the agreed and the effects topic, the offset before which all records are archived.

    Raises:
        QuadlogError: the entries cannot be archived, or not now.

    """
    run_job("archive", directory, settings, {"--until": str(index)})
    log_topics = [topics.agreed, topics.effects]
    ids = Admin(settings.kafka).ids(log_topics)
    return {topic: Stretches(directory, topic, ids[topic]).end if topic in ids else 0 for topic in log_topics}


def needs_of_backups(directory: Path, kafka: str, topics: Topics) -> dict[str, int]:
    """Return the last entry of the older of the two newest backups that the log continues; empty without backups.

    If the directory cannot be read, all entries are kept, as for a worker without a store.

    Raises:
        QuadlogError: Kafka does not report which records the topics have.

    """
    try:
        paths = backups_in(directory)
    except OSError as error:
        log.warning("backups_unreadable", directory=str(directory), reason=str(error))
        return {UNREADABLE: 0}
    usable, _ = looked_through(paths, log_of(kafka, topics))
    return {NEWEST: usable[:KEPT][-1].applied.index} if usable else {}


def checkpoint_in(store: MasterStore, topics: Topics) -> Checkpoint | None:
    """Return the checkpoint for the state that is saved now.  Called by the thread that writes the store.

    None: these topics were not followed yet, their ids are not known, or a log is being adopted.
    """
    if store.beside.is_moving:
        return None
    reached, offset = store.reached(), store.position(topics.effects)
    agreed_id, effects_id = store.topic_id(topics.agreed), store.topic_id(topics.effects)
    if reached is None or offset is None or agreed_id is None or effects_id is None:
        return None
    return Checkpoint(
        last=store.last,
        reached=reached,
        effects=EffectsPlace(offset, *store.effects()),
        duty=store.duty(),
        seed=store.seed(),
        agreed_id=agreed_id,
        effects_id=effects_id,
    )


def stock_of(
    agreement: Agreement, effects_follower: EffectsFollower, worker_registry: WorkerRegistry, *, held: int
) -> Stock | None:
    """Return the log at this time; None if a master or worker may need more than the known needs cover.

    `held`: index up to which the agreed topic is known to contain the log.
    """
    view, standing = agreement.view, agreement.standing
    said = [member.said for name in view.members if (member := agreement.members.get(name)) is not None]
    posts = [post for post in said if post is not None]
    workers = worker_registry.all()
    is_voting = standing.ballot is not None and standing.ballot.epoch > view.epoch
    if (
        is_voting
        or effects_follower.fork is not None
        or {peer.node for peer in agreement.peers} != set(view.members)
        or len(posts) < len(view.members)
        or any(post.effects.term != effects_follower.held.term for post in posts)
        or any(worker_registry.goes_back(worker.beat) for worker in workers)
    ):
        return None
    others = {post.node: post.effects.index for post in posts}
    return Stock(
        last=agreement.last.index,
        needs=Needs(
            {worker.beat.worker: worker.beat.applied.index for worker in workers if worker.beat.fork is None},
            others | {"what may be cut": agreement.settled},
        ),
        settled=min(agreement.settled, held),
    )
