"""Workers on a log in memory, turned by hand: the real replica, evaluator and store, without Kafka."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from producers.agreed import AgreedProducer
from producers.effects import EffectsProducer
from producers.status import StatusProducer
from quadlog import codec
from quadlog.core.effects.control import ControlKind, options_of
from quadlog.core.model import GENESIS, LogPosition, Transaction, TransactionKind, chain_hash, hash_of
from quadlog.core.records import Effect, LoggedEntry, Undecided
from quadlog.core.synchronous import COMMIT_MODE, CommitMode, decision_on
from quadlog.ports import Record
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings import WorkerSettings
from quadlog.topics import Topics
from quadlog.worker.evaluate.publish_health import PublishHealth
from quadlog.worker.reads.feed import Feed
from quadlog.worker.repair.health import Health
from quadlog.worker.repair.kept_branch import saved_branch
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from quadlog.worker.replica.host import Host, Publishers
from quadlog.worker.replica.replica import Replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from quadlog.core.records import Seed
    from quadlog.ports import Acked, Headers
    from quadlog.worker.seeds.seedbed import Seedbed

TOPICS = Topics("main", "dc1")
TERM = b"t" * 32


class Log:
    """Topics as lists."""

    def __init__(self) -> None:
        self.records: dict[str, list[Record]] = {topic: [] for topic in TOPICS.all()}
        self._last, self._index = GENESIS, 0
        self.epoch = 1
        """Of the view that agrees."""
        self.groups: list[list[int]] = []
        """Offsets in the effects of what left together."""

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        del acked
        for value in values:
            self.records[topic].append(Record(topic, len(self.records[topic]), key, value, headers))

    def backwards(self, topic: str, end: int) -> Iterator[Record]:
        """See `quadlog.ports.Backwards`."""
        return reversed(self.records[topic][:end])

    @contextmanager
    def together(self) -> Iterator[Callable[[], None]]:
        """See `quadlog.ports.Together`."""
        said = self.records[TOPICS.effects]
        start = len(said)

        def let_go() -> None:
            nonlocal start
            if len(said) > start:
                self.groups.append(list(range(start, len(said))))
                start = len(said)

        yield let_go
        let_go()

    def agree(
        self,
        text: str,
        created: int = 1_700_000_000_000,
        options: Mapping[str, str] | None = None,
        media_type: str = "application/sparql-update",
        kind: TransactionKind = TransactionKind.TX,
        *,
        digest: bytes = b"",
    ) -> LoggedEntry:
        """One more entry."""
        options = options or {}
        self._index = index = self._index + 1
        transaction = Transaction(
            id=index.to_bytes(16, "big"),
            digest=digest or hash_of(text.encode()),
            kind=kind,
            options=options,
        )
        entry = LoggedEntry(
            index=index,
            kind=kind,
            id=transaction.id,
            timestamp=index,
            digest=transaction.digest,
            options=options,
            previous=self._last,
            chain=chain_hash(self._last, transaction, index),
            epoch=self.epoch,
            lineage=GENESIS,
            origin="m1",
            created=created,
            media_type=media_type,
            body=text.encode(),
        )
        self._last = entry.chain
        AgreedProducer(self, TOPICS.agreed, "m1").publish(entry, lambda _: None)
        return entry

    def control(self, name: str, text: str | None) -> LoggedEntry:
        """An entry that sets a control, or deletes it."""
        is_ask = text is None or "ASK" in text
        kind = None if text is None else ControlKind.ASK if is_ask else ControlKind.SHACL
        return self.agree(text or "", options=options_of(name, kind), kind=TransactionKind.CONFIG)

    def synchronous(self, text: str) -> LoggedEntry:
        """One more entry, whose client asks for a synchronous transaction."""
        return self.agree(text, options={COMMIT_MODE: CommitMode.SYNC.value})

    def decide(self, kind: TransactionKind, target: LoggedEntry) -> LoggedEntry:
        """A decision on all that is undecided up to an entry."""
        transaction = decision_on(kind, LogPosition(target.index, target.chain)).transaction
        return self.agree(
            "", options=transaction.options, media_type="", kind=kind, digest=transaction.digest
        )

    def undecided(self) -> list[Undecided]:
        """All reports of entries that are synchronous by their effects."""
        said = (codec.decode(record.value) for record in self.records[TOPICS.effects])
        return [one for one in said if isinstance(one, Undecided)]

    def effects(self) -> list[Effect]:
        """All that were said, whole."""
        chunks = codec.ChunkJoiner()
        said = (chunks.join(record.value) for record in self.records[TOPICS.effects])
        return [effect for effect in said if isinstance(effect, Effect)]


class Worker:
    """One replica; nothing happens by itself."""

    def __init__(self, path: Path, log: Log, name: str, **settings: object) -> None:
        publish_health = settings.pop("publish_health", None)
        assert publish_health is None or isinstance(publish_health, PublishHealth)
        common = {"node_id": name, "dc": "dc1", "kafka": "127.0.0.1:1", "port": 1, "data_dir": path}
        all_of_it = common | {"worker_url": "http://127.0.0.1:1"} | settings
        self.settings = WorkerSettings.model_validate(all_of_it)
        self.log = log
        self.store = QuadStore.open(path / name)
        self.rebuilt: list[str] = []
        """Why it asked to be."""
        self.failures: list[str] = []
        """Why its process was to end."""
        self.bed: Seedbed | None = None
        """Where seeds are kept, if it is to hear of any."""
        self.feed = Feed(self.store.applied.index)
        self.replica = Replica(
            settings=self.settings,
            topics=TOPICS,
            store=self.store,
            feed=self.feed,
            publishers=Publishers(
                effects=EffectsProducer(log, TOPICS.effects, name, "dc1"),
                status=StatusProducer(log, TOPICS.status),
                together=log.together,
                publish_health=publish_health,
            ),
            host=Host(
                failed=self.failures.append,
                rebuild=self.rebuilt.append,
                backwards=log.backwards,
                agreed_end=lambda: len(self.log.records[TOPICS.agreed]),
                lacks=self._lacks,
            ),
            health=Health(branch=saved_branch(path, self.store.name)),
        )
        self._read = self.replica.offsets()

    def _lacks(self, seed: Seed) -> bool:
        return self.bed is not None and self.bed.on_seed(seed)

    def hear(self, topic: str, most: int = 1_000_000) -> None:
        """Read on in a topic, but not farther than `most` records."""
        start = self._read[topic]
        for record in self.log.records[topic][start : start + most]:
            self._read[topic] = record.offset + 1
            self.replica._following.on_record(record)

    def turn(self) -> None:
        """Apply and evaluate all that can be."""
        while True:
            before = self.store.applied.index, len(self.log.records[TOPICS.effects])
            self.replica._following.apply()
            self.replica._evaluate()
            if before == (self.store.applied.index, len(self.log.records[TOPICS.effects])):
                return

    def take_over(
        self, *, decides_to: int = 1, suspends: bool = False, sync_graphs: tuple[str, ...] = ()
    ) -> None:
        """Become the evaluating worker, with all that was said before applied."""
        asked = EvaluateRequest(TERM, decides_to=decides_to, suspends=suspends, sync_graphs=sync_graphs)
        self.replica.evaluator_term.take_over(asked)
        self.catch_up()

    def catch_up(self) -> None:
        """Hear and apply until there is nothing left, and no trial is under way."""
        while self.replica._more or any(
            len(self.log.records[topic]) > read for topic, read in self._read.items()
        ):
            for topic in self._read:
                self.hear(topic)
            self.turn()

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()
