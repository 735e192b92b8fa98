"""Where the time of one update goes: read from the topics that it went through.

Every record has the moment at which it was handed to Kafka, to the millisecond.  So single updates are
sent, one at a time, and afterwards looked up in the topics of all data centres.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, TopicPartition

from quadlog import codec
from quadlog.codec.envelope import MIRRORED
from quadlog.core.model import Payload, Post
from quadlog.core.records import Effect, Heartbeat, LoggedEntry
from quadlog.topics import Topics
from tests.bench.generator import NO_CONTENT, Connection
from tests.bench.workload import Workload, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.bench.cluster import Cluster, DataCentre

STAGES: Final = (
    ("request", "HTTP, parsing, the node's inbox: until the payload goes to Kafka"),
    ("payload, mirror", "durable in its data centre, read by the peers, handed to their Kafka"),
    ("round", "the copies durable, the pair in the posts of all masters"),
    ("agree", "the last post heard, the entry saved and handed to the agreed topic"),
    ("evaluate", "the entry read by the evaluating worker, its effect handed to Kafka"),
    ("copy", "the effect read by the master of the client's data centre, handed to its Kafka"),
    ("apply", "the effect read and applied by a worker there, its heartbeat handed to Kafka"),
    ("answer", "the heartbeat read by the master, 204 at the client"),
)
"""Between two moments that `Trace.moments` has."""

PAUSE_S: Final = 0.05
"""Between two updates, so that each finds the cluster at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Milliseconds since 1970 at which one update was where."""

    moments: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    dc: int
    id: bytes
    index: int
    sent: float
    answered: float


@dataclass(slots=True)
class _Heard:
    """What the topics of one data centre said, each thing at its first time."""

    payloads: dict[bytes, float]
    posts: dict[bytes, dict[str, float]]
    agreed: dict[int, float]
    effects: dict[int, float]
    evaluates: bool
    """Its effects are no copies."""
    beats: list[tuple[int, float]]


def traces(cluster: Cluster, *, count: int) -> list[Trace]:
    """Send `count` updates, the masters in turn, and find out where each one was when."""
    starts = [_ends(cluster, dc) for dc in cluster.dcs]
    asked = asyncio.run(_ask(cluster, count))
    cluster.catch_up()
    heard = [_hear(cluster, dc, start) for dc, start in zip(cluster.dcs, starts, strict=True)]
    evaluating = next(one for one in heard if one.evaluates)
    return [_trace(one, heard, evaluating) for one in asked]


def medians(found: Sequence[Trace]) -> list[float]:
    """Milliseconds of each of `STAGES`."""
    return [
        median(after - before for before, after in spans)
        for spans in zip(*(pairwise(trace.moments) for trace in found), strict=True)
    ]


async def _ask(cluster: Cluster, count: int) -> list[_Asked]:
    masters = [dc.masters[0] for dc in cluster.dcs]
    connections = [await Connection.to(master) for master in masters]
    asked: list[_Asked] = []
    for number, text in enumerate(islice(texts(Workload.INSERT, f"urn:bench:{uuid.uuid4()}:"), count)):
        await asyncio.sleep(PAUSE_S)
        dc = number % len(masters)
        sent = time.time() * 1000
        answer = await connections[dc].update(text)
        answered = time.time() * 1000
        assert answer.status == NO_CONTENT, answer
        transaction = bytes.fromhex(answer.headers["quadlog-tx"].replace("-", ""))
        index = int(answer.headers["quadlog-index"].split(":")[0])
        asked.append(_Asked(dc, transaction, index, sent, answered))
    for connection in connections:
        await connection.close()
    return asked


def _trace(one: _Asked, heard: Sequence[_Heard], evaluating: _Heard) -> Trace:
    here = heard[one.dc]
    copied = max(dc.payloads[one.id] for dc in heard)
    posted = max(at for dc in heard for at in dc.posts[one.id].values())
    applied = next(at for index, at in here.beats if index >= one.index)
    return Trace(
        moments=(
            one.sent,
            here.payloads[one.id],
            copied,
            posted,
            evaluating.agreed[one.index],
            evaluating.effects[one.index],
            here.effects[one.index],
            applied,
            one.answered,
        )
    )


def _hear(cluster: Cluster, dc: DataCentre, starts: dict[str, int]) -> _Heard:
    topics = Topics(cluster.repository, dc.name)
    heard = _Heard(payloads={}, posts={}, agreed={}, effects={}, evaluates=False, beats=[])
    for at, headers, said in _said(dc, topics.all(), starts):
        match said:
            case Payload():
                heard.payloads.setdefault(said.transaction.id, at)
            case Post():
                for pair in said.queue:
                    heard.posts.setdefault(pair.id, {}).setdefault(said.node, at)
            case LoggedEntry():
                heard.agreed.setdefault(said.index, at)
            case Effect():
                heard.effects.setdefault(said.index, at)
                heard.evaluates = MIRRORED not in headers
            case Heartbeat():
                heard.beats.append((said.applied.index, at))
            case _:
                pass
    return heard


def _said(
    dc: DataCentre, topics: Sequence[str], starts: dict[str, int]
) -> Iterator[tuple[float, dict[str, Any], codec.Said | None]]:
    """When it was handed to Kafka, headers and meaning of each record from the topics' starts on."""
    with closing(_consumer(dc)) as consumer:
        for topic in topics:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
            at = starts[topic]
            consumer.assign([TopicPartition(topic, 0, at)])
            while at < end:
                message = consumer.poll(20)
                assert message is not None, f"{topic} is silent at {at} of {end}"
                assert not message.error(), message.error()
                at = (message.offset() or 0) + 1
                handed_over = float(message.timestamp()[1])
                yield handed_over, dict(message.headers() or []), codec.decode(message.value() or b"")


def _ends(cluster: Cluster, dc: DataCentre) -> dict[str, int]:
    with closing(_consumer(dc)) as consumer:
        topics = Topics(cluster.repository, dc.name).all()
        return {t: consumer.get_watermark_offsets(TopicPartition(t, 0), timeout=20)[1] for t in topics}


def _consumer(dc: DataCentre) -> Consumer:
    return Consumer({"bootstrap.servers": dc.kafka, "group.id": "bench", "enable.auto.commit": False})
