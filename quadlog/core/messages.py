"""Inputs and outputs of the agreement: its whole contract with the shell."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from quadlog.core.model import (
    NOWHERE,
    START,
    EffectsPosition,
    Entry,
    HardState,
    LogPosition,
    Pair,
    Post,
    RejoinReport,
    Transaction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


POST_LIMIT: Final = 5_000
"""Pairs of the queue in one post; the rest follows in the next posts.  As many again may lead up to
the merge base: 10,000 pairs of 57 bytes are below Kafka's default limit of 1 MB."""


class Now(NamedTuple):
    """The time, as an input: two clocks, because neither is suitable for the purpose of the other."""

    steady: float
    """Milliseconds of a clock that never jumps: determines when to post and which masters are silent."""
    wall: int
    """Milliseconds since 1970: for timestamps."""


# --- inputs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A client submitted a transaction to this master; its payload is durable in this DC's Kafka."""

    transaction: Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """The payload of a peer's transaction is durable in this DC's Kafka."""

    transaction: Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class PostReceived:
    """A post of a master was received."""

    post: Post


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Only time has passed: sent when `Agreement.wake_at` is reached."""


class LoggedDigests(Protocol):
    """Digests of synchronised transactions, by id."""

    def __contains__(self, transaction_id: object, /) -> bool:
        """Return whether a transaction of this id is synchronised."""
        ...

    def get(self, transaction_id: bytes, /) -> bytes | None:
        """Return the digest of the synchronised transaction of this id; None if there is none."""
        ...


class JoinedLog(Protocol):
    """Log of a stronger side, to which a joiner gives way.  It was read next to the own log and is durable here.

    Up to `fork` it is the own log, after that it is the other side's.  The master to which the joiner gives
    way may have less of it.
    """

    @property
    def own(self) -> LogPosition:
        """End of the own log when this one was read; if the own log has changed, this one must be read again."""
        ...

    @property
    def fork(self) -> LogPosition:
        """The last entry that both logs have."""
        ...

    @property
    def last(self) -> LogPosition:
        """The last entry that was read."""
        ...

    def digests(self, index: int) -> LoggedDigests:
        """Return the digests of all transactions that are synchronised there, up to an index."""
        ...

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash of the entry at an index, of the common part or of the other log; None: not read."""
        ...

    def tail(self, index: int, length: int) -> Sequence[tuple[LogPosition, Pair]]:
        """Return the newest entries of the joined log up to an index, oldest first, at most `length`."""
        ...

    def marks(self, index: int) -> Sequence[tuple[LogPosition, Pair]]:
        """Return the synchronous transactions and decisions after the fork, up to an index, oldest first."""
        ...

    def given_way(self, index: int) -> Sequence[tuple[Pair, Transaction]]:
        """Return the own entries after the fork, or after this index if it precedes the fork; oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedLogRead:
    """More of the log of the side that this master is joining was read."""

    joined_log: JoinedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """A master's topic of posts went back to an older copy: the master may have forgotten what it posted there.

    From now on it counts as a master that lost its disk; posts of a later incarnation are accepted.
    """

    node: str
    incarnation: bytes
    """The newest incarnation of it that was heard."""


@dataclass(frozen=True, slots=True)
class FoundSynchronous:
    """The effect of an entry of this log shows that it is synchronous."""

    point: LogPosition
    id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStatus:
    """What this master sees of its own data centre; it is posted, and determines where a view's home may be."""

    effects: EffectsPosition = NOWHERE
    """End of this data centre's effects topic."""
    full: bool = False
    """True if that topic accepts no records."""
    unheard: tuple[str, ...] = ()
    """Data centres from whose topics nothing arrives."""
    rejoined: RejoinReport | None = None
    """What this master gave up when it gave way last; None: nothing since its start."""
    known: int = 0
    """Index up to which the outcomes of synchronous transactions are known, and none is left to be submitted again."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """An operator asks this master to propose the decisions that are due."""

    until: float
    """Steady milliseconds until which it does."""


Input: TypeAlias = (
    Submitted
    | Acquired
    | PostReceived
    | JoinedLogRead
    | Voided
    | FoundSynchronous
    | Promoted
    | LocalStatus
    | Tick
)


# --- outputs -----------------------------------------------------------------------------------


class Adopted(NamedTuple):
    """The log becomes the joined log up to `last`: the own log up to the fork, or to `last` if that precedes it."""

    joined_log: JoinedLog
    last: LogPosition
    ended: Mapping[bytes, int] = MappingProxyType({})
    """Own transactions after the fork that ended: their ids, and the indexes that they had."""

    @property
    def kept(self) -> int:
        """Index of the last entry of the own log that is kept."""
        return min(self.joined_log.fork.index, self.last.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """Changes to make durable in one synced batch, applied in the order of the fields."""

    counter: int
    sequence: int
    standing: HardState | None = None
    """None: unchanged since the last save."""
    adopted: Adopted | None = None
    acquired: tuple[Transaction, ...]
    """Payloads that this DC has now; their keys stay until they are released."""
    enqueued: tuple[Pair, ...]
    dequeued: tuple[Pair, ...]
    entries: tuple[Entry, ...]
    """New entries at the end of the synchronised queue."""
    released: tuple[tuple[bytes, bytes], ...]
    """Keys (id, digest) of payloads that no pair will need again."""
    limbo: int = 0
    """Index of the first synchronous transaction, or decision on one, that a restart must know; 0: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Work that the shell must do after a step, in exactly this order.

    1. ``save`` is written and synced.
    2. ``entries`` are sent to the agreed topic, ``post`` is sent to the rounds topic.

    A post is a promise (no pair of mine will ever be at or below this counter but those posted; this is my
    queue): if it is sent before it is durable, a crash can break it.
    """

    save: Save
    entries: tuple[Entry, ...]
    post: Post | None


class ForgottenPayloadError(AssertionError):
    """An entry was agreed whose payload is not here, although this master had promised to have it.

    This is a bug, or the master has lost state: its disk and its topics may be older copies of one moment.
    The other masters know what it has promised since then.
    """


class TwoOrdersError(AssertionError):
    """Two masters of one view agreed on different orders: a bug, or a log was modified.

    The process must stop: continuing would spread the difference.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """State that a master has after a restart; it receives everything else again."""

    counter: int = 0
    sequence: int = 0
    last: LogPosition = START
    queue: Sequence[Pair] = ()
    acquired: Sequence[Transaction] = ()
    standing: HardState | None = None
    """None: nothing was saved yet."""
    blank: bool = False
    """True if its disk is new and its topics are not: it does not know what it had posted."""
    tail: Sequence[tuple[LogPosition, Pair]] = ()
    """The newest entries, at most POST_LIMIT, oldest first: a member that lags may still need them."""
    marks: Sequence[tuple[LogPosition, Pair]] = ()
    """The synchronous transactions and the decisions from `Save.limbo` on, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementLimits:
    """Sizes of posts and turns.  What exceeds them waits for the next post or the next turn."""

    post: int = POST_LIMIT
    """Pairs of the queue in one post.  No master adds more entries than this beyond the last merge base posted by
    the member that lags furthest, so that one post can always contain all entries that this member lacks."""
    turn: int = 1_000
    """Entries that ADD appends before they are saved and published: the entries that become due after a long
    silence pass through memory in parts, and inputs that arrive meanwhile are processed in between."""
    near: int = 1_000
    """Entries that a joiner may lack when it is admitted: the other members wait for it until it has them."""
    snapshot_every: int = 256
    """Posts after which a snapshot is due, so that a restarted master finds one close to the end of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostingPace:
    """Intervals of posts and timeouts, in milliseconds."""

    window: float = 1.0
    """How long a busy master collects news before a post."""
    settle: float = 25.0
    """How long a new merge base alone may wait for other news.  It delays no other master."""
    idle: float = 1000.0
    """Interval between the posts of a master that has no news."""
    put_off: int = 4
    """Longest delay before a master that was given up repeatedly is admitted, as a multiple of `max-peer-lag`, or of
    10 s if that is longer."""
