"""What the parts do alone, in the same run on the same machine: only ratios outlive a machine."""

from __future__ import annotations

import threading
import time
import uuid
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not exported
from pyoxigraph import Store

from quadlog import codec
from quadlog.core.model import Payload, Transaction, payload_digest
from tests.bench.figures import Baseline
from tests.bench.workload import Workload, setup, texts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from confluent_kafka import KafkaError, Message


class Clock:
    """Times each of many things, and the CPU of all of them."""

    def __init__(self) -> None:
        """Begin."""
        self._took: list[float] = []
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def note(self, seconds: float) -> None:
        """One more was done."""
        self._took.append(seconds)

    def baseline(self, name: str) -> Baseline:
        """The figures up to now."""
        wall, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        done = len(self._took)
        return Baseline(
            name=name, rate=done / wall, p50_ms=1000 * median(self._took), cpu_ms=1000 * cpu / done
        )


def payload_of(text: str) -> Payload:
    """A payload as a master makes it of an update."""
    body, created, origin = text.encode(), time.time_ns() // 1_000_000, "bench"
    kind = "application/sparql-update"
    digest = payload_digest(origin=origin, created=created, media_type=kind, traceparent="", body=body)
    return Payload(
        transaction=Transaction(id=uuid.uuid4().bytes, digest=digest),
        origin=origin,
        origin_dc="dc1",
        created=created,
        media_type=kind,
        body=body,
    )


def produce(brokers: Sequence[str], *, in_flight: int, seconds: float) -> Baseline:
    """Raw `acks=all` of records as large as an update's payload: `in_flight` of them, over as many brokers."""
    topic = f"bench-raw-{uuid.uuid4()}"
    (value,) = codec.encode_payload(payload_of(next(texts(Workload.INSERT, "urn:bench:0:"))))
    used = brokers[:in_flight]
    producers = [_producer(broker, topic, value) for broker in used]
    clock, deadline = Clock(), time.perf_counter() + seconds
    loops = [
        threading.Thread(
            target=partial(
                _keep_in_flight,
                producer,
                topic=topic,
                value=value,
                share=share,
                clock=clock,
                deadline=deadline,
            )
        )
        for producer, share in zip(producers, _shares(in_flight, len(used)), strict=True)
    ]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    figures = clock.baseline(f"acks=all produce, {in_flight} in flight")
    for broker in used:
        _delete(broker, topic)
    return figures


def _shares(count: int, parts: int) -> list[int]:
    """As equal as can be.

    >>> _shares(64, 3)
    [22, 21, 21]
    """
    return [count // parts + (part < count % parts) for part in range(parts)]


def _keep_in_flight(
    producer: Producer, *, topic: str, value: bytes, share: int, clock: Clock, deadline: float
) -> None:
    waiting = 0

    def send() -> None:
        nonlocal waiting
        sent = time.perf_counter()

        def delivered(error: KafkaError | None, message: Message) -> None:
            nonlocal waiting
            del message
            assert error is None, error
            waiting -= 1
            clock.note(time.perf_counter() - sent)

        producer.produce(topic, value=value, partition=0, on_delivery=delivered)
        waiting += 1

    while time.perf_counter() < deadline:
        while waiting < share:
            send()
        producer.poll(0.1)
    producer.flush(10)


def _producer(broker: str, topic: str, value: bytes) -> Producer:
    client = cast("Any", AdminClient({"bootstrap.servers": broker}))  # futures without a type
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=15)
    producer = Producer(
        {"bootstrap.servers": broker, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
    )
    producer.produce(topic, value=value, partition=0)  # the first one also finds the leader
    producer.flush(15)
    return producer


def _delete(broker: str, topic: str) -> None:
    client = cast("Any", AdminClient({"bootstrap.servers": broker}))
    client.delete_topics([topic])[topic].result(timeout=15)


def plain_updates(directory: Path, workload: Workload, *, seconds: float) -> Baseline:
    """The `update` of pyoxigraph itself: the same texts, on a store on disk."""
    store = Store(directory)
    prepared = setup(workload, "urn:bench:0:")
    if prepared is not None:
        store.update(prepared)
    clock, deadline = Clock(), time.perf_counter() + seconds
    for text in texts(workload, "urn:bench:0:"):
        began = time.perf_counter()
        store.update(text)
        ended = time.perf_counter()
        clock.note(ended - began)
        if ended > deadline:
            break
    return clock.baseline(f"pyoxigraph update, {workload}")
