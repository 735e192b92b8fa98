"""The words of the protocol as values: transactions, posts, views, entries.

All of them are immutable.  Timestamps are hybrid logical clock readings,
milliseconds << 16 | counter, in one 64-bit integer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HASH_SIZE: Final = 32
GENESIS: Final = bytes(HASH_SIZE)
"""Chain hash before the first entry."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def hash_of(*parts: bytes) -> bytes:
    """blake2b-256 of the parts, each behind its length, so that no two lists of parts collide.

    >>> hash_of(b"ab", b"c") == hash_of(b"a", b"bc")
    False
    """
    digest = blake2b(digest_size=HASH_SIZE)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


class Kind(StrEnum):
    """What an entry is; only TX carries quads."""

    TX = "TX"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    CONFIG = "CONFIG"
    EVALUATOR = "EVALUATOR"
    SUSPEND = "SUSPEND"


class Pair(NamedTuple):
    """A transaction's place in an incoming queue.  Pairs sort as the queue does.

    The digest belongs to it: one id may come with two bodies at two masters at once, and only
    one of them may be what everybody means by that id.
    """

    timestamp: int
    id: bytes
    digest: bytes

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Which payload: id and digest."""
        return self.id, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What the order needs to know of a transaction; its body stays in Kafka and RocksDB."""

    id: bytes
    digest: bytes
    kind: Kind = Kind.TX
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Which payload: id and digest."""
        return self.id, self.digest


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a history, for ever: the entry's index and its chain hash."""

    index: int
    chain: bytes


START: Final = Point(0, GENESIS)


class Rank(NamedTuple):
    """How strong the claim of a side is: the greater one is joined by the smaller one."""

    epoch: int
    """Of the last view on its lineage that held a majority."""
    members: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A membership that agrees on one order."""

    epoch: int
    members: tuple[str, ...]
    parent: bytes = GENESIS

    @property
    def id(self) -> bytes:
        """Name of the view: of its epoch, members and parent."""
        return _view_id(self)


@lru_cache(maxsize=64)
def _view_id(view: View) -> bytes:
    """Every entry of a view is written with it."""
    return hash_of(view.epoch.to_bytes(8, "big"), *(m.encode() for m in view.members), view.parent)


def first_view(masters: Iterable[str]) -> View:
    """The view that a new cluster starts in: all configured masters."""
    return View(epoch=1, members=tuple(sorted(masters)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a master stands among the others: what it may never forget."""

    view: View
    """The installed one."""
    ballot: View | None = None
    """What it voted for last: one vote an epoch, for ever."""
    promise: int = 1
    """Epoch of the last view on its lineage that held a majority."""
    joining: View | None = None
    """The view of a stronger side that it asks to be let into."""
    given_up: tuple[str, ...] = ()
    """Members that are not to be in its next view."""


class Ask(NamedTuple):
    """A request for a snapshot: posts of `node` up to `sequence` were heard, with a gap before."""

    node: str
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What a master says each round: a snapshot, or what is new since its post before."""

    node: str
    incarnation: bytes
    sequence: int
    base_sequence: int | None = None
    """None: a snapshot, whatever was posted before is void.  Else the post that this is a delta on."""
    view: View
    base: Point
    counter: int
    """Everything of the sender's queue up to here is posted, and nothing will ever join it here or before."""
    queue: tuple[Pair, ...]
    """Pairs newly posted, in order: always the lowest ones of those that are not posted yet."""
    added: tuple[Pair, ...] = ()
    """What leads up to the base: from the sender's post before, in a snapshot from the furthest lagger's base."""
    asks: tuple[Ask, ...] = ()
    ballot: View | None = None
    """The view that the sender voted for, and that is not installed there yet."""
    rank: Rank
    joining: View | None = None
    given_up: tuple[str, ...] = ()
    whole: bool = True
    """Nothing of the queue is left for the next post."""
    beside: Point | None = None
    """How far the sender has the log of the view that it is joining."""

    @property
    def highest(self) -> int:
        """No timestamp in it is above this."""
        return max(self.counter, self.queue[-1].timestamp) if self.queue else self.counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One transaction of the synchronised queue."""

    index: int
    pair: Pair
    kind: Kind
    options: Mapping[str, str]
    previous: bytes
    chain: bytes
    view: View

    @property
    def point(self) -> Point:
        """Where in the history this entry stands."""
        return Point(self.index, self.chain)


def chain_hash(previous: bytes, transaction: Transaction, timestamp: int) -> bytes:
    """Chain hash of the entry that `transaction` becomes; never of the epoch that agreed it."""
    return hash_of(
        previous,
        transaction.kind.encode(),
        transaction.id,
        timestamp.to_bytes(8, "big"),
        transaction.digest,
        *_parts(transaction.options),
    )


def _parts(options: Mapping[str, str]) -> Iterator[bytes]:
    return (part.encode() for item in sorted(options.items()) for part in item)


def effects_chain(previous: bytes, entry_chain: bytes, outcome: str, signature_after: bytes) -> bytes:
    """The effects' own chain: where logs fork is said by the entries' chain, where states fork by this."""
    return hash_of(previous, entry_chain, outcome.encode(), signature_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A transaction as a client gave it."""

    transaction: Transaction
    origin: str
    origin_dc: str
    created: int
    """Milliseconds since 1970: what NOW() is, whatever happens later."""
    media_type: str
    body: bytes
    traceparent: str = ""

    @property
    def body_hash(self) -> bytes:
        """Tells a retry from another request under the same Idempotency-Key: 16 bytes."""
        return body_hash(self.body, self.transaction.options)


def payload_digest(
    *,
    origin: str,
    created: int,
    media_type: str,
    traceparent: str,
    body: bytes,
    options: Mapping[str, str] = _NONE,
) -> bytes:
    """Digest of a payload, whole: what is agreed under it is the same bytes in every data centre."""
    return hash_of(
        created.to_bytes(8, "big"),
        origin.encode(),
        media_type.encode(),
        traceparent.encode(),
        body,
        *_parts(options),
    )


def body_hash(body: bytes, options: Mapping[str, str] = _NONE) -> bytes:
    """16 bytes that stand for a body and what it is to mean, where two of them are compared."""
    asked = hash_of(body, *_parts(options)) if options else body
    return blake2b(asked, digest_size=16).digest()


def id_of_key(repository: str, key: str) -> bytes:
    """The transaction id that an ``Idempotency-Key`` stands for, the same at every master."""
    return hash_of(b"idempotency-key", repository.encode(), key.encode())[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEntry:
    """An entry as the agreed topic holds it: with its payload, and with its writer's lineage."""

    index: int
    kind: Kind
    id: bytes
    timestamp: int
    digest: bytes
    options: Mapping[str, str]
    previous: bytes
    chain: bytes
    epoch: int
    lineage: bytes
    origin: str
    created: int
    media_type: str
    body: bytes
    traceparent: str = ""


class Outcome(StrEnum):
    """What became of an entry."""

    APPLIED = "APPLIED"
    REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one entry did.  Quads are canonical N-Quads lines, graphs are N-Quads terms."""

    index: int
    id: bytes
    entry_chain: bytes
    term: bytes
    attempt: int
    outcome: Outcome
    reason: str | None = None
    deleted: tuple[str, ...] = ()
    inserted: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    quads: int
    signature_before: bytes
    signature_after: bytes
    chain: bytes
    continues: bool = False
    """Of a chunk: its last line goes on in the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A worker takes over evaluation: what older attempts write after this is void."""

    term: bytes
    attempt: int
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The duty to evaluate goes to another data centre: what other terms write after this is void."""

    index: int
    """Of the EVALUATOR entry that says so; 0: the view's own term, from its beginning."""
    term: bytes
    """Chain hash of that entry."""
    dc: str
    start: int = 0
    """Offset in the effects topic of `dc` behind which the term begins; 0: not said yet, or in the home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """What the log begins with instead of the empty state."""

    signature: bytes
    quads: int
    digest: bytes
    """Of the files of the store that was shipped, as one stream."""
    at: int
    """Milliseconds since 1970."""
    by: str
    sources: tuple[str, ...]

    @property
    def state(self) -> StateAfter:
        """As the state after index 0."""
        return StateAfter(index=0, id=b"", entry_chain=GENESIS, signature=self.signature)


class WorkerState(StrEnum):
    """What a worker says of itself."""

    STARTING = "STARTING"
    """It lacks the seed that the log begins with, and does not serve before it has it."""
    SERVING = "SERVING"
    STOPPING = "STOPPING"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAfter:
    """What an effect says of the state after it: every store that applied it has to be that."""

    index: int
    id: bytes
    entry_chain: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrub:
    """What the last recount of a worker's stored quads found, in a copy of its store."""

    index: int
    """Applied in that copy."""
    at: int
    """When it ended; milliseconds since 1970."""
    expected: bytes
    """The signature that was applied at that index."""
    found: bytes
    """The signature of what is stored."""
    quads: int
    """That were counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a worker says of itself, after every applied batch and each second otherwise."""

    worker: str
    dc: str
    url: str
    state: WorkerState
    evaluating: bool
    attempt: int
    applied: Point
    signature: bytes
    quads: int
    sent: int
    store: str = ""
    """Name of its store: another one once the worker was rebuilt.  Empty: it is too old to say."""
    scrub: Scrub | None = None
    scrub_failure: str = ""
    """Why the last try to recount came to nothing."""
    mend: str = ""
    """Why it was not rebuilt when it was asked to be."""
