"""The topics of a master's own data centre, and its store: at a start they have to know of each other."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from consumers import rounds
from quadlog.anchors import Anchor, Gap
from quadlog.aside import set_aside
from quadlog.broker import STARTING_S, Admin, backwards, beginning_of, end_of, records_between
from quadlog.broker.topic_settings import SAFE_REPLICATION, config_of, rules_of
from quadlog.damage import is_damage
from quadlog.errors import ForeignRecord, SetupError, StoreDamaged, TopicLost
from quadlog.master.recovery.superseded import marked, unmark
from quadlog.master.topics.foreign import understood
from quadlog.master.topics.sites import Sites
from quadlog.master.topics.tails import ROUNDS_READ_BACK
from quadlog.masterstore.store import MasterStore
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from quadlog.core.model import Post
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
FLYING_S: Final = 0.5
"""What a process said that was just killed may still arrive for so long."""
IDLE_ROUNDS: Final = 2.5
"""Within which a master that lives has posted."""
DAMAGE: Final = "rocksdb-damage"
"""A file in a master's data-dir: what a master met that ran.  At its next start the store is set aside."""
_VOID: Final = "rocksdb.void"
"""What a rebuild made void; the newest one is kept."""


def prepare_topics(settings: MasterSettings) -> None:
    """Create the topics that are missing; `TopicMonitor` tells what is wrong with those that exist."""
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
    """What this master remembers, if its data centre's topics are those that it knew.

    Where `quadlog dc rebuild` made them anew since, a later incarnation of it has spoken there, and what it remembers
    is void: it begins as a new one.  So does one that has said more there than it remembers: its disk is an older
    copy, restored from a backup, and knows not of what it voted for and promised since.  And so does one that its peers
    do not count any more (`superseded`), unless its topics went back and its disk did not: they are rebuilt first.

    Raises:
        TopicLost: they are not, and nobody rebuilt them.
        StoreDamaged: its store is, and cannot be set aside.
        SetupError: another process holds the store, or it cannot be made; or this master has no disk, and the topics
            are another cluster's, or another process posts as this master.
        Unavailable: no broker answers.

    """
    topics, path = Topics(settings.repository, settings.dc), settings.data_dir / STORE
    said, mark = last_said(settings.kafka, topics, settings.node_id), marked(settings.data_dir)
    if not path.exists() and mark is None:
        refuse_taken_topics(settings, topics)
    known = said if mark is None else max(said or Said(mark, 0), Said(mark, 0))
    newest = None if known is None else known.incarnation
    store = _opened(settings, path, lambda: _before(settings, topics, newest))
    remembered = Said(store.incarnation, store.sequence)
    # What spoke here later than this store knew of these topics as they are now: a rebuild, or an older disk's owner.
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
    """Refuse to begin without a disk in topics that another cluster uses, or another process with this node-id.

    Raises:
        SetupError: they are in use.
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
    """Whoever has the same node-id and lives posts within an idle round."""
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
    """Where a master ended because of its store: that may open without a complaint, and is set aside all the same."""
    if is_damage(reason):
        path = settings.data_dir / STORE
        path.with_name(DAMAGE).write_text(f"{reason}\n")
        log.error("store_damaged", directory=str(path), error=reason, what_to_do="start this master again")


def _refuse_marked(mark: Path) -> None:
    if mark.exists():
        raise StoreDamaged(mark.read_text().strip())


def _opened(settings: MasterSettings, path: Path, before: Callable[[], bytes | None]) -> MasterStore:
    """A damaged one is set aside, and this master begins as one that lost its disk: others know what it promised."""
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
    """Of this master as its own topic knows it, where it has no disk that does.

    Raises:
        TopicLost: there is a log, and nobody ever posted: a rebuild was broken off.

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
