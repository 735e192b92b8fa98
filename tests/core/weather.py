"""Weather: the real core under one seeded scheduler that owns time, order and chance.

Masters with clocks of their own post to topics that others read late or in leaps; payloads arrive
late; clients try the same id at several masters; a process may die before any single effect.

Safety is asserted after every step; liveness once the weather clears.
"""

from __future__ import annotations

import argparse
import random
import time
from hashlib import blake2b
from typing import TYPE_CHECKING

from quadlog.core.messages import Limits
from quadlog.core.model import Transaction
from tests.core.cluster import CrashError, Member

if TYPE_CHECKING:
    from quadlog.core.model import Entry, Pair, Point, Post

CLEAR = 60
"""Rounds after which everything must be agreed once nothing fails any more."""
TINY = Limits(post=3, turn=2, snapshot_every=7)
"""Nearly every post leaves pairs out, ADD stops all the time, and snapshots are common."""
TINY_CLEAR = 600
"""Rounds for the same with TINY: a queue of a hundred takes thirty posts, and laggers as many."""


class Weather:
    """One run."""

    def __init__(self, seed: int, *, masters: int = 3, limits: Limits | None = None) -> None:
        """Everything that follows is decided by the seed."""
        self.limits = limits or Limits()
        self.leaps = (0.0, 0.05, 0.3)[seed % 3]
        """How often a reader misses all posts but the newest."""
        self.seed, self.random = seed, random.Random(seed)
        names = [f"m{number}" for number in range(1, masters + 1)]
        self.members = [
            Member(name, names, limits=self.limits, skew=self.random.choice((0, 0, -40, 60, -3000)))
            for name in names
        ]
        self.at = 5000.0
        self.steps = 0
        self.read: dict[tuple[str, str], int] = {}
        self.submitted: list[Transaction] = []
        self.order: dict[int, tuple[Point, Pair]] = {}
        self.promises: dict[str, Post] = {}
        self.posted: dict[tuple[str, int], frozenset[Pair]] = {}
        """By sender and sequence: all that the sender's posts said up to this one, from the last snapshot on."""
        self.checked: dict[str, int] = {}

    def run(self, steps: int = 600) -> None:
        """Bad weather for some steps, then clear."""
        for _ in range(steps):
            self.at += self.random.random() * 20
            self._step(self.random.choice(self.members))
            self.steps += 1
            self.check()
        self._clear()

    def _step(self, member: Member) -> None:
        self._do(member)
        self._check_promise(member)

    def _do(self, member: Member) -> None:
        chance = self.random.random()
        if chance < 0.10:
            self._submit(member)
        elif chance < 0.12 and self.submitted:
            member.submit(self.random.choice(self.submitted[-3:]), self.at)  # a retry at another master
        elif chance < 0.35:
            self._acquire(member)
        elif chance < 0.65:
            self._turn(member, crash=self.random.random() < 0.03)
        elif chance < 0.66:
            self._restart(member)
        elif others := [m for m in self.members if m is not member]:
            self._deliver(self.random.choice(others), member)

    def _submit(self, member: Member) -> None:
        digest = blake2b(f"{self.seed}/{len(self.submitted)}".encode(), digest_size=32).digest()
        transaction = Transaction(id=digest[:16], digest=digest)
        self.submitted.append(transaction)
        member.submit(transaction, self.at)
        promise = self.promises.get(member.name)
        pairs = list(member.core.queue.pairs(transaction.id))
        if promise:
            assert all(pair.timestamp > promise.counter for pair in pairs), (
                f"{member.name} posted counter {promise.counter} and then stamped {pairs}"
            )

    def _acquire(self, member: Member) -> None:
        missing = [t for other in self.members for key, t in other.kafka.items() if key not in member.kafka]
        if missing:
            member.acquire(self.random.choice(missing), self.at)

    def _turn(self, member: Member, *, crash: bool) -> None:
        last_words = self.random.randrange(4)

        def fail(_: str) -> None:
            nonlocal last_words
            last_words -= 1
            if crash and last_words < 0:
                raise CrashError

        said = len(member.posts)
        try:
            member.turn(self.at, fail=fail)
        except CrashError:
            self._restart(member)
        for post in member.posts[said:]:
            self._note(member, post)

    def _note(self, member: Member, post: Post) -> None:
        before: frozenset[Pair] = frozenset()
        if post.base_sequence is not None:
            before = self.posted[member.name, post.base_sequence]
        self.posted[member.name, post.sequence] = before.union(post.queue)
        self._check_whole(member, post)

    def _restart(self, member: Member) -> None:
        member.restart(self.at)
        self.checked[member.name] = 0
        for other in self.members:  # what it had read and not saved it reads again
            at = self.read.get((member.name, other.name), 0)
            self.read[member.name, other.name] = max(0, at - self.random.randrange(5))

    def _deliver(self, sender: Member, reader: Member) -> None:
        """The next post, or in a leap the newest."""
        at = self.read.get((reader.name, sender.name), 0)
        if at >= len(sender.posts):
            return
        if self.random.random() < self.leaps:
            at = len(sender.posts) - 1
        self.read[reader.name, sender.name] = at + 1
        self._hear(reader, sender, sender.posts[at])

    def _hear(self, reader: Member, sender: Member, post: Post) -> None:
        reader.hear(post, self.at)
        self._check_understood(reader, sender)

    # --- safety -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """One order, by timestamps, with nothing said that is not kept."""
        for member in self.members:
            pending = member.core._pending.entries
            start = self.checked.get(member.name, 0)
            entries = [*member.disk.log[start:], *((e.point, e.pair) for e in pending)]
            for point, pair in entries:
                known = self.order.setdefault(point.index, (point, pair))
                assert known == (point, pair), f"two orders at {point.index}: {known} and {(point, pair)}"
                before = self.order.get(point.index - 1)
                assert before is None or before[1] < pair, (
                    f"{point.index} was agreed behind a later timestamp: {before} then {pair}"
                )
                assert (pair.id, pair.digest) in member.kafka, f"{point.index} agreed without its payload"
            self.checked[member.name] = len(member.disk.log)
            self._check_published(member.published, member.disk.log)

    def _check_promise(self, member: Member) -> None:
        """What it posted it still knows: in its queue, or synchronised."""
        if member.posts and member.posts[-1] is not self.promises.get(member.name):
            self.promises[member.name] = member.posts[-1]
        promise = self.promises.get(member.name)
        if promise is None:
            return
        ids = {pair.id for _, pair in member.log[-50:]} | member.disk.ids
        for pair in self.posted[member.name, promise.sequence]:
            assert pair.id in member.core.queue or pair.id in ids, (
                f"{member.name} posted {pair} and forgot it"
            )
        assert member.core.counter >= promise.counter, f"{member.name} posted a counter and went back"

    def _check_whole(self, member: Member, post: Post) -> None:
        """All of its queue up to the counter is posted; and one post tells a lagger no more than it can hold."""
        missing = set(member.core.queue.acquired()) - self.posted[member.name, post.sequence]
        assert all(pair.timestamp > post.counter for pair in missing), (
            f"{member.name} posted counter {post.counter} and left out {min(missing)}"
        )
        assert max(len(post.queue), len(post.added)) <= self.limits.post, (
            f"{member.name} posts too much at once"
        )

    def _check_understood(self, reader: Member, sender: Member) -> None:
        """What a reader holds of a member is what that one had posted with its last word, once each."""
        known = reader.core.members.get(sender.name)
        if known is None or known.understood is None:
            return
        queue = reader.core.queue
        said = sorted(p for p in self.posted[sender.name, known.understood] if p.id in queue)
        held = sorted(p for p in known._posted if p.id in queue)
        assert held == said, f"{reader.name} holds {held} of {sender.name}, which said {said}"
        assert known.base.index <= reader.core.last.index or sender.name in reader.core._asks

    def _check_published(self, published: list[Entry], log: list[tuple[Point, Pair]]) -> None:
        if published:
            last = published[-1]
            assert log[last.index - 1] == (last.point, last.pair), "published what was not kept"

    # --- liveness ---------------------------------------------------------------------------------------

    def _clear(self) -> None:
        everything = {t.key: t for member in self.members for t in member.kafka.values()}
        for member in self.members:
            for key, transaction in everything.items():
                if key not in member.kafka:
                    member.acquire(transaction, self.at)
        for _ in range(TINY_CLEAR if self.limits is TINY else CLEAR):
            self.at += 5000
            for member in self.members:
                self._turn(member, crash=False)
            for reader in self.members:
                for sender in self.members:
                    if sender is not reader and sender.posts:
                        self._hear(reader, sender, sender.posts[-1])
            self.check()
            if len({len(member.disk.log) for member in self.members} | {len(self.submitted)}) == 1:
                break
        logs = [[pair.id for _, pair in member.log] for member in self.members]
        assert all(log == logs[0] for log in logs), "not converged"
        assert sorted(logs[0]) == sorted({t.id for t in self.submitted}), "lost or doubled"


def main(seeds: int, *, first: int = 0, tiny: bool = False) -> None:
    """`make sim`: many seeds, over two to five masters; a failing one is named and replays exactly."""
    started, events = time.monotonic(), 0
    for seed in range(first, first + seeds):
        masters = 2 + seed // 3 % 4
        weather = Weather(seed, masters=masters, limits=TINY if tiny else None)
        try:
            weather.run()
        except AssertionError as error:
            error.add_note(f"Weather({seed}, masters={masters}{', limits=TINY' * tiny}).run()")
            raise
        events += weather.steps
    took = time.monotonic() - started
    print(f"{seeds} passed, 0 failed: {events} events in {took:.0f} s, {events / took * 60:,.0f} a minute")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="with posts of three pairs")
    arguments = parser.parse_args()
    main(arguments.seeds, first=arguments.first, tiny=arguments.tiny)
