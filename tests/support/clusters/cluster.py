"""What a test asks a real cluster, over HTTP and Kafka, with nothing of quadlog's own in between."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
from confluent_kafka import Consumer, TopicPartition

from quadlog.lab.control import ask as ask_lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Message

    from tests.support.labs import RunningLab

T = TypeVar("T")
PATIENCE_S = 60.0
"""For what has to come, where no specification says when: only who hangs is late, not a machine that is busy."""
TOPICS = ("payloads", "rounds", "agreed", "effects", "status")
HTTP = httpx.Client(timeout=60)
"""Connections that stay open: a new client for every request would be most of a test's time."""
UPDATE = {"Content-Type": "application/sparql-update"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass
class Cluster:
    """A running lab, as its clients see it."""

    lab: RunningLab
    log_ends: dict[str, int] = field(default_factory=dict[str, int])
    """Of each log, behind how many bytes `logged` begins to count; unset: at its beginning."""

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

    def cut(self, one: str, other: str, *, one_way: bool = False) -> None:
        """As `quadlog lab cut`, without a Python to be started for it; the command itself: `test_links.py`."""
        self._links({"do": "cut", "link": [one, other], "one_way": one_way})

    def heal(self, *link: str) -> None:
        """As `quadlog lab heal`: all links, or that between two data centres."""
        self._links({"do": "heal", **({"link": [*link]} if link else {})})

    def slow(self, one: str, other: str, *, latency_ms: float, rate_mbit: float) -> None:
        """As `quadlog lab link`."""
        self._links({"do": "quality", "link": [one, other], "latency_ms": latency_ms, "rate_mbit": rate_mbit})

    def links(self) -> list[dict[str, Any]]:
        """How they are."""
        return self._links({"do": "show"})

    def _links(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask_lab(self.lab.directory, {"do": "links", "request": request})[
            "links"
        ]
        return found

    def wait_until_equal(self, *, seconds: float = PATIENCE_S) -> int:
        """Until all masters and workers are at one index with one signature; returns the index.

        A worker that begins anew, by a copy or since its data centre was rebuilt, does not listen for a moment.
        """
        began = time.monotonic()
        while True:
            agreed = {self.status(number)["agreed_index"] for number in range(len(self.masters))}
            applied = {self._applied(url) for url in self.workers.values()}
            [first, *others] = applied
            if len(agreed) == 1 and not others and first[0] in agreed:
                return int(agreed.pop())
            waited = time.monotonic() - began
            assert waited < seconds, f"masters at {agreed}, workers at {applied}"
            pause(waited, least=0.05)

    def chains(self) -> set[str]:
        """Of the masters' logs, where all end at one index: an entry may come while one after the other is asked."""
        [chains] = until(lambda: [*ends.values()] if len(ends := self._ends()) == 1 else [])
        return chains

    def _ends(self) -> dict[int, set[str]]:
        """By the index of a master's last entry, the chains there."""
        ends: dict[int, set[str]] = {}
        for number in range(len(self.masters)):
            state = self.status(number)
            ends.setdefault(state["agreed_index"], set()).add(state["agreed_chain"])
        return ends

    def _applied(self, worker: str) -> tuple[Any, ...]:
        """Index, chain and signature; or why it does not say them."""
        try:
            state = HTTP.get(f"{worker}/status", timeout=10).json()
        except httpx.TransportError as error:  # it may also begin anew while it is asked
            return worker, str(error)
        return state["applied_index"], state["applied_chain"], state["signature"]


def until(condition: Callable[[], T], seconds: float = PATIENCE_S) -> T:
    """Wait until it is so; return what it is then."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds} s"
        pause(waited)
    return found


def pause(waited: float, *, least: float = 0.02) -> None:
    """Before the next look: whoever is asked all the time has less CPU for what is waited for."""
    time.sleep(min(0.15, max(least, waited / 20)))


def recount(worker: str) -> tuple[str, list[str]]:
    """A worker's signature as anybody can compute it from what it serves, and the lines it serves.

    An empty named graph, which N-Quads cannot say, stands there as a comment line of its own.
    """
    answer = HTTP.get(f"{worker}/statements", timeout=60)
    assert answer.status_code == 200, (answer.status_code, answer.headers, answer.text)
    lines = answer.text.splitlines()
    total = sum(int.from_bytes(blake2b(line.encode(), digest_size=32).digest(), "big") for line in lines)
    return f"{total % 2**256:064x}", lines


def records(bootstrap: str, topic: str, *, last: int | None = None) -> Iterator[Message]:
    """Every record of a topic, or so many of the last, to what is the last one now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        at = 0 if last is None else max(0, high - last)
        consumer.assign([TopicPartition(topic, 0, at)])
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


def counted(url: str, pattern: str) -> int:
    """How many solutions there are.

    A process that reads copies the store first: on a busy machine a worker says for a while that there is none yet.
    """
    query = f"SELECT (COUNT(*) AS ?n) {{ {pattern} }}"
    found = until(lambda: [answer for answer in [ask(url, query, "text/csv")] if answer.is_success])
    return int(found[0].text.split()[1])


def objects(url: str, subject: str) -> list[str]:
    """Values of `subject`'s properties, sorted, as a master or worker answers."""
    answer = ask(url, f"SELECT ?o {{ {{ {subject} ?p ?o }} UNION {{ GRAPH ?g {{ {subject} ?p ?o }} }} }}")
    assert answer.status_code == 200, answer.text
    return sorted(binding["o"]["value"] for binding in answer.json()["results"]["bindings"])


def applied_at(cluster: Cluster, index: int) -> None:
    """All workers are there."""
    assert cluster.wait_until_equal() >= index


def applied_key(cluster: Cluster, key: str, *, master: int = 0) -> None:
    """The update of this key is; its answer may have come before, where it takes longer than a request may."""
    url = f"{cluster.masters[master]}/tx/{key}"
    until(lambda: HTTP.get(url).json()["state"] == "applied", 2 * PATIENCE_S)
    cluster.wait_until_equal(seconds=2 * PATIENCE_S)


def all_equal(cluster: Cluster) -> None:
    """Whoever counts what the workers serve counts the same."""
    cluster.wait_until_equal()
    assert len({recount(url)[0] for url in cluster.workers.values()}) == 1


def lines_with(cluster: Cluster, text: str, master: int = 0) -> list[str]:
    """Statements that a master shows, of those that hold a text."""
    found = HTTP.get(f"{cluster.masters[master]}/repositories/{cluster.lab.repository}/statements").text
    return sorted(line for line in found.splitlines() if text in line)


def evaluating(cluster: Cluster) -> str:
    """Id of the worker that evaluates, once there is one."""
    return until(
        lambda: [
            str(worker["id"])
            for number in range(len(cluster.masters))
            for worker in cluster.status(number)["workers"]
            if worker["evaluating"] and worker["state"] == "serving"
        ]
    )[0]


def rss(pid: int) -> int:
    """Resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
