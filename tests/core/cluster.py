"""Masters without the world: the real core, a store of dictionaries, topics that are lists.

Used by the scenarios (where a person says what happens) and by the weather (where chance does).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadlog.core.agreement import Agreement
from quadlog.core.messages import Acquired, Durable, Heard, Limits, Now, Pace, Submitted, Tick
from quadlog.core.model import START, Entry, Pair, Point, Post, Transaction, first_view
from quadlog.master.perform import perform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.core.messages import Save


class CrashError(Exception):
    """The process died here."""


@dataclass(slots=True)
class Disk:
    """What a master has saved: survives a crash."""

    counter: int = 0
    sequence: int = 0
    queue: set[Pair] = field(default_factory=set)
    acquired: dict[tuple[bytes, bytes], Transaction] = field(default_factory=dict)
    log: list[tuple[Point, Pair]] = field(default_factory=list)
    ids: set[bytes] = field(default_factory=set)

    def save(self, save: Save) -> None:
        """One batch, whole or not at all."""
        self.counter, self.sequence = save.counter, save.sequence
        self.acquired.update({t.key: t for t in save.acquired})
        self.queue.update(save.enqueued)
        self.queue.difference_update(save.dequeued)
        for entry in save.entries:
            self.log.append((entry.point, entry.pair))
            self.ids.add(entry.pair.id)
        for key in save.released:
            self.acquired.pop(key, None)

    def durable(self) -> Durable:
        """What a restart begins with."""
        return Durable(
            counter=self.counter,
            sequence=self.sequence,
            last=self.log[-1][0] if self.log else START,
            queue=tuple(self.queue),
            acquired=tuple(self.acquired.values()),
            tail=tuple(self.log),
        )


class Member:
    """One master: its core, its disk, and what it said."""

    def __init__(
        self, name: str, masters: Iterable[str], *, limits: Limits | None = None, skew: int = 0
    ) -> None:
        """`skew`: milliseconds by which this master's wall clock is off."""
        self.name, self.masters, self.skew = name, tuple(masters), skew
        self.limits = limits or Limits()
        self.disk = Disk()
        self.kafka: dict[tuple[bytes, bytes], Transaction] = {}
        """Payloads that are durable in this master's data centre, whether it knows or not."""
        self.mine: set[tuple[bytes, bytes]] = set()
        """Of them, those that its own clients gave."""
        self.posts: list[Post] = []
        self.published: list[Entry] = []
        self.core = self._core()

    def _core(self) -> Agreement:
        return Agreement(
            node=self.name,
            incarnation=bytes(16),
            view=first_view(self.masters),
            durable=self.disk.durable(),
            logged=self.disk.ids,
            pace=Pace(),
            limits=self.limits,
        )

    def now(self, at: float) -> Now:
        """The time as this master sees it."""
        return Now(at, max(0, round(at) + self.skew))

    def submit(self, transaction: Transaction, at: float) -> None:
        """A client gave it, and its payload is durable here."""
        self.kafka[transaction.key] = transaction
        self.mine.add(transaction.key)
        self.core.step(Submitted(transaction=transaction), self.now(at))

    def acquire(self, transaction: Transaction, at: float) -> None:
        """Its payload was mirrored to here."""
        self.kafka[transaction.key] = transaction
        self.core.step(Acquired(transaction=transaction), self.now(at))

    def hear(self, post: Post, at: float) -> None:
        """A post arrives."""
        self.core.step(Heard(post=post), self.now(at))

    def turn(self, at: float, *, fail: Callable[[str], None] = lambda _: None) -> Post | None:
        """What the node's thread does in one turn.  `fail` may crash it before any effect is done."""
        self.core.step(Tick(), self.now(at))
        ready = self.core.ready()
        if ready is None:
            return None

        def save(what: Save) -> None:
            fail("save")
            self.disk.save(what)

        def publish(entry: Entry) -> None:
            fail("publish")
            self.published.append(entry)

        def post(what: Post) -> None:
            fail("post")
            self.posts.append(what)

        perform(ready, save=save, publish=publish, post=post)
        return ready.post

    def restart(self, at: float) -> None:
        """After a crash: from the disk, then from the own data centre's Kafka."""
        self.core = self._core()
        end = self.published[-1].index if self.published else 0
        assert len(self.disk.log) >= end, f"{self.name} said {end} entries and remembers {len(self.disk.log)}"
        for key, transaction in self.kafka.items():
            if key in self.mine:
                self.core.step(Submitted(transaction=transaction), self.now(at))
            else:
                self.core.step(Acquired(transaction=transaction), self.now(at))

    @property
    def log(self) -> list[tuple[Point, Pair]]:
        """The synchronised queue, what is not yet saved included."""
        return [*self.disk.log, *((e.point, e.pair) for e in self.core._pending.entries)]
