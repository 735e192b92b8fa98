"""A log is shortened, on a real broker: a checkpoint before anything goes, and nothing that somebody needs."""

from __future__ import annotations

import dataclasses
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from producers.agreed import AgreedProducer
from quadlog import codec
from quadlog.broker import Admin, KafkaOutlet, beginning_of, offset_at, records_between
from quadlog.core.limits import LogLimits, Needs
from quadlog.core.model import LogPosition
from quadlog.core.records import Checkpoint, EffectsPlace, Reached
from quadlog.errors import Unavailable
from quadlog.master.retention import trimming
from quadlog.master.retention.trimming import Stock, Trimming, needs_of_backups
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import STORE_HERE
from quadlog.snapshots.backups import Backup, SourceTopicIds
from quadlog.snapshots.store_archive import ArchiveManifest
from quadlog.topics import Topics
from tests.support.agreement.topics import effect, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from quadlog.ports import Acked


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
            producer.publish(entry, lambda _: None)
            for value in codec.encode_effect(effect(entry.index)):
                self.outlet.produce(own.effects, key=b"1", values=[value], headers=[])
        self.outlet.flush(60)
        self.kafka = kafka
        self.work: list[Callable[[], None]] = []
        self.chains = {entry.index: entry.chain for entry in self.log}
        self.said: list[Checkpoint] = []
        self.is_acked, self.settled = True, 1000
        self.trimming = self.made(LogLimits(size=300))

    def made(
        self,
        limits: LogLimits,
        kept: Callable[[], Mapping[str, int]] | None = None,
        archive: Callable[[int], Mapping[str, int]] | None = None,
    ) -> Trimming:
        return Trimming(
            self.kafka,
            self.topics,
            lambda: limits,
            every_s=1.0,
            begin=self.work.append,
            say=self.say,
            chain_at=self.chains.get,
            archive=archive,
            needs_of_backups=kept,
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
            last=LogPosition(last.index, last.chain),
            reached=Reached(800, LogPosition(800, self.chains[800]), 1, 800),
            effects=EffectsPlace(650, 650, 1, 0),
            duty=None,
            seed=None,
            agreed_id="A",
            effects_id="E",
        )

    def stock(self) -> Stock:
        return Stock(last=1000, needs=Needs({}, {}), settled=self.settled)

    def tend(self, moment: float, *, lacks_checkpoint: bool = False) -> None:
        self.trimming.tick(self.stock, self.checkpoint, moment, lacks_checkpoint=lacks_checkpoint)
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

    def archive(index: int) -> dict[str, int]:
        asked.append(index)
        return {shortening.topics.agreed: 500, shortening.topics.effects: 400}

    shortening.trimming = shortening.made(LogLimits(size=300), archive=archive)
    shortening.tend(0.0)
    shortening.tend(1000.0)
    assert (asked, shortening.beginnings) == ([700], (500, 400))


def put(directory: Path, shortening: Shortening, index: int, **changes: str) -> None:
    """A backup up to this entry, of which nobody looks at more than what it says."""
    own = shortening.topics
    ids = Admin(shortening.kafka).ids([own.agreed, own.effects])
    fed = SourceTopicIds(own.repository, own.dc, ids[own.agreed], ids[own.effects])
    backup = Backup(
        path=directory / f"{index}",
        fed_from=dataclasses.replace(fed, **changes),
        made="2026-01-01T00:00:00Z",
        store=STORE_HERE,
        label=ArchiveManifest(signature="", quads=0, digest="", size=0),
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
    kept = partial(needs_of_backups, tmp_path, shortening.kafka, shortening.topics)
    assert kept() == {"the newest backups": 400}
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
    assert kept() == {}
    put(tmp_path, shortening, 980)
    assert kept() == {"the newest backups": 980}


def test_where_backups_cannot_be_read_the_log_is_kept(shortening: Shortening, tmp_path: Path) -> None:
    """An empty directory is one without backups, and one that is not there may be one that is not mounted."""
    kept = partial(needs_of_backups, tmp_path / "backups", shortening.kafka, shortening.topics)
    shortening.trimming = shortening.made(LogLimits(size=300), kept)
    shortening.tend(0.0)
    shortening.tend(1000.0)
    assert (kept(), shortening.beginnings) == ({"backups that cannot be read": 0}, (0, 0))
    (tmp_path / "backups").mkdir()
    shortening.tend(2000.0)
    assert (kept(), shortening.beginnings) == ({}, (700, 650))


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
