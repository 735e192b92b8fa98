"""Topics that are deleted and made anew while they are read, or while nobody reads them."""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from quadlog.anchors import Anchor, Gap
from quadlog.broker import Admin, KafkaOutlet, identity, records_between, tail
from quadlog.broker.gaps import gaps
from tests.support.brokers import fill, never, until
from tests.support.labs import running_broker
from tests.support.topic_reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def reader(kafka: str) -> Iterator[Reader]:
    """Of two new topics with five records each."""
    reader = Reader(kafka, [f"test.{uuid.uuid4()}" for _ in range(2)])
    for name in reader.names:
        fill(reader.outlet, name, 5)
    yield reader
    if reader.tail is not None:
        reader.tail.close()
    reader.outlet.close()
    assert reader.failures == []


@pytest.mark.parametrize("count", [2, 5, 9], ids=["shorter", "as long", "longer"])
def test_a_topic_made_anew_while_it_is_read_is_read_from_its_beginning(reader: Reader, count: int) -> None:
    """Whoever reads it is told before; what else is read by the same tail goes on where it was."""
    one, other = reader.names
    reader.begin({one: 0, other: 0}, {one: None, other: None})
    until(lambda: (reader.heard.count((one, 4)), reader.heard.count((other, 4))) == (1, 1))
    first = Admin(reader.kafka).ids(reader.names)
    assert sorted(reader.told) == sorted((name, first[name], False) for name in reader.names)
    reader.make_anew(one, count)
    fill(reader.outlet, other, 1)
    now = Admin(reader.kafka).ids(reader.names)
    until(lambda: len(reader.told) == 3 and len(reader.offsets(one)) == count)
    until(lambda: reader.heard.count((other, 5)) == 1)
    assert reader.told[-1] == (one, now[one], True)
    assert (now[one] != first[one], now[other] == first[other]) == (True, True)
    assert reader.offsets(one) == list(range(count))
    assert reader.offsets(other) == list(range(6)), "each once"


def test_where_an_offset_is_not_there_it_is_looked_at_once(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the reader would end as if records had been deleted."""
    monkeypatch.setattr(identity, "EVERY_S", 1000.0)
    one, other = reader.names
    reader.begin({one: 0, other: 0}, {one: None, other: None})
    until(lambda: (one, 4) in reader.heard)
    reader.make_anew(one, 2)
    until(lambda: len(reader.told) == 3 and reader.offsets(one) == [0, 1])
    assert reader.told[-1] == (one, Admin(reader.kafka).ids([one])[one], True)


def test_a_topic_made_anew_while_nobody_read_is_read_from_its_beginning(reader: Reader) -> None:
    """The offset of before is of another topic."""
    one, other = reader.names
    known = Admin(reader.kafka).ids(reader.names)
    reader.make_anew(one, 9)
    reader.begin({one: 3, other: 3}, known)
    until(lambda: (one, 8) in reader.heard and (other, 4) in reader.heard)
    assert reader.told == [(one, Admin(reader.kafka).ids([one])[one], True)]
    assert (reader.offsets(one), reader.heard.count((other, 2)), reader.heard.count((other, 3))) == (
        list(range(9)),
        0,
        1,
    )


def test_a_topic_that_is_gone_is_told_after_a_while(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its broker may have been started a moment ago; made anew later, it is read all the same."""
    monkeypatch.setattr(identity, "EVERY_S", 0.1)
    monkeypatch.setattr(identity, "GONE_S", 1.0)
    one, other = reader.names
    known = Admin(reader.kafka).ids(reader.names)
    reader.begin({one: 5, other: 5}, known)
    Admin(reader.kafka).delete([one])
    until(lambda: (one, None, True) in reader.told)
    reader.make_anew(one, 2)
    until(lambda: (one, 1) in reader.heard)
    assert [told[2] for told in reader.told if told[1] is not None] == [True]


def test_what_was_asked_for_and_made_anew_is_left_to_who_asked(reader: Reader) -> None:
    """It looks again for where to begin."""
    one, other = reader.names
    reader.begin({one: 0}, {one: None, other: None})
    until(lambda: (one, 4) in reader.heard)
    assert reader.tail is not None
    reader.tail.read(other, 3)
    until(lambda: (other, 4) in reader.heard)
    reader.make_anew(other, 9)
    until(lambda: any(told[0] == other and told[2] for told in reader.told))
    fill(reader.outlet, one, 1)
    until(lambda: (one, 5) in reader.heard)
    assert reader.offsets(other) == []
    reader.tail.read(other, 7)
    until(lambda: reader.offsets(other) == [7, 8])


def test_a_consumer_that_finds_no_leader_is_replaced(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that looked while the broker was fenced: it would never find one."""
    consumers: list[Consumer] = []

    def lost(consumer: Consumer, *asked: Any) -> dict[str, Gap]:  # noqa: ANN401 - handed on
        if consumer not in consumers:
            consumers.append(consumer)
        if consumer is consumers[0]:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return gaps(consumer, *asked)

    monkeypatch.setattr(tail, "gaps", lost)
    one, other = reader.names
    reader.begin({one: 0, other: 0}, {one: None, other: None})
    until(lambda: (one, 4) in reader.heard and (other, 4) in reader.heard, 10)
    assert len(consumers) == 2


def anchor_of(reader: Reader, name: str, offset: int) -> Anchor:
    """As it was saved when that record was read."""
    [record] = records_between(reader.kafka, name, offset, offset + 1)
    return Anchor.of(record)


def test_a_topic_that_went_back_while_nobody_read_is_read_from_its_beginning(reader: Reader) -> None:
    """Its end, or another record where the last one stood, shows that; another topic goes on where it was."""
    one, other = reader.names
    ids = Admin(reader.kafka).ids(reader.names)
    anchors = {one: Anchor(offset=2, digest=bytes(8)), other: anchor_of(reader, other, 2)}
    reader.begin({one: 3, other: 3}, ids, anchors)
    until(lambda: (one, 4) in reader.heard and (other, 4) in reader.heard)
    assert reader.gaps == [(one, Gap(read=3, begins=0, ends=5))]
    assert "another record at 2" in str(reader.gaps[0][1])
    assert [at for at in reader.heard if at[0] == one] == [(one, offset) for offset in range(5)]
    assert [at for at in reader.heard if at[0] == other] == [(other, 3), (other, 4)]
    assert reader.told == []


def test_a_topic_that_ends_before_what_was_read_went_back(reader: Reader) -> None:
    """Also one that is not read yet, in which somebody may have noted an offset."""
    one, other = reader.names
    ids = Admin(reader.kafka).ids(reader.names)
    reader.begin({one: 9}, ids, {other: Anchor(offset=6, digest=bytes(8))})
    until(lambda: (one, 4) in reader.heard)
    assert reader.gaps == [(other, Gap(read=7, begins=0, ends=5)), (one, Gap(read=9, begins=0, ends=5))]
    assert not any(at[0] == other for at in reader.heard)


def test_after_a_lost_connection_each_record_is_given_once(reader: Reader) -> None:
    """Whenever no broker was connected the topics are looked at again, and read on by a new consumer."""
    one, other = reader.names
    reader.begin({one: 0, other: 0}, {one: None, other: None})
    until(lambda: (one, 4) in reader.heard and (other, 4) in reader.heard)
    for _ in range(3):
        assert reader.tail is not None
        reader.tail._lose()
        fill(reader.outlet, one, 4)
    until(lambda: (one, 16) in reader.heard)
    assert [at for at in reader.heard if at[0] == one and len(at) == 2] == [(one, at) for at in range(17)]
    assert reader.gaps == []


def test_what_was_deleted_before_it_was_read_is_told(reader: Reader) -> None:
    one, other = reader.names
    ids = Admin(reader.kafka).ids(reader.names)
    anchor = anchor_of(reader, one, 0)
    Admin(reader.kafka).delete_before({one: 3})
    reader.begin({one: 1, other: 0}, ids, {one: anchor})
    until(lambda: (one, 4) in reader.heard)
    assert reader.gaps == [(one, Gap(read=1, begins=3, ends=5, is_front=True))]
    assert [at for at in reader.heard if at[0] == one] == [(one, 3), (one, 4)]


@pytest.mark.soak
def test_a_broker_that_comes_back_with_an_older_copy(tmp_path: Path) -> None:
    """While it is read, and where the topic has grown past its old end before anybody looked; what is new is heard."""
    directory, copy = tmp_path / "broker", tmp_path / "copy"
    with running_broker(directory) as broker:
        one, other = names = [f"test.{uuid.uuid4()}" for _ in range(2)]
        readers = [Reader(broker.bootstrap, [name]) for name in names]
        for reader in readers:
            fill(reader.outlet, reader.names[0], 5)
            reader.begin({reader.names[0]: 0}, {reader.names[0]: None})
        until(lambda: all((r.names[0], 4) in r.heard for r in readers))
        broker.kill()
        shutil.copytree(directory, copy)
        broker.start()
        for reader in readers:
            fill(reader.outlet, reader.names[0], 5)
        until(lambda: all((r.names[0], 9) in r.heard for r in readers))
        assert [r.gaps for r in readers] == [[], []], "a restart alone is none"
        anchor = anchor_of(readers[1], other, 9)
        for reader in readers:
            reader.outlet.close()
        assert readers[1].tail is not None
        readers[1].tail.close()
        broker.kill()
        shutil.rmtree(directory)
        shutil.copytree(copy, directory)
        broker.start()
        later = KafkaOutlet(broker.bootstrap, client="later", failed=never)
        until(lambda: bool(readers[0].gaps))
        assert readers[0].gaps == [(one, Gap(read=10, begins=0, ends=5))]
        for count in (1, 9):  # not the records that were there, which have neither ids nor times
            fill(later, other, count)
        fill(later, one, 1)
        again = Reader(broker.bootstrap, [other])
        again.begin({other: 10}, Admin(broker.bootstrap).ids([other]), {other: anchor})
        until(lambda: (other, 14) in again.heard and readers[0].heard.count((one, 5)) == 2)
        assert again.gaps == [(other, Gap(read=10, begins=0, ends=15))]
        assert again.heard == [(other, offset) for offset in range(15)]
        assert [at for at in readers[0].heard if len(at) == 2][10:] == [(one, offset) for offset in range(6)]
        for reader in (readers[0], again):
            assert reader.tail is not None
            reader.tail.close()
            assert reader.failures == []
        again.outlet.close()
        later.close()
