"""Three masters' agreement with their codec and their RocksDB, and nothing else: no Kafka, HTTP, quads.

All in one thread, so that the CPU of an update is the sum of three masters' work on it.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.clock import now
from quadlog.core.agreement.agreement import Agreement
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.messages import Acquired, AgreementLimits, PostingPace, PostReceived, Submitted, Tick
from quadlog.core.model import Payload, Post
from quadlog.master.log.log_publisher import logged_entry
from quadlog.master.node.perform import perform
from quadlog.masterstore.store import MasterStore, Taken
from tests.bench.baselines import Clock, payload_of
from tests.bench.workload import Workload, texts

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.core.messages import Save
    from quadlog.core.model import Entry
    from tests.bench.figures import Baseline

MASTERS: Final = ("m1", "m2", "m3")


class Member:
    """One master without a process."""

    def __init__(self, name: str, directory: Path) -> None:
        """Its store is in `directory`."""
        self._store = MasterStore(directory / name)
        self._payloads: dict[tuple[bytes, bytes], Payload] = {}
        self._core = Agreement(
            node=name,
            incarnation=self._store.incarnation,
            masters={name: name for name in MASTERS},
            durable=self._store.durable(),
            logged=self._store.digests,
            settings=ClusterSettings(max_peer_lag=inf),
            pace=PostingPace(window=0.0),  # nothing is waited for: what is measured is work
            limits=AgreementLimits(),
        )
        self.agreed: list[bytes] = []
        """Ids, since they were taken last."""
        self.said: list[bytes] = []
        """Posts as records."""

    def take(self, record: bytes, *, own: bool) -> None:
        """A payload is durable in this master's data centre."""
        payload = codec.decode(record)
        assert isinstance(payload, Payload)
        self._payloads[payload.transaction.key] = payload
        given = Submitted if own else Acquired
        self._core.step(given(transaction=payload.transaction), now())

    def hear(self, record: bytes) -> None:
        """Another one posted."""
        post = codec.decode(record)
        assert isinstance(post, Post)
        self._core.step(PostReceived(post=post), now())

    def turn(self) -> None:
        """What the node's thread does once."""
        self._core.step(Tick(), now())
        if ready := self._core.ready():
            perform(ready, save=self._save, publish=self._publish, post=self._post)
            for key in ready.save.released:
                self._payloads.pop(key, None)

    def _save(self, save: Save) -> None:
        taken = Taken(positions={}, effects=(0, 0, 0), rejected={})
        self._store.save(save, payloads=self._payloads, taken=taken, unneeded=save.released)

    def _publish(self, entry: Entry) -> None:
        codec.encode_entry(logged_entry(entry, self._payloads[entry.pair.key]))
        self.agreed.append(entry.pair.id)

    def _post(self, post: Post) -> None:
        self.said.append(codec.encode(post))

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


def agree(directory: Path, *, in_flight: int, seconds: float) -> Baseline:
    """`in_flight` transactions wait at all times, given to the three in turn."""
    members = [Member(name, directory) for name in MASTERS]
    updates = texts(Workload.INSERT, "urn:bench:0:")
    asked: dict[bytes, float] = {}
    clock, deadline, number = Clock(), time.perf_counter() + seconds, 0
    while time.perf_counter() < deadline:
        while len(asked) < in_flight:
            payload = payload_of(next(updates))
            (record,) = codec.encode_payload(payload)
            asked[payload.transaction.id] = time.perf_counter()
            for at, member in enumerate(members):
                member.take(record, own=at == number % len(members))
            number += 1
        for member in members:
            member.turn()
        _deliver(members)
        _answer(members[0], asked, clock)
        for member in members:
            member.agreed.clear()
    figures = clock.baseline(f"agreement of three in one thread, {in_flight} waiting")
    for member in members:
        member.close()
    return figures


def _deliver(members: list[Member]) -> None:
    for member in members:
        posts, member.said = member.said, []
        for other in members:
            if other is not member:
                for post in posts:
                    other.hear(post)


def _answer(member: Member, asked: dict[bytes, float], clock: Clock) -> None:
    for transaction_id in member.agreed:
        clock.note(time.perf_counter() - asked.pop(transaction_id))
