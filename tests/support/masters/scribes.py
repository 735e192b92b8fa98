"""Masters of one data centre that write its agreed topic, and one who reads it as workers do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from quadlog.core.model import (
    START,
    Entry,
    LogPosition,
    Pair,
    Payload,
    Transaction,
    TransactionKind,
    View,
    chain_hash,
)
from quadlog.core.records import Cut, LoggedEntry, Place, Reached
from quadlog.master.log.log_publisher import LogPublisher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Acked


def view_of(epoch: int) -> View:
    """A view that a writer may have installed."""
    return View(epoch=epoch, members=("m1", "m2", "m3"))


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a log, with what it is made of."""

    point: LogPosition
    previous: bytes
    payload: Payload

    @property
    def pair(self) -> Pair:
        """Its place in the incoming queue."""
        return Pair(self.point.index, *self.payload.transaction.key)

    def entry(self, view: View) -> Entry:
        """As the agreement appends it."""
        return Entry(
            index=self.point.index,
            pair=self.pair,
            kind=TransactionKind.TX,
            options={},
            previous=self.previous,
            chain=self.point.chain,
            view=view,
        )


def grown(log: Sequence[Line], name: str, count: int) -> list[Line]:
    """A log with more at its end."""
    longer = list(log)
    for _ in range(count):
        last = longer[-1].point if longer else START
        digest = blake2b(f"{name}/{last.index}".encode(), digest_size=32).digest()
        transaction = Transaction(id=digest[:16], digest=digest)
        chain = chain_hash(last.chain, transaction, last.index + 1)
        payload = Payload(
            transaction=transaction, origin="m1", origin_dc="dc1", created=0, media_type="t", body=b"b"
        )
        longer.append(Line(LogPosition(last.index + 1, chain), last.chain, payload))
    return longer


def common(one: Sequence[Line], other: Sequence[Line]) -> int:
    """Index of the last entry that both logs have."""
    both = min(len(one), len(other))
    return next((i for i in range(both) if one[i].point != other[i].point), both)


class Reader:
    """What stands in a topic, as workers understand it."""

    def __init__(self) -> None:
        """Nothing was read."""
        self.log: list[LogPosition] = []
        self.cut = 0

    def hear(self, said: LoggedEntry | Cut) -> None:
        """What does not follow is passed over."""
        last = self.log[-1] if self.log else START
        if isinstance(said, Cut):
            if said.epoch > self.cut and (
                said.index < last.index or LogPosition(said.index, said.chain) == last
            ):
                del self.log[said.index :]
                assert (self.log[-1] if self.log else START).chain == said.chain, (
                    "cut behind what is not there"
                )
                self.cut = said.epoch
        elif said.epoch >= self.cut and said.index == last.index + 1 and said.previous == last.chain:
            self.log.append(LogPosition(said.index, said.chain))


@dataclass
class Topic:
    """Of one data centre."""

    said: list[tuple[LoggedEntry | Cut, str]] = field(default_factory=list)
    """In order, with its writer."""

    @property
    def places(self) -> list[Place | Cut]:
        """As masters hear it."""
        return [said if isinstance(said, Cut) else place_of(said) for said, _ in self.said]

    def read(self) -> Reader:
        """All of it."""
        reader = Reader()
        for said, _ in self.said:
            reader.hear(said)
        return reader


def place_of(entry: LoggedEntry) -> Place:
    """As masters hear it."""
    return Place(entry.epoch, entry.index, entry.chain, entry.previous)


class Writer:
    """One master of the data centre: its log, what it has sent, what was acknowledged."""

    def __init__(self, name: str, topic: Topic) -> None:
        """It has nothing."""
        self.name, self.topic = name, topic
        self.log: list[Line] = []
        self.epoch = 1
        self.newest: Cut | None = None
        """As the store remembers it."""
        self.saved: Reached | None = None
        """How far it had followed the topic when it saved last; None: it saved nothing yet."""
        self.gone: set[int] = set()
        """Indexes of entries whose payloads are not kept."""
        self.read = 0
        """Records heard."""
        self.asked = 0
        """Payloads looked up."""
        self._begin()

    def _begin(self) -> None:
        self.wanted: list[int] = []
        """Entries that are looked for."""
        self.sent: list[tuple[LoggedEntry | Cut, Acked]] = []
        """Not in the topic yet; in order."""
        self.log_publisher = LogPublisher(
            log_sink=self,
            saved=self,
            payload=self.payload,
            view=lambda: view_of(self.epoch),
            written=lambda *_: None,
            regain=self.wanted.append,
            last=len(self.log),
        )

    # --- what a scribe needs ------------------------------------------------------------------------

    def publish(self, entry: LoggedEntry, acked: Acked) -> None:
        """Send an entry."""
        self.sent.append((entry, acked))

    def publish_cut(self, cut: Cut, acked: Acked, *, at: int) -> None:
        """Send a cut."""
        assert at > 0
        self.sent.append((cut, acked))

    def entry(self, index: int) -> tuple[bytes, Pair] | None:
        """Of the log as it is saved."""
        if not 0 < index <= len(self.log):
            return None
        line = self.log[index - 1]
        return line.point.chain, line.pair

    def payload(self, key: tuple[bytes, bytes]) -> Payload:
        """Of an entry that is saved."""
        self.asked += 1
        for index in range(len(self.log), 0, -1):
            line = self.log[index - 1]
            if line.payload.transaction.key == key and index not in self.gone:
                return line.payload
        raise KeyError(key)

    # --- what happens -------------------------------------------------------------------------------

    def append(self, line: Line) -> None:
        """An entry is agreed, and saved."""
        self.log.append(line)
        self.saved = self.log_publisher.reached
        self.log_publisher.write(line.entry(view_of(self.epoch)))

    def give_way(
        self, other: Sequence[Line], epoch: int, *, dies: bool = False, last: int | None = None
    ) -> None:
        """Take another log for the own one; `dies` before anybody is told.

        Args:
            other: all that was read of it.
            epoch: of the view that is installed with it.
            dies: whether it does before anybody is told.
            last: index up to which the view begins with it; None: up to its end.

        """
        last = len(other) if last is None else last
        kept = min(common(self.log, other), last)
        held = self.log_publisher.goes_along(
            lambda i: other[i - 1].point.chain if 0 < i <= len(other) else None, kept=kept, last=last
        )
        self.log, self.epoch = list(other[:last]), epoch
        chain = other[held - 1].point.chain if held else START.chain
        self.newest = Cut(epoch=epoch, lineage=view_of(epoch).id, index=held, chain=chain)
        self.saved = replace(self.log_publisher.reached, held=held)
        if not dies:
            self.log_publisher.truncate(self.newest, last)

    def arrive(self) -> None:
        """The first of what it has sent is in the topic."""
        said, acked = self.sent.pop(0)
        self.topic.said.append((said, self.name))
        acked(len(self.topic.said) - 1)

    def hear(self) -> list[int]:
        """The next record of the topic.  Indexes that are held since."""
        if self.read == len(self.topic.said):
            return []
        said, name = self.topic.said[self.read]
        self.read += 1
        place = said if isinstance(said, Cut) else place_of(said)
        return [index for index, _ in self.log_publisher.holds(place, self.read - 1, mine=name == self.name)]

    def hear_all(self) -> None:
        """Up to its end."""
        while self.read < len(self.topic.said):
            self.hear()

    def settle(self) -> None:
        """All that it has sent arrives, and is heard; what it looks for is found."""
        self.hear_all()
        while self.sent or self.wanted:
            if self.sent:
                self.arrive()
            self.hear_all()
            self.find()

    def find(self, *, most: int = 4) -> None:
        """What is looked for is found in the topic, and some of what follows it."""
        if not self.wanted:
            return
        first = self.wanted.pop()
        own = {line.point.chain for line in self.log[first - 1 : first - 1 + most]}
        self.log_publisher.regained(
            said for said, _ in self.topic.said if isinstance(said, LoggedEntry) and said.chain in own
        )

    def restart(self) -> None:
        """Its process dies; what it had sent and was not taken is lost.  It reads on where it was when it saved."""
        self._begin()
        start = 0 if self.saved is None else self.saved.offset
        places = [(place, offset) for offset, place in enumerate(self.topic.places) if offset >= start]
        self.log_publisher.resume(self.saved, places, self.newest)
        self.read = len(self.topic.said)


OWN = grown([], "own", 8)
THEIRS = grown(OWN[:5], "theirs", 6)


def writer(count: int = 0, *, leads: bool = True, topic: Topic | None = None, name: str = "m1") -> Writer:
    """With the first entries of `OWN`."""
    one = Writer(name, topic or Topic())
    one.log_publisher.lead(mine=leads)
    for line in OWN[:count]:
        one.append(line)
    return one


def two_writers(count: int, other: int | None = None) -> tuple[Writer, Writer]:
    """One leads, and has said the first entries of `OWN`; the other stands by, has some of them, and has heard that."""
    topic = Topic()
    one = writer(count, topic=topic)
    two = writer(count if other is None else other, leads=False, topic=topic, name="m2")
    one.settle()
    for _ in two.log:
        two.hear()
    return one, two


def two_that_give_way(*, lower: int) -> tuple[Writer, Writer]:
    """The second one has cut the log further back, in this epoch, and dies with that; the first one leads, too."""
    one, two = two_writers(8, 3)
    one.give_way(THEIRS, 6)
    two.give_way(THEIRS, lower)
    two.log_publisher.lead(mine=True)
    two.arrive()
    return one, two


def sent(one: Writer) -> list[int | str]:
    """What is under way: indexes, and cuts."""
    return [f"cut {said.index}" if isinstance(said, Cut) else said.index for said, _ in one.sent]
