"""Masters without the world: the real core, a store of dictionaries, topics that are lists.

Used by the scenarios (where a person says what happens) and by the weather (where chance does).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.agreement.agreement import Agreement
from quadlog.core.agreement.limbo import marks_of
from quadlog.core.approval import implied_by
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.membership.incarnations import new_incarnation
from quadlog.core.messages import (
    Acquired,
    AgreementLimits,
    JoinedLogRead,
    LocalStatus,
    Now,
    PostingPace,
    PostReceived,
    RecoveredState,
    Submitted,
    Tick,
    Voided,
)
from quadlog.core.model import START, HardState, LogPosition, Pair, Post, Transaction
from quadlog.master.node.perform import perform

if TYPE_CHECKING:
    from collections.abc import Callable, KeysView, Mapping, Sequence

    from quadlog.core.messages import Adopted, JoinedLog, LoggedDigests, Save
    from quadlog.core.model import Entry


class CrashError(Exception):
    """The process died here."""


class Logged(NamedTuple):
    """An entry, as a log keeps it."""

    point: LogPosition
    pair: Pair
    transaction: Transaction


class Beside:
    """What a joiner has read of another log: the `JoinedLog` that its core asks for."""

    def __init__(self, own: Sequence[Logged], theirs: Sequence[Logged], length: int) -> None:
        """`theirs` up to an index `length`, beside `own`."""
        both = min(len(own), length)
        at = bisect_left(range(both), 1, key=lambda i: own[i].point != theirs[i].point)
        self.own = own[-1].point if own else START
        self.fork = own[at - 1].point if at else START
        self._theirs = [*own[:at], *theirs[at:length]]
        self._own = own

    @property
    def last(self) -> LogPosition:
        return self._theirs[-1].point if self._theirs else START

    def digests(self, index: int) -> dict[bytes, bytes]:
        return {entry.pair.id: entry.pair.digest for entry in self._theirs[:index]}

    def entries(self, after: int, index: int) -> Sequence[Logged]:
        """Theirs, from one index to another."""
        return self._theirs[after:index]

    def chain_at(self, index: int) -> bytes | None:
        if index == 0:
            return START.chain
        return self._theirs[index - 1].point.chain if index <= len(self._theirs) else None

    def tail(self, index: int, length: int) -> Sequence[tuple[LogPosition, Pair]]:
        return [(entry.point, entry.pair) for entry in self._theirs[max(0, index - length) : index]]

    def marks(self, index: int) -> Sequence[tuple[LogPosition, Pair]]:
        return marks_of((e.point, e.pair) for e in self._theirs[self.fork.index : index])

    def given_way(self, index: int) -> Sequence[tuple[Pair, Transaction]]:
        return [(entry.pair, entry.transaction) for entry in self._own[min(index, self.fork.index) :]]


@dataclass(slots=True)
class Disk:
    """What a master has saved: survives a crash."""

    counter: int = 0
    sequence: int = 0
    standing: HardState | None = None
    queue: set[Pair] = field(default_factory=set)
    acquired: dict[tuple[bytes, bytes], Transaction] = field(default_factory=dict)
    log: list[Logged] = field(default_factory=list)
    digests: dict[bytes, bytes] = field(default_factory=dict)
    cuts: int = 0
    """How often the log was cut."""
    limbo: int = 0
    """Index of the first entry that concerns synchronous transactions and must be known; 0: there is none."""
    taken: int = 0
    """Of the payloads that the master was told of, how many were taken in: a restart is told of the others only."""

    @property
    def logged(self) -> LoggedDigests:
        """Digests of all that is synchronised."""
        return self.digests

    @property
    def ids(self) -> KeysView[bytes]:
        """Of all that is synchronised."""
        return self.digests.keys()

    def save(self, save: Save) -> None:
        """One batch, whole or not at all."""
        self.counter, self.sequence, self.standing = (
            save.counter,
            save.sequence,
            save.standing or self.standing,
        )
        if save.adopted is not None:
            self._adopt(save.adopted)
        self.acquired.update({t.key: t for t in save.acquired})
        self.queue.update(save.enqueued)
        self.queue.difference_update(save.dequeued)
        for entry in save.entries:
            self.log.append(Logged(entry.point, entry.pair, transaction_of(entry)))
            self.digests[entry.pair.id] = entry.pair.digest
        for key in save.released:
            self.acquired.pop(key, None)
        self.limbo = save.limbo

    def _adopt(self, adopted: Adopted) -> None:
        joined_log = adopted.joined_log
        assert isinstance(joined_log, Beside)
        at = adopted.kept
        for entry in self.log[at:]:
            del self.digests[entry.pair.id]
        self.log[at:] = joined_log.entries(at, adopted.last.index)
        self.digests.update({entry.pair.id: entry.pair.digest for entry in self.log[at:]})
        assert (self.log[-1].point if self.log else START) == adopted.last
        self.cuts += 1

    def durable(self) -> RecoveredState:
        """What a restart begins with."""
        return RecoveredState(
            counter=self.counter,
            sequence=self.sequence,
            last=self.log[-1].point if self.log else START,
            queue=tuple(self.queue),
            acquired=tuple(self.acquired.values()),
            standing=self.standing,
            tail=tuple((entry.point, entry.pair) for entry in self.log[-5000:]),
            marks=marks_of((e.point, e.pair) for e in self.log[self.limbo - 1 :]) if self.limbo else (),
        )


def transaction_of(entry: Entry) -> Transaction:
    """What became the entry."""
    return Transaction(id=entry.pair.id, digest=entry.pair.digest, kind=entry.kind, options=entry.options)


class Member:
    """One master: its core, its disk, and what it said."""

    def __init__(
        self,
        name: str,
        masters: Mapping[str, str],
        *,
        limits: AgreementLimits | None = None,
        settings: ClusterSettings | None = None,
        pace: PostingPace | None = None,
        skew: int = 0,
        kafka: dict[tuple[bytes, bytes], Transaction] | None = None,
        joins: bool = False,
        witnesses: frozenset[str] = frozenset(),
    ) -> None:
        """A master.

        Args:
            name: its id.
            masters: the peers of its settings, and itself.
            limits: how much at once.
            settings: what all masters share; nobody is given up for silence by default.
            pace: when to post.
            skew: milliseconds by which its wall clock is off.
            kafka: shared in a data centre.
            joins: it comes new to a cluster that is there.
            witnesses: data centres that evaluate nothing.

        """
        self.witnesses = witnesses
        self.name, self.dc, self.masters, self.skew = name, masters[name], dict(masters), skew
        self.limits, self.pace = limits or AgreementLimits(), pace or PostingPace()
        self.settings = settings or ClusterSettings(max_peer_lag=inf)
        self.incarnation = new_incarnation(None, 0, bytes(10))
        self.joins = joins
        self.losses = 0
        """How often it lost its disk."""
        self.lost_log: list[Logged] = []
        """What the disk had that it lost last."""
        self.disk = self._disk()
        self.kafka: dict[tuple[bytes, bytes], Transaction] = {} if kafka is None else kafka
        """Payloads that are durable in this master's data centre, whether it knows or not."""
        self.told: dict[tuple[bytes, bytes], None] = {}
        """Of them, those that it has heard of, in order."""
        self.mine: set[tuple[bytes, bytes]] = set()
        """Those that its own clients gave."""
        self.posts: list[Post] = []
        self.published: list[Logged] = []
        """What the agreed topic says, all cuts made."""
        self._cuts = 0
        self.core = self._core()
        self.saved: Callable[[Save, Sequence[Logged]], None] = lambda _, __: None
        """Told of what was saved, and which entries the log lost by it."""

    def _disk(self) -> Disk:
        return Disk()

    def _core(self) -> Agreement:
        core = self._new_core()
        core._post_builder.status = LocalStatus(known=2**62)  # decisions are forgotten once they are settled
        return core

    def _new_core(self) -> Agreement:
        return Agreement(
            node=self.name,
            incarnation=self.incarnation,
            masters={name: dc for name, dc in self.masters.items() if name != self.name or not self.joins},
            durable=replace(self.disk.durable(), blank=self.joins or self.losses > 0),
            logged=self.disk.logged,
            settings=self.settings,
            pace=self.pace,
            limits=self.limits,
            witnesses=self.witnesses,
        )

    @property
    def is_full(self) -> bool:
        """Whether its data centre's effects topic takes no records, as it was told since it started."""
        return self.core._post_builder.status.full

    def now(self, at: float) -> Now:
        """The time as this master sees it."""
        return Now(at, max(0, round(at) + self.skew))

    def submit(self, transaction: Transaction, at: float) -> None:
        """A client gave it, and its payload is durable here: in a record of its own, also where it was there before."""
        self.kafka[transaction.key] = transaction
        if transaction.key in self.told:
            self.disk.taken -= list(self.told).index(transaction.key) < self.disk.taken
            del self.told[transaction.key]
        self.told[transaction.key] = None
        self.mine.add(transaction.key)
        self.core.step(Submitted(transaction=transaction), self.now(at))

    def acquire(self, transaction: Transaction, at: float) -> None:
        """Its payload was mirrored to here."""
        self.kafka[transaction.key] = transaction
        self.told[transaction.key] = None
        self.core.step(Acquired(transaction=transaction), self.now(at))

    def wake(self, at: float) -> None:
        """It does something that matters to nobody."""
        self.core._views.failure_detector.wake(self.now(at).steady)

    def hear(self, post: Post, at: float) -> None:
        """A post arrives."""
        self.core.step(PostReceived(post=post), self.now(at))

    def void(self, name: str, incarnation: bytes, at: float) -> None:
        """What another one said in an incarnation is not there any more."""
        self.core.step(Voided(node=name, incarnation=incarnation), self.now(at))

    def follow(self, other: Member, entries: int, at: float) -> None:
        """Read some more of another's agreed topic beside."""
        if self.core.standing.joining is None:
            return
        beside = self.core.beside
        joined_log = Beside(
            list(self.disk.log),
            other.published,
            min(len(other.published), (beside.index if beside else 0) + entries),
        )
        if joined_log.last == beside:
            return
        self.core.step(JoinedLogRead(joined_log=self._read(joined_log)), self.now(at))

    def _read(self, joined_log: Beside) -> JoinedLog:
        """What it makes of what it read."""
        return joined_log

    def turn(self, at: float, *, fail: Callable[[str], None] = lambda _: None) -> Post | None:
        """What the node's thread does in one turn.  `fail` may crash it before any effect is done."""
        self.core.step(Tick(), self.now(at))
        ready = self.core.ready()
        if ready is None:
            return None

        def save(what: Save) -> None:
            fail("save")
            lost = self.disk.log[what.adopted.kept :] if what.adopted is not None else ()
            self.disk.save(what)
            self.disk.taken = len(self.told)
            self.saved(what, lost)
            if what.adopted is not None:
                adopted = self.disk.log[what.adopted.kept :]
                self.kafka.update(
                    {e.transaction.key: e.transaction for e in adopted if implied_by(e.pair.key) is None}
                )
                fail("cut")
                self._publish_all()

        def publish(entry: Entry) -> None:
            fail("publish")
            if len(self.published) < entry.index:
                self.published.append(Logged(entry.point, entry.pair, transaction_of(entry)))

        def post(what: Post) -> None:
            fail("post")
            self.posts.append(what)

        perform(ready, save=save, publish=publish, post=post)
        return ready.post

    def _publish_all(self) -> None:
        """Cut where the log was cut, and say what is missing."""
        log, self._cuts = self.disk.log, self.disk.cuts
        both = min(len(log), len(self.published))
        at = bisect_left(range(both), 1, key=lambda i: log[i].point != self.published[i].point)
        self.published[at:] = log[at:]

    def restart(self, at: float) -> None:
        """After a crash: from the disk, then from the own data centre's Kafka."""
        self.core = self._core()
        if not self.core.is_blank:  # else the agreed topic holds more than it knows
            self._say_what_is_missing()
        self.told = dict.fromkeys(list(self.told)[: self.disk.taken])
        for key, transaction in [item for item in self.kafka.items() if item[0] not in self.told]:
            self.told[key] = None
            given = Submitted if key in self.mine else Acquired
            self.core.step(given(transaction=transaction), self.now(at))

    def lose_disk(self, at: float) -> None:
        """Its process dies, and starts again with nothing but what its data centre's Kafka has."""
        self.losses += 1
        self.incarnation = new_incarnation(self.incarnation, self.now(at).wall, bytes(10))
        self.lost_log = self.disk.log
        self.disk, self._cuts = self._disk(), 0
        self.restart(at)

    def _say_what_is_missing(self) -> None:
        if self._cuts == self.disk.cuts and self.published:
            end, log = len(self.published), self.disk.log
            assert len(log) >= end, f"{self.name} said {end} entries and remembers {len(log)}"
            assert log[end - 1].point == self.published[-1].point, (
                f"{self.name} remembers another log than it said"
            )
        self._publish_all()

    @property
    def log(self) -> list[tuple[LogPosition, Pair]]:
        """The synchronised queue, what is not yet saved included."""
        return [
            *((entry.point, entry.pair) for entry in self.disk.log),
            *((e.point, e.pair) for e in self.core._local_state.changes.entries),
        ]
