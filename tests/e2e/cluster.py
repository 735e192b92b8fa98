"""What a test asks a real cluster, over HTTP and Kafka, with nothing of quadlog's own in between."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import httpx
from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message

    from tests.lab_helpers import RunningLab

TOPICS = ("payloads", "rounds", "agreed", "effects", "status")
HTTP = httpx.Client(timeout=60)
"""Connections that stay open: a new client for every request would be most of a test's time."""
UPDATE = {"Content-Type": "application/sparql-update"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass
class Cluster:
    """A running lab, as its clients see it."""

    lab: RunningLab

    @property
    def masters(self) -> list[str]:
        """URLs of all masters."""
        return [master["url"] for master in self.lab.masters]

    @property
    def workers(self) -> dict[str, str]:
        """Id to URL of all workers."""
        return {worker["id"]: worker["url"] for worker in self.lab.workers}

    def update(self, text: str, *, master: int = 0, **headers: str) -> httpx.Response:
        """One update at one master."""
        return HTTP.post(
            f"{self.masters[master]}/update",
            content=text.encode(),
            headers=UPDATE | {name.replace("_", "-"): value for name, value in headers.items()},
            timeout=60,
        )

    def status(self, master: int = 0) -> dict[str, Any]:
        """`/cluster/status`."""
        found: dict[str, Any] = HTTP.get(f"{self.masters[master]}/cluster/status", timeout=10).json()
        return found

    def wait_until_equal(self, *, seconds: float = 60) -> int:
        """Until all masters and workers are at one index with one signature; returns the index."""
        deadline = time.monotonic() + seconds
        while True:
            agreed = {self.status(number)["agreed_index"] for number in range(len(self.masters))}
            states = [HTTP.get(f"{url}/status", timeout=10).json() for url in self.workers.values()]
            applied = {
                (state["applied_index"], state["applied_chain"], state["signature"]) for state in states
            }
            if len(agreed) == 1 and len(applied) == 1 and next(iter(applied))[0] in agreed:
                return int(agreed.pop())
            assert time.monotonic() < deadline, f"masters at {agreed}, workers at {applied}"
            time.sleep(0.05)


def recount(worker: str) -> tuple[str, list[str]]:
    """A worker's signature as anybody can compute it from what it serves, and the lines it serves.

    An empty named graph, which N-Quads cannot say, stands there as a comment line of its own.
    """
    lines = HTTP.get(f"{worker}/statements", timeout=60).text.splitlines()
    total = sum(int.from_bytes(blake2b(line.encode(), digest_size=32).digest(), "big") for line in lines)
    return f"{total % 2**256:064x}", lines


def records(bootstrap: str, topic: str) -> Iterator[Message]:
    """Every record of a topic, from the first to what is the last one now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        consumer.assign([TopicPartition(topic, 0, 0)])
        at = 0
        while at < high:
            message = consumer.poll(20)
            assert message is not None, f"{topic} is silent at {at} of {high}"
            assert not message.error(), message.error()
            at = (message.offset() or 0) + 1
            yield message
    finally:
        consumer.close()


def name() -> str:
    """An IRI that no other test has."""
    return f"<urn:test:{uuid.uuid4()}>"


def index_of(answer: httpx.Response) -> int:
    """The index in an answer's Quadlog-Index."""
    return int(answer.headers["Quadlog-Index"].split(":")[0])


@contextmanager
def nothing_logged(cluster: Cluster) -> Iterator[None]:
    """Whatever the block does, the next update gets the very next index."""
    before = cluster.wait_until_equal()
    yield
    answer = cluster.update(f"INSERT DATA {{ {name()} <urn:is> 'the next one' }}", master=1)
    assert answer.status_code == 204, answer.text
    assert index_of(answer) == before + 1


def ask(url: str, query: str, accept: str = "application/sparql-results+json") -> httpx.Response:
    """A query by GET."""
    return HTTP.get(f"{url}/sparql", params={"query": query}, headers={"Accept": accept}, timeout=30)


def objects(url: str, subject: str) -> list[str]:
    """Values of `subject`'s properties, sorted, as a master or worker answers."""
    answer = ask(url, f"SELECT ?o {{ {{ {subject} ?p ?o }} UNION {{ GRAPH ?g {{ {subject} ?p ?o }} }} }}")
    assert answer.status_code == 200, answer.text
    return sorted(binding["o"]["value"] for binding in answer.json()["results"]["bindings"])


def applied_at(cluster: Cluster, index: int) -> None:
    """All workers are there."""
    assert cluster.wait_until_equal() >= index
