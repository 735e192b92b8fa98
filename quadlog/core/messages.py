"""What goes into the agreement and what comes out of it: its whole contract with the shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from quadlog.core.model import START, Entry, Pair, Point, Post, Standing, Transaction

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

POST_LIMIT: Final = 5_000
"""Pairs of the queue in one post; what is left follows in the next ones.  As many again may lead up to
the merge base: 10,000 pairs of 57 bytes are below Kafka's default limit of 1 MB."""


class Now(NamedTuple):
    """The time, as an input: two clocks, because each is wrong for the other's work."""

    steady: float
    """Milliseconds of a clock that never jumps: when to post, who is silent."""
    wall: int
    """Milliseconds since 1970: timestamps."""


# --- inputs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A client gave this master a transaction; its payload is durable in this DC's Kafka."""

    transaction: Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """The payload of a peer's transaction is durable in this DC's Kafka."""

    transaction: Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A master's post arrived."""

    post: Post


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Nothing but time: sent when `Agreement.wake_at` is reached."""


class Branch(Protocol):
    """The log of a stronger side, read beside the own one, and durable here: what a joiner gives way to.

    It is the own log up to `fork`, and theirs from there on.  Whom the joiner gives way to may have less of it.
    """

    @property
    def own(self) -> Point:
        """The end of the own log that it was read beside: if that is another by now, it has to be read again."""
        ...

    @property
    def fork(self) -> Point:
        """The last entry that both logs have."""
        ...

    @property
    def last(self) -> Point:
        """How far it was read."""
        ...

    def ids(self, index: int) -> Container[bytes]:
        """Of all transactions that are synchronised there, up to an index."""
        ...

    def chain_at(self, index: int) -> bytes | None:
        """Chain hash of the entry at an index, of both logs or of theirs."""
        ...

    def tail(self, index: int, length: int) -> Sequence[tuple[Point, Pair]]:
        """Their newest entries up to an index, oldest first, no more than so many."""
        ...

    def given_way(self, index: int) -> Sequence[tuple[Pair, Transaction]]:
        """The own entries behind the fork, or behind this index if that is before it; oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """More of the log of the side that this master is joining was read."""

    branch: Branch


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """A master's topic of posts went back to an older copy: the master may have forgotten what it said there.

    It counts as one that lost its disk, from now on; a later incarnation of it is heard.
    """

    node: str
    incarnation: bytes
    """The newest one of it that was heard."""


Input: TypeAlias = Submitted | Acquired | Heard | Followed | Voided | Tick


# --- outputs -----------------------------------------------------------------------------------


class Adopted(NamedTuple):
    """The log is the branch up to `last`: the own one up to the fork, or to `last` if that is before it."""

    branch: Branch
    last: Point

    @property
    def kept(self) -> int:
        """Index of the last entry of the own log that stays."""
        return min(self.branch.fork.index, self.last.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """What has to be durable, in one synced batch, applied in the order of the fields."""

    counter: int
    sequence: int
    standing: Standing | None = None
    """None: as saved before."""
    adopted: Adopted | None = None
    acquired: tuple[Transaction, ...]
    """Payloads that this DC has now; their keys stay until released."""
    enqueued: tuple[Pair, ...]
    dequeued: tuple[Pair, ...]
    entries: tuple[Entry, ...]
    """New at the end of the synchronised queue."""
    released: tuple[tuple[bytes, bytes], ...]
    """Keys (id, digest) of payloads that no pair will ask for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What a step asks of the shell, in this order and no other.

    1. ``save`` is written and synced.
    2. ``entries`` go to the agreed topic, ``post`` goes to the rounds topic.

    A post is a promise (nothing of mine will ever stand before this counter; this is my queue):
    one that left before it was durable can be broken by a crash.
    """

    save: Save
    entries: tuple[Entry, ...]
    post: Post | None


class ForgottenPayloadError(AssertionError):
    """An entry was agreed whose payload is not here, and this master had promised to have it: a bug, or it forgot.

    Its disk and its topics may be older copies of one moment.  What it promised since, others know.
    """


class TwoOrdersError(AssertionError):
    """Two masters of one view agreed on different orders: a bug, or somebody changed a log.

    The process must stop: going on would spread it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """What a master knows after a restart; everything else it hears again."""

    counter: int = 0
    sequence: int = 0
    last: Point = START
    queue: Sequence[Pair] = ()
    acquired: Sequence[Transaction] = ()
    standing: Standing | None = None
    """None: nothing was saved yet."""
    blank: bool = False
    """Its disk is new and its topics are not: it had said things that it does not know of."""
    tail: Sequence[tuple[Point, Pair]] = ()
    """The newest entries, up to POST_LIMIT of them, oldest first: what a lagger may still need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much at once.  What is above waits for the next post, or for the next turn."""

    post: int = POST_LIMIT
    """Pairs of the queue in one post.  Nobody adds more entries than that beyond the last merge base that
    the furthest lagger posted, so that one post can always tell it all it lacks."""
    turn: int = 1_000
    """Entries that ADD appends before they are saved and published: what becomes free after a long
    silence goes through memory in parts, and what came in meanwhile is heard in between."""
    near: int = 1_000
    """Entries that a joiner may lack when it is let in: the others wait for it meanwhile."""
    snapshot_every: int = 256
    """Posts after which a snapshot is due, so that who starts again finds one close to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When to post, in milliseconds."""

    window: float = 1.0
    """Busy: how long news is gathered before a post."""
    settle: float = 25.0
    """How long a new merge base alone may wait for company.  Nobody is held back by it."""
    idle: float = 1000.0
    """Silence between the posts of a master that has nothing to say."""
    lag: float = float("inf")
    """Silence after which a member of the view is given up."""
    put_off: int = 4
    """How many times `lag`, or 10 s where that is longer, one that was given up again and again is put off at the most
    before it is let in."""
