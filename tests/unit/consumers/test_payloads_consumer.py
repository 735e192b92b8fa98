"""Which payloads a master takes from a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumers.payloads import PayloadsConsumer
from producers.payloads import PayloadsProducer
from quadlog import codec
from tests.support.agreement.topics import Topic
from tests.support.masters.payloads import payload

if TYPE_CHECKING:
    from quadlog.core.model import Payload
    from quadlog.ports import Record


def payloads_topic(*said: tuple[str, Payload]) -> list[Record]:
    topic = Topic()
    for writer, one in said:
        PayloadsProducer(topic, "payloads", writer).publish(one, lambda _: None)
    return topic.records


def test_what_this_master_wrote_itself_it_was_told_already() -> None:
    records = payloads_topic(("m1", payload(1)), ("m1", payload(2)), ("m2", payload(3)))
    consumer = PayloadsConsumer(told=("m1", 1))
    assert [consumer.on_record(record) for record in records] == [payload(1), None, payload(3)]


def test_of_a_peers_topic_only_its_own_clients_are_taken() -> None:
    records = payloads_topic(("m2", payload(1, dc="dc2")), ("m2", payload(2, dc="dc3")))
    consumer = PayloadsConsumer(origins=["dc2"])
    assert [consumer.on_record(record) for record in records] == [payload(1, dc="dc2"), None]


def test_a_payload_is_half_heard_between_its_chunks() -> None:
    consumer = PayloadsConsumer()
    between = []
    for record in payloads_topic(("m2", payload(1, size=codec.CHUNK * 2 + 1))):
        whole = consumer.on_record(record)
        between.append(consumer.between)
    assert between == [False, False, True]
    assert whole == payload(1, size=codec.CHUNK * 2 + 1)
