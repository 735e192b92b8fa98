"""Consistency of a master's store and the topics of its own data centre, checked at a start."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from consumers import rounds
from quadlog.anchors import Anchor, Gap
from quadlog.broker import STARTING_S, Admin, backwards, beginning_of, end_of, records_between
from quadlog.broker.topic_settings import SAFE_REPLICATION, config_of, rules_of
from quadlog.damage import is_damage
from quadlog.errors import ForeignRecord, SetupError, StoreDamaged, TopicLost
from quadlog.master.recovery.superseded import marked, unmark
from quadlog.master.topics.foreign_records import understood
from quadlog.master.topics.sites import Sites
from quadlog.master.topics.tails import ROUNDS_READ_BACK
from quadlog.masterstore.store import MasterStore
from quadlog.set_aside import set_aside
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from quadlog.core.model import Post
    from quadlog.ports import Record
    from quadlog.settings import MasterSettings

log = structlog.get_logger()

STORE: Final = "rocksdb"
"""Name of the store in a master's data-dir."""
FIRST: Final = 50
"""Number of posts that are read at the beginning of the topic: a rebuild publishes one for each master there."""
FURTHEST: Final = 100_000
"""Maximum records at the end of the topic that are searched for the last own post."""
SOON_S: Final = 3.0
"""Seconds until a missing topic counts as deleted."""
FLYING_S: Final = 0.5
"""Seconds for which records of a process that was just killed may still arrive."""
IDLE_ROUNDS: Final = 2.5
"""Idle rounds within which a running master has posted."""
DAMAGE: Final = "rocksdb-damage"
"""File in a master's data-dir: damage that a running master found.  At its next start, the store is set aside."""
_VOID: Final = "rocksdb.void"
"""Name of a store that became void; only the newest one is kept."""


def prepare_topics(settings: MasterSettings) -> None:
    """Create the missing topics; `TopicMonitor` reports what is wrong with existing ones."""
    admin, topics = Admin(settings.kafka), Topics(settings.repository, settings.dc)
    replication = settings.kafka_replication
    for rules, alike in groupby(rules_of(topics).items(), key=lambda item: item[1]):
        config = config_of(rules, replication=replication)
        low = admin.ensure([topic for topic, _ in alike], replication=replication, config=config)
        for topic, factor in low.items():
            log.warning(
                "replication_factor_low",
                topic=topic,
                replication_factor=factor,
                what_to_do=f"set it to {SAFE_REPLICATION}: a lost disk loses what was acknowledged",
            )


def open_store(settings: MasterSettings) -> MasterStore:
    """Open this master's store, if its data centre's topics are those that it knew.

    The store becomes void, and the master begins as a new one, in three cases.  `quadlog dc rebuild`
    re-created the topics: a later incarnation of this master has posted there.  The topics have newer posts
    of this master than the store: its disk is an older copy, restored from a backup, and lacks later votes
    and promises.  The peers do not count this master any more (`superseded`), unless its topics went back and
    its disk did not: then the topics must be rebuilt first.

    Raises:
        TopicLost: the topics are not those that it knew, and were not rebuilt.
        StoreDamaged: the store is damaged, and cannot be set aside.
        SetupError: another process holds the store, or the store cannot be created; or this master has no
            disk, and the topics belong to another cluster, or another process posts as this master.
        Unavailable: no broker answers.

    """
    topics, path = Topics(settings.repository, settings.dc), settings.data_dir / STORE
    said, mark = last_said(settings.kafka, topics, settings.node_id), marked(settings.data_dir)
    if not path.exists() and mark is None:
        refuse_taken_topics(settings, topics)
    known = said if mark is None else max(said or PostOrder(mark, 0), PostOrder(mark, 0))
    newest = None if known is None else known.incarnation
    store = _opened(settings, path, lambda: _before(settings, topics, newest))
    remembered = PostOrder(store.incarnation, store.sequence)
    # A post in these topics that is newer than this store is of a rebuild, or of the owner of an older disk.
    if (said is None or said <= remembered) and (losses := lost_topics(settings, store)):
        store.close()
        raise TopicLost("; ".join(losses))
    if known is None or known <= remembered:
        unmark(settings.data_dir)
        return store
    store.close()
    log.warning(
        "store_voided",
        kept=_VOID,
        sequence=known.sequence,
    )
    void = path.with_name(_VOID)
    shutil.rmtree(void, ignore_errors=True)
    path.rename(void)
    begun = MasterStore(path, before=lambda: newest)
    unmark(settings.data_dir)
    return begun


def refuse_taken_topics(settings: MasterSettings, topics: Topics) -> None:
    """Refuse to start without a disk if another cluster, or another process with this node-id, uses the topics.

    Raises:
        SetupError: the topics are in use.
        Unavailable: no broker answers.

    """
    if topics.rounds not in Admin(settings.kafka).ids([topics.rounds]):
        return
    _, records = end_of(settings.kafka, topics.rounds, count=ROUNDS_READ_BACK, timeout=STARTING_S)
    posts = list(_posts(records))
    named = Sites(settings).dc_of
    strangers = sorted({name for post in posts[-1:] for name in post.view.members if name not in named})
    if strangers:
        raise SetupError(
            f"{topics.rounds} at {settings.kafka} is in use by {', '.join(strangers)}, which these settings do not"
            f" name, and this master has no disk: another cluster has the repository {settings.repository!r} there."
            " Give this one another 'repository', or another Kafka; or, if they are one cluster, name all masters"
            " (peer.N). Nothing was changed"
        )
    if any(post.node == settings.node_id and post.view.members for post in posts):
        _refuse_a_living_twin(settings, topics)


def _posts(records: Iterable[Record]) -> Iterator[Post]:
    for record in records:
        with suppress(ForeignRecord):
            yield rounds.hear(record)


def _refuse_a_living_twin(settings: MasterSettings, topics: Topics) -> None:
    """Refuse to start if another running process has this node-id: it posts within an idle round."""
    time.sleep(FLYING_S)
    end = _ends(settings.kafka, topics.rounds)
    deadline = time.monotonic() + IDLE_ROUNDS * settings.idle_round
    while time.monotonic() < deadline:
        time.sleep(0.2)
        now_end, newest = end_of(settings.kafka, topics.rounds, count=ROUNDS_READ_BACK, timeout=STARTING_S)
        mine = [one for one in newest if one.offset >= end and one.key == settings.node_id.encode()]
        if mine:
            raise SetupError(
                f"another process posts as {settings.node_id} to {topics.rounds} at {settings.kafka} (offset"
                f" {mine[-1].offset}), and this master has no disk: another cluster has the repository"
                f" {settings.repository!r} there, or the same master runs twice. Give this one another 'repository' or"
                " 'node-id', or stop the other one. Nothing was changed"
            )
        end = max(end, now_end)


def note_damage(settings: MasterSettings, reason: str) -> None:
    """Record that a damaged store ended this master: it must be set aside even if it opens without an error."""
    if is_damage(reason):
        path = settings.data_dir / STORE
        path.with_name(DAMAGE).write_text(f"{reason}\n")
        log.error("store_damaged", directory=str(path), error=reason, what_to_do="start this master again")


def _refuse_marked(mark: Path) -> None:
    if mark.exists():
        raise StoreDamaged(mark.read_text().strip())


def _opened(settings: MasterSettings, path: Path, before: Callable[[], bytes | None]) -> MasterStore:
    """Open the store; set a damaged one aside and start as after a lost disk: others know what this master promised."""
    mark = path.with_name(DAMAGE)
    try:
        _refuse_marked(mark)
        return MasterStore(path, before=before)
    except StoreDamaged as error:
        if all(peer.dc == settings.dc for peer in settings.peer.values()):
            raise StoreDamaged(
                f"{path} is damaged ({error}), and no other data centre knows what this master promised: nothing was"
                " changed. Restore its data-dir from a backup of that disk; or begin a new repository, and import what"
                " `quadlog export` or a backup of a worker has"
            ) from error
        set_aside(path, error)
        mark.unlink(missing_ok=True)
        log.warning("incarnation_started", reason="its store was damaged")
        return MasterStore(path, before=before)


def _before(settings: MasterSettings, topics: Topics, newest: bytes | None) -> bytes | None:
    """Return `newest`, the newest incarnation of this master in its topics, if the topics are complete enough.

    Raises:
        TopicLost: the topics have a log, but no posts: a rebuild was interrupted; or the oldest posts were
            deleted, and none of this master remains.

    """
    there = Admin(settings.kafka).ids(topics.followed)
    has = {topic: topic in there and _ends(settings.kafka, topic) > 0 for topic in topics.followed}
    if newest is None and has[topics.agreed] and not has[topics.rounds]:
        raise TopicLost(f"{topics.agreed} has a log, and no master has ever posted to {topics.rounds}")
    if newest is None and has[topics.rounds] and (first := _beginning(settings.kafka, topics.rounds)):
        raise TopicLost(
            f"{topics.rounds} begins at offset {first} and has no post of {settings.node_id}, whose disk is new: what"
            " it promised before is not known"
        )
    return newest


def _ends(kafka: str, topic: str) -> int:
    return end_of(kafka, topic, count=0, timeout=STARTING_S)[0]


def _beginning(kafka: str, topic: str) -> int:
    return beginning_of(kafka, topic, timeout=STARTING_S)


class PostOrder(NamedTuple):
    """Place of a post: later posts compare greater."""

    incarnation: bytes
    sequence: int


def last_said(kafka: str, topics: Topics, node: str) -> PostOrder | None:
    """Return the last post of a master's newest incarnation in its own data centre, or None.

    If other masters post there too, and this one was away for long, its last post may be far back.
    """
    if topics.rounds not in Admin(kafka).ids([topics.rounds]):
        return None
    end, newest = end_of(kafka, topics.rounds, count=ROUNDS_READ_BACK, timeout=STARTING_S)
    first = beginning_of(kafka, topics.rounds)  # a rebuild publishes its posts there
    oldest = records_between(kafka, topics.rounds, first, min(first + FIRST, end))
    if said := max(_said(node, (*newest, *oldest)), default=None):
        return said
    return next(iter(_said(node, islice(backwards(kafka, topics.rounds, end), FURTHEST))), None)


def _said(node: str, records: Iterable[Record]) -> Iterator[PostOrder]:
    own = (record for record in records if record.key == node.encode())
    return (PostOrder(post.incarnation, post.sequence) for _, post in understood(own, rounds.hear))


def _ids(admin: Admin, topics: Topics, store: MasterStore) -> dict[str, str]:
    """Return the ids of existing topics.  A broker that was just started may not know all of them for a moment."""
    deadline = time.monotonic() + SOON_S
    while True:
        ids = admin.ids(topics.followed)
        missing = [
            topic for topic in topics.followed if topic not in ids and store.topic_id(topic) is not None
        ]
        if not missing or time.monotonic() > deadline:
            return ids
        time.sleep(0.2)


def lost_topics(settings: MasterSettings, store: MasterStore) -> list[str]:
    """Return a reason for each topic of the local data centre that is not as this master left it."""
    topics = Topics(settings.repository, settings.dc)
    ids, reached = _ids(Admin(settings.kafka), topics, store), store.reached()
    may_begin_later = () if store.is_new else (topics.agreed, topics.effects)
    read = {
        topics.payloads: store.position(topics.payloads) or 0,
        topics.effects: store.position(topics.effects) or 0,
        topics.agreed: 0 if reached is None else reached.offset,
    }
    losses: list[str] = []
    for topic in topics.followed:
        known, at = store.topic_id(topic), read.get(topic, 0)
        if topic not in ids:
            if known is not None or at:
                losses.append(f"{topic} is gone")
        elif known not in (None, ids[topic]):
            losses.append(f"{topic} is another topic than the one that was read")
        elif at and (end := _ends(settings.kafka, topic)) < at:
            losses.append(f"{topic} ends at offset {end}, and was read up to {at}")
        elif gap := _gap(settings.kafka, topic, store.anchor(topic)):
            losses.append(f"{topic} {gap}")
        elif topic in may_begin_later and (beginning := _beginning(settings.kafka, topic)) > at:
            losses.append(
                f"{topic} begins at offset {beginning}, and this master needs it from offset {at} on: the records"
                " between were deleted (see retention.ms, retention.bytes and cleanup.policy of the topic)"
            )
    return losses


def _gap(kafka: str, topic: str, anchor: Anchor | None) -> Gap | None:
    """Return the gap if the last record that was read there is missing or was replaced, or None."""
    if anchor is None:
        return None
    begins, (ends, _) = beginning_of(kafka, topic), end_of(kafka, topic, count=0, timeout=STARTING_S)
    gap = Gap(read=anchor.offset + 1, begins=begins, ends=ends)
    if ends <= anchor.offset:
        return gap
    found = records_between(kafka, topic, anchor.offset, anchor.offset + 1) if begins <= anchor.offset else ()
    is_other = any(record.offset == anchor.offset and Anchor.of(record) != anchor for record in found)
    return gap if is_other else None
