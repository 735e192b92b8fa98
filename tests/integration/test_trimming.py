"""Where entries stand in a topic that is to be shortened, found in topics of all sorts; and Kafka's part of it."""

from __future__ import annotations

import dataclasses
import random
import time
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from consumers import places
from consumers.places import Places
from producers.agreed import AgreedProducer
from quadlog import codec
from quadlog.applied import Applied
from quadlog.backups import Backup, FedFrom
from quadlog.broker import Admin, KafkaOutlet, beginning_of, offset_at, records_between
from quadlog.core.limits import LogLimits, Needs
from quadlog.core.model import Held, Point
from quadlog.core.records import Checkpoint, EffectsPlace, Reached
from quadlog.errors import Unavailable
from quadlog.master import trimming
from quadlog.master.backups_kept import BackupsKept
from quadlog.master.trimming import Stock, Trimming, checkpoint_in, stock_of
from quadlog.parcel import Label
from quadlog.ports import Record
from quadlog.quaddir import STORE_HERE
from quadlog.topics import Topics
from tests.support.agreement.topics import effect, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from quadlog.master.archiver import Archiver
    from quadlog.ports import Acked


def topic_of(rng: random.Random, entries: int) -> list[Record]:
    """Entries in one to three records each, with others between them, from some offset on."""
    said: list[int | None] = []
    for index in range(1, entries + 1):
        said += [index] * rng.choice([1, 1, 1, 2, 3])
        said += [None] * rng.choice([0, 0, 0, 1, rng.randrange(200)])
    first = rng.randrange(3) * 50
    return [
        Record("t", first + at, b"", b"" if index is None else str(index).encode(), [])
        for at, index in enumerate(said)
    ]


def index_of(record: Record) -> int | None:
    return int(record.value) if record.value else None


@pytest.mark.parametrize("seed", range(30))
def test_the_place_behind_an_entry(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a greater one is before it, and nothing but of smaller ones stands between."""
    rng = random.Random(seed)
    monkeypatch.setattr(places, "STEP", rng.choice([1, 4, 64]))
    records = topic_of(rng, rng.choice([1, 5, 200]))
    first, end = records[0].offset, records[-1].offset + 1
    read = 0

    def between(start: int, until: int) -> Iterator[Record]:
        nonlocal read
        for record in records[start - first : until - first]:
            read += 1
            yield record

    found_in = Places(between, index_of, first)
    last = int(next(record.value for record in reversed(records) if record.value))
    for index in {0, 1, last, last + 5, *(rng.randrange(last + 1) for _ in range(20))}:
        found = found_in.behind(index, end)
        own = [record.offset for record in records if record.value and int(record.value) <= index]
        assert found == (own[-1] + 1 if own else first), index
    for offset in (first, end, *(rng.randrange(first, end) for _ in range(20))):
        before = [int(record.value) for record in records if record.value and record.offset < offset]
        assert found_in.last_before(offset) == (before[-1] if before else 0)
    if len(records) > 2000:
        read = 0
        found_in.behind(last // 2, end)
        assert read < len(records) / 2


def scene() -> dict[str, Any]:
    """Two masters in one view, both with its handover, and a worker."""
    posts = {
        name: SimpleNamespace(
            said=SimpleNamespace(node=name, effects=Held(b"term", index), base=Point(900, b""))
        )
        for name, index in (("m1", 950), ("m2", 920))
    }
    return {
        "agreement": SimpleNamespace(
            view=SimpleNamespace(members=("m1", "m2"), epoch=3),
            standing=SimpleNamespace(ballot=None),
            members=posts,
            peers=(SimpleNamespace(node="m1"), SimpleNamespace(node="m2")),
            last=Point(1000, b""),
            settled=900,
        ),
        "decided": SimpleNamespace(fork=None, held=Held(b"term", 950)),
        "crew": SimpleNamespace(
            all=lambda: [SimpleNamespace(beat=SimpleNamespace(worker="w", applied=Point(940, b"")))],
            goes_back=lambda _: False,
        ),
    }


@pytest.mark.parametrize(("held", "settled"), [(1000, 900), (900, 900), (890, 890)])
def test_what_there_is(held: int, settled: int) -> None:
    """An entry that its topic is not known to hold is not settled here: nobody else could say it there again."""
    found = stock_of(**scene(), held=held)
    assert found == Stock(
        last=1000,
        needs=Needs({"w": 940}, {"m1": 950, "m2": 920, "what may be cut": 900}),
        settled=settled,
    )


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("agreement", "standing", SimpleNamespace(ballot=SimpleNamespace(epoch=4))),
        ("agreement", "peers", (SimpleNamespace(node="m1"), SimpleNamespace(node="m3"))),
        ("agreement", "members", {"m1": scene()["agreement"].members["m1"]}),
        ("agreement", "members", scene()["agreement"].members | {"m2": SimpleNamespace(said=None)}),
        ("decided", "fork", 0),
        ("decided", "held", Held(b"of another view", 950)),
        ("crew", "goes_back", lambda _: True),
    ],
)
def test_nothing_goes_while_somebody_may_need_it(part: str, name: str, value: Any) -> None:  # noqa: ANN401
    parts = scene()
    setattr(parts[part], name, value)
    assert stock_of(**parts, held=1000) is None


def saved(**changes: object) -> SimpleNamespace:
    """A store, as far as a checkpoint is made of it."""
    parts: dict[str, object] = {
        "beside": SimpleNamespace(is_moving=False),
        "last": Point(1000, b"1"),
        "reached": lambda: Reached(1003, Point(990, b"2"), 1, 990),
        "position": lambda topic: {"main.dc1.effects": 955}[topic],
        "topic_id": {"main.dc1.agreed": "A", "main.dc1.effects": "E"}.get,
        "effects": lambda: (950, 3, 2),
        "duty": lambda: None,
        "seed": lambda: None,
    }
    return SimpleNamespace(**parts | changes)


def test_a_checkpoint_is_what_is_saved() -> None:
    found = checkpoint_in(saved(), Topics("main", "dc1"))  # type: ignore[arg-type]
    assert found == Checkpoint(
        last=Point(1000, b"1"),
        reached=Reached(1003, Point(990, b"2"), 1, 990),
        effects=EffectsPlace(955, 950, 3, 2),
        duty=None,
        seed=None,
        agreed_id="A",
        effects_id="E",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beside", SimpleNamespace(is_moving=True)),
        ("reached", lambda: None),
        ("position", lambda _: None),
        ("topic_id", {"main.dc1.agreed": "A"}.get),
        ("topic_id", {"main.dc1.effects": "E"}.get),
    ],
)
def test_there_is_none_where_not_all_is_known(name: str, value: object) -> None:
    assert checkpoint_in(saved(**{name: value}), Topics("main", "dc1")) is None  # type: ignore[arg-type]


class Shortening:
    """What trimming does, with a topic of 1,000 entries and their effects on a real broker."""

    def __init__(self, kafka: str) -> None:
        self.topics = Topics(f"r{uuid.uuid4().hex[:12]}", "dc1")
        own = self.topics
        Admin(kafka).ensure([own.agreed, own.effects, own.checkpoint], replication=1, config={})
        self.outlet = KafkaOutlet(kafka, client="test", failed=pytest.fail)
        self.log = entries(1000)
        producer = AgreedProducer(self.outlet, own.agreed, "m1")
        for entry in self.log:
            producer.say(entry, lambda _: None)
            for value in codec.encode_effect(effect(entry.index)):
                self.outlet.produce(own.effects, key=b"1", values=[value], headers=[])
        self.outlet.flush()
        self.kafka = kafka
        self.work: list[Callable[[], None]] = []
        self.chains = {entry.index: entry.chain for entry in self.log}
        self.said: list[Checkpoint] = []
        self.is_acked, self.settled = True, 1000
        self.trimming = self.made(LogLimits(size=300))

    def made(
        self, limits: LogLimits, backups: BackupsKept | None = None, archiver: Archiver | None = None
    ) -> Trimming:
        return Trimming(
            self.kafka,
            self.topics,
            limits,
            every_s=1.0,
            begin=self.work.append,
            say=self.say,
            chain_at=self.chains.get,
            archiver=archiver,
            backups=backups,
        )

    def say(self, checkpoint: Checkpoint, acked: Acked) -> None:
        assert self.said or self.beginnings == (0, 0), "nothing goes before"
        self.said.append(checkpoint)
        if self.is_acked:
            acked(0)

    @property
    def beginnings(self) -> tuple[int, int]:
        return beginning_of(self.kafka, self.topics.agreed), beginning_of(self.kafka, self.topics.effects)

    def checkpoint(self) -> Checkpoint:
        last = self.log[-1]
        return Checkpoint(
            last=Point(last.index, last.chain),
            reached=Reached(800, Point(800, self.chains[800]), 1, 800),
            effects=EffectsPlace(650, 650, 1, 0),
            duty=None,
            seed=None,
            agreed_id="A",
            effects_id="E",
        )

    def stock(self) -> Stock:
        return Stock(last=1000, needs=Needs({}, {}), settled=self.settled)

    def tend(self, moment: float, *, lacks_checkpoint: bool = False) -> None:
        self.trimming.tend(self.stock, self.checkpoint, moment, lacks_checkpoint=lacks_checkpoint)
        while self.work:
            self.work.pop()()


@pytest.fixture
def shortening(kafka: str) -> Iterator[Shortening]:
    found = Shortening(kafka)
    yield found
    found.outlet.close()


def test_a_checkpoint_is_said_before_anything_goes(shortening: Shortening) -> None:
    """And nothing goes that stands behind it."""
    shortening.tend(0.0)
    shortening.tend(900.0)
    assert not shortening.said
    shortening.tend(1000.0)
    assert shortening.said == [shortening.checkpoint()]
    assert shortening.beginnings == (700, 650)


def test_it_is_waited_until_all_of_it_is_settled(shortening: Shortening) -> None:
    shortening.settled = 999
    shortening.tend(0.0)
    for moment in (1000.0, 1010.0, 5000.0):
        shortening.tend(moment)
    assert not shortening.said
    shortening.settled = 1000
    shortening.tend(5010.0)
    assert shortening.beginnings == (700, 650)


def test_nothing_goes_where_the_log_is_another_one_since(shortening: Shortening) -> None:
    shortening.chains[1000] = b"of another log"
    shortening.tend(0.0)
    shortening.tend(1000.0)
    assert (shortening.said, shortening.beginnings) == ([], (0, 0))


@pytest.mark.parametrize("is_another_log", [False, True])
def test_where_records_are_gone_a_checkpoint_is_published_and_nothing_more_goes(
    shortening: Shortening,
    is_another_log: bool,  # noqa: FBT001
) -> None:
    """No limit is set: something else deleted them."""
    shortening.trimming = shortening.made(LogLimits())
    if is_another_log:
        shortening.chains[1000] = b"of another log"
    for moment in (0.0, 1000.0):
        shortening.tend(moment)
    assert not shortening.said
    for moment in (1000.0, 2000.0):
        shortening.tend(moment, lacks_checkpoint=True)
    assert shortening.said == ([] if is_another_log else [shortening.checkpoint()])
    assert shortening.beginnings == (0, 0)


def test_nothing_goes_unless_the_checkpoint_is_there(
    shortening: Shortening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "ACKED_S", 0.1)
    shortening.is_acked = False
    shortening.tend(0.0)
    shortening.tend(1000.0)
    assert (len(shortening.said), shortening.beginnings) == (1, (0, 0))
    shortening.is_acked = True
    shortening.tend(2000.0)
    assert shortening.beginnings == (700, 650), "it is tried again"


def test_nothing_goes_that_is_not_archived(shortening: Shortening) -> None:
    """An archive that ends before the place up to which it was asked for: another process began it anew, say."""
    asked: list[int] = []

    def extend(index: int) -> dict[str, int]:
        asked.append(index)
        return {shortening.topics.agreed: 500, shortening.topics.effects: 400}

    archiver: Any = SimpleNamespace(extend=extend)
    shortening.trimming = shortening.made(LogLimits(size=300), archiver=archiver)
    shortening.tend(0.0)
    shortening.tend(1000.0)
    assert (asked, shortening.beginnings) == ([700], (500, 400))


def put(directory: Path, shortening: Shortening, index: int, **changes: str) -> None:
    """A backup up to this entry, of which nobody looks at more than what it says."""
    own = shortening.topics
    ids = Admin(shortening.kafka).ids([own.agreed, own.effects])
    fed = FedFrom(own.repository, own.dc, ids[own.agreed], ids[own.effects])
    backup = Backup(
        path=directory / f"{index}",
        fed_from=dataclasses.replace(fed, **changes),
        made="2026-01-01T00:00:00Z",
        store=STORE_HERE,
        label=Label(signature="", quads=0, digest="", size=0),
        applied=Applied(index=index, agreed_offset=index, effects_offset=index),
        reserved="urn:r",
    )
    backup.path.mkdir(parents=True)
    backup.save()


def test_the_two_newest_backups_are_waited_for_up_to_the_hard_limit(
    shortening: Shortening, tmp_path: Path
) -> None:
    """As workers are; then they are of no use any more, and nothing is kept for them."""
    put(tmp_path, shortening, 400)
    put(tmp_path, shortening, 150)
    put(tmp_path, shortening, 600)
    put(tmp_path, shortening, 900, dc="dc2")
    put(tmp_path, shortening, 950, effects_id="of before")
    (tmp_path / "main.dc1-000000000960-20260101T000000Z").mkdir()
    kept = BackupsKept(tmp_path, shortening.kafka, shortening.topics)
    assert kept.needs() == {"the newest backups": 400}
    shortening.trimming = shortening.made(LogLimits(size=300), kept)
    with capture_logs() as said:
        shortening.tend(0.0)
        shortening.tend(1000.0)
    assert shortening.beginnings == (300, 300)
    assert [one["kept_by"] for one in said if one["event"] == "log_trimmed"] == ["the newest backups"]
    shortening.trimming = shortening.made(LogLimits(size=300, hard_size=350), kept)
    shortening.tend(2000.0)
    shortening.tend(3000.0)
    assert shortening.beginnings == (650, 650)
    assert kept.needs() == {}
    put(tmp_path, shortening, 980)
    assert kept.needs() == {"the newest backups": 980}


def test_where_backups_cannot_be_read_the_log_is_kept(shortening: Shortening, tmp_path: Path) -> None:
    """An empty directory is one without backups, and one that is not there may be one that is not mounted."""
    kept = BackupsKept(tmp_path / "backups", shortening.kafka, shortening.topics)
    shortening.trimming = shortening.made(LogLimits(size=300), kept)
    shortening.tend(0.0)
    shortening.tend(1000.0)
    assert (kept.needs(), shortening.beginnings) == ({"backups that cannot be read": 0}, (0, 0))
    (tmp_path / "backups").mkdir()
    shortening.tend(2000.0)
    assert (kept.needs(), shortening.beginnings) == ({}, (700, 650))


def test_records_go_up_to_an_offset(kafka: str) -> None:
    Admin(kafka).ensure(["trimmed"], replication=1, config={})
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(10):
        producer.produce("trimmed", value=str(number).encode(), timestamp=1_000_000 + number)
    producer.flush()
    assert [offset_at(kafka, "trimmed", 1_000_000 + number) for number in (-5, 0, 4, 9)] == [0, 0, 4, 9]
    assert offset_at(kafka, "trimmed", round(time.time() * 1000)) == 10
    Admin(kafka).delete_before({"trimmed": 4})
    assert beginning_of(kafka, "trimmed") == 4
    assert [record.value for record in records_between(kafka, "trimmed", 0, 10)] == [
        b"4",
        b"5",
        b"6",
        b"7",
        b"8",
        b"9",
    ]
    with pytest.raises(Unavailable, match="of trimmed before offset 11 could not be deleted"):
        Admin(kafka).delete_before({"trimmed": 11})
    assert beginning_of(kafka, "trimmed") == 4
