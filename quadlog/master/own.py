"""The topics of a master's own data centre, and its store: at a start they have to know of each other."""

from __future__ import annotations

import shutil
import time
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from consumers import rounds
from quadlog.anchors import Anchor, Gap
from quadlog.broker import STARTING_S, Admin, backwards, beginning_of, end_of, records_between
from quadlog.errors import TopicLost
from quadlog.master.foreign import understood
from quadlog.master.superseded import marked, unmark
from quadlog.master.tails import ROUNDS_READ_BACK
from quadlog.store import MasterStore
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.ports import Record
    from quadlog.settings import MasterSettings

log = structlog.get_logger()

STORE: Final = "rocksdb"
"""In a master's data-dir."""
FIRST: Final = 50
"""Posts at the beginning of the topic that are looked at: a rebuild says one for each master."""
FURTHEST: Final = 100_000
"""Posts of others behind the last own one, at most, that are looked through for it."""
SOON_S: Final = 3.0
"""Until a topic that is not there is gone."""
_VOID: Final = "rocksdb.void"
"""What a rebuild made void; the newest one is kept."""


def prepare_topics(settings: MasterSettings) -> None:
    """Make what is missing; say what is there and should be set otherwise."""
    admin, topics = Admin(settings.kafka), Topics(settings.repository, settings.dc)
    config = {
        "retention.ms": "-1",
        "min.insync.replicas": str(max(1, settings.kafka_replication - 1)),
    }
    warnings = admin.ensure(topics.followed, replication=settings.kafka_replication, config=config)
    warnings += admin.ensure(
        [topics.status], replication=settings.kafka_replication, config=config | {"retention.ms": "3600000"}
    )
    warnings += admin.ensure(
        [topics.checkpoint],
        replication=settings.kafka_replication,
        config=config | {"cleanup.policy": "compact"},
    )
    for warning in warnings:
        log.warning(warning)


def open_store(settings: MasterSettings) -> MasterStore:
    """What this master remembers, if its data centre's topics are those that it knew.

    Where `quadlog dc rebuild` made them anew since, a later incarnation of it has spoken there, and what it remembers
    is void: it begins as a new one.  So does one that has said more there than it remembers: its disk is an older
    copy, restored from a backup, and knows not of what it voted for and promised since.

    Raises:
        TopicLost: they are not, and nobody rebuilt them.
        SetupError: another process holds the store, or it cannot be made.
        Unavailable: no broker answers.

    """
    topics, path = Topics(settings.repository, settings.dc), settings.data_dir / STORE
    said, mark = last_said(settings.kafka, topics, settings.node_id), marked(settings.data_dir)
    if mark is not None:
        said = Said(mark, 0) if said is None else max(said, Said(mark, 0))
    newest = None if said is None else said.incarnation
    store = MasterStore(path, before=lambda: _before(settings, topics, newest))
    if said is None or said <= Said(store.incarnation, store.sequence):
        if losses := lost_topics(settings, store):
            store.close()
            raise TopicLost("; ".join(losses))
        unmark(settings.data_dir)
        return store
    store.close()
    log.warning(
        "this master has said more than its disk remembers: it is void, and it begins as one that lost its disk",
        kept=_VOID,
        sequence=said.sequence,
    )
    void = path.with_name(_VOID)
    shutil.rmtree(void, ignore_errors=True)
    path.rename(void)
    begun = MasterStore(path, before=lambda: newest)
    unmark(settings.data_dir)
    return begun


def _before(settings: MasterSettings, topics: Topics, newest: bytes | None) -> bytes | None:
    """Of this master as its own topic knows it, where it has no disk that does.

    Raises:
        TopicLost: there is a log, and nobody ever posted: a rebuild was broken off.

    """
    there = Admin(settings.kafka).ids(topics.followed)
    has = {topic: topic in there and _ends(settings.kafka, topic) > 0 for topic in topics.followed}
    if newest is None and has[topics.agreed] and not has[topics.rounds]:
        raise TopicLost(f"{topics.agreed} has a log, and no master has ever posted to {topics.rounds}")
    return newest


def _ends(kafka: str, topic: str) -> int:
    return end_of(kafka, topic, count=0, timeout=STARTING_S)[0]


class Said(NamedTuple):
    """A post: later ones are greater."""

    incarnation: bytes
    sequence: int


def last_said(kafka: str, topics: Topics, node: str) -> Said | None:
    """The last post of a master that its own data centre has, of its newest incarnation; None: there is none.

    Where others post there too and it was away for long, its own last one may be far back.
    """
    if topics.rounds not in Admin(kafka).ids([topics.rounds]):
        return None
    end, newest = end_of(kafka, topics.rounds, count=ROUNDS_READ_BACK, timeout=STARTING_S)
    first = beginning_of(kafka, topics.rounds)  # where a rebuild says its own
    oldest = records_between(kafka, topics.rounds, first, min(first + FIRST, end))
    if said := max(_said(node, (*newest, *oldest)), default=None):
        return said
    return next(iter(_said(node, islice(backwards(kafka, topics.rounds, end), FURTHEST))), None)


def _said(node: str, records: Iterable[Record]) -> Iterator[Said]:
    own = (record for record in records if record.key == node.encode())
    return (Said(post.incarnation, post.sequence) for _, post in understood(own, rounds.hear))


def _ids(admin: Admin, topics: Topics, store: MasterStore) -> dict[str, str]:
    """Of the topics that are there.  A broker that was just started may not know them all for a moment."""
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
    """What of its own data centre's topics is not as a master left it; one reason for each."""
    topics = Topics(settings.repository, settings.dc)
    ids, reached = _ids(Admin(settings.kafka), topics, store), store.reached()
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
    return losses


def _gap(kafka: str, topic: str, anchor: Anchor | None) -> Gap | None:
    """Whether the last record that was read there is not there any more."""
    if anchor is None:
        return None
    begins, (ends, _) = beginning_of(kafka, topic), end_of(kafka, topic, count=0, timeout=STARTING_S)
    gap = Gap(read=anchor.offset + 1, begins=begins, ends=ends)
    if ends <= anchor.offset:
        return gap
    found = records_between(kafka, topic, anchor.offset, anchor.offset + 1) if begins <= anchor.offset else ()
    is_other = any(record.offset == anchor.offset and Anchor.of(record) != anchor for record in found)
    return gap if is_other else None
