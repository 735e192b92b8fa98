"""What a transaction costs a master behind a long queue.

A real node (agreement, codec, RocksDB with its syncs, desk), with two peers that are bare cores and
Kafka replaced by lists.  `waiting` transactions wait all the time, because one peer gets its payloads
that much later; of the others some are agreed in every round.

    python -m tests.bench.waiting cpu 100000        µs of the node's thread, bytes of its posts
    python -m tests.bench.waiting memory 10000      bytes of memory
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import tracemalloc
from collections import deque
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

from consumers import rounds
from quadlog import codec
from quadlog.core.agreement.agreement import Agreement
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.messages import (
    Acquired,
    AgreementLimits,
    Now,
    PostingPace,
    PostReceived,
    RecoveredState,
    Save,
    Tick,
)
from quadlog.core.model import Pair, Payload, Post, Transaction, payload_digest
from quadlog.master.clients.admission import Admission
from quadlog.master.clients.pending_requests import Waiter
from quadlog.master.events import ClientLeftEarly, TransactionOffered
from quadlog.master.http.proposals import new_id
from quadlog.master.payloads.bodies import ROOM
from quadlog.masterstore.store import MasterStore, Taken
from quadlog.ports import Record
from tests.support.masters.lone_node import lone_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quadlog.master.node.node import Node
    from quadlog.ports import Acked, Headers

MASTERS: Final = ("m1", "m2", "m3")
ROUND: Final = 50
"""Transactions in a round: what 64 clients give a cluster here in its window of 8 ms, about."""
PACE: Final = PostingPace(window=0, settle=0, idle=1e9)
START: Final = 1_700_000_000_000
"""The peers' wall clock: behind, so that their counters come from what they hear."""


class Lists:
    """An outlet that acknowledges at once."""

    def __init__(self) -> None:
        """Nothing was said."""
        self.posts: list[Record] = []
        """Those that the peers have not heard."""
        self.post_bytes = 0
        self.offset = 0

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Keep posts."""
        self.offset += 1
        if topic == "rounds":
            self.posts += [Record(topic, self.offset, key, value, headers) for value in values]
            self.post_bytes += sum(map(len, values))
        if acked:
            acked(self.offset)


class Peer:
    """Another master: its core alone."""

    def __init__(self, name: str, durable: RecoveredState) -> None:
        """Begin with what waits."""
        self.core = Agreement(
            node=name,
            incarnation=bytes(16),
            masters={name: name for name in MASTERS},
            durable=durable,
            logged={},
            settings=ClusterSettings(max_peer_lag=inf),
            pace=PACE,
            limits=AgreementLimits(),
        )
        self.offset = 0
        self.at = 0.0

    def hear(self, posts: Sequence[Post], acquired: Sequence[Transaction]) -> None:
        """Posts, and payloads that have come."""
        self.at += 1
        for transaction in acquired:
            self.core.step(Acquired(transaction=transaction), Now(self.at, START))
        for post in posts:
            self.core.step(PostReceived(post=post), Now(self.at, START))

    def post(self) -> Post | None:
        """What it says now."""
        self.at += 1
        self.core.step(Tick(), Now(self.at, START))
        ready = self.core.ready()
        return ready.post if ready else None

    def record(self, post: Post) -> Record:
        """Its post as Kafka has it."""
        self.offset += 1
        return Record(f"{post.node}.rounds", self.offset, post.node.encode(), codec.encode(post), [])


def payload_of(number: int) -> Payload:
    body = b'INSERT DATA { <urn:s:%d> <urn:p> "%s" }' % (number, b"v" * 150)
    digest = payload_digest(origin="m1", created=START, media_type="u", traceparent="", body=body)
    transaction = Transaction(id=new_id(), digest=digest)
    return Payload(
        transaction=transaction, origin="m1", origin_dc="dc1", created=START, media_type="u", body=body
    )


class Town:
    """The node, its peers, and what waits."""

    def __init__(self, directory: Path, waiting: int) -> None:
        """`waiting` transactions wait already, as after a restart."""
        self.store = MasterStore(directory)
        self.late = deque(self._fill(waiting))
        durable = self.store.durable()
        self.outlet = Lists()
        self.node = self._node(durable)
        self.peers = [
            Peer(
                "m2", RecoveredState(counter=durable.counter, queue=durable.queue, acquired=durable.acquired)
            ),
            Peer("m3", RecoveredState(counter=durable.counter, queue=durable.queue)),
        ]
        self.number = waiting
        del durable
        for _ in range(waiting // AgreementLimits().post + 3):  # everyone's first snapshot, in parts
            self.round(0)

    def _fill(self, waiting: int) -> Iterator[Transaction]:
        taken = Taken(positions={}, effects=(0, 0, 0), rejected={})
        for start in range(0, waiting, 5000):
            payloads = [payload_of(number) for number in range(start, min(start + 5000, waiting))]
            pairs = [
                Pair((START << 16) + start + at, *payload.transaction.key)
                for at, payload in enumerate(payloads)
            ]
            save = Save(
                counter=(START << 16) + waiting,
                sequence=1,
                acquired=tuple(payload.transaction for payload in payloads),
                enqueued=tuple(pairs),
                dequeued=(),
                entries=(),
                released=(),
            )
            by_key = {payload.transaction.key: payload for payload in payloads}
            self.store.save(save, payloads=by_key, taken=taken, unneeded=())
            yield from save.acquired

    def _node(self, durable: RecoveredState) -> Node:
        agreement = Agreement(
            node="m1",
            incarnation=self.store.incarnation,
            masters={name: name for name in MASTERS},
            durable=durable,
            logged=self.store.digests,
            settings=ClusterSettings(max_peer_lag=inf),
            pace=PACE,
            limits=AgreementLimits(),
        )
        admission = Admission(max_waiting=10**9)
        return lone_node(agreement, self.store, self.outlet, admission, failed=sys.exit)

    def round(self, count: int) -> float:
        """New transactions are given, old ones agreed.  Returns the node's CPU seconds."""
        cpu = 0.0
        offered = [payload_of(self.number + at) for at in range(count)]
        self.number += count
        for payload in offered:
            waiter = Waiter(body_hash=b"", tell=lambda _: None)
            self.node.put(TransactionOffered(payload, waiter))
            self.node.put(ClientLeftEarly(payload.transaction.id, waiter))
        self.late.extend(payload.transaction for payload in offered)
        cpu += self.turn() + (self.turn() if count else 0.0)
        posts = [rounds.hear(record) for record in self.outlet.posts]
        self.outlet.posts.clear()
        for peer in self.peers:
            if peer.core.node == "m3":
                peer.hear(posts, [self.late.popleft() for _ in range(count)])
            else:
                peer.hear(posts, [payload.transaction for payload in offered])
        said = [(peer, said) for peer in self.peers if (said := peer.post())]
        for peer, theirs in said:
            for other in self.peers:
                if other is not peer:
                    other.hear([theirs], ())
            self.node.inbox.on_records([peer.record(theirs)])
        return cpu + self.turn()

    def turn(self) -> float:
        """One turn of the node, on this thread."""
        started = time.thread_time()
        self.node._turn()
        return time.thread_time() - started


def cpu(waiting: int, *, count: int = 6000) -> tuple[float, float]:
    """µs of CPU and bytes of posts for one transaction, from offer to published."""
    with tempfile.TemporaryDirectory() as directory:
        town = Town(Path(directory), waiting)
        for _ in range(20):
            town.round(ROUND)
        gc.collect()
        before, said = town.node.agreement.last.index, town.outlet.post_bytes
        spent = sum(town.round(ROUND) for _ in range(count // ROUND))
        agreed = town.node.agreement.last.index - before
        assert abs(agreed - count) <= 2 * ROUND, f"{agreed} agreed of {count}"
        assert abs(len(town.node.agreement.queue) - waiting) <= 4 * ROUND
        return spent / count * 1e6, (town.outlet.post_bytes - said) / count


def memory(waiting: int) -> float:
    """Bytes of a master's memory for a transaction that waits, less the room for bodies."""
    with tempfile.TemporaryDirectory() as directory:
        town = Town(Path(directory), 0)
        town.node.acquiring._bodies._room = 0
        nothing = Transaction(id=bytes(16), digest=bytes(32))
        town.late.extend(nothing for _ in range(waiting))
        tracemalloc.start()
        for _ in range(waiting // 500):
            town.round(500)
        assert len(town.node.agreement.queue) == waiting
        town.peers.clear()
        town.late.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / waiting


def main() -> None:
    """Print one line."""
    what, waiting = sys.argv[1], int(sys.argv[2])
    if what == "cpu":
        spent, said = cpu(waiting)
        print(f"{spent:.1f} µs, {said:.0f} bytes of posts a transaction, {waiting} waiting")
    else:
        print(f"{memory(waiting):.0f} bytes a waiting transaction (and {ROOM} for bodies)")


if __name__ == "__main__":
    main()
