"""The words of the protocol as values: transactions, posts, views, entries.

All of them are immutable.  Timestamps are hybrid logical clock readings,
milliseconds << 16 | counter, in one 64-bit integer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    decided: bool
    """Its view names one set of peers: who has decided a change behind that majority knows more than who has not."""
    members: int
    ids: tuple[str, ...]


class Returned(NamedTuple):
    """A member that lost its disk, and came back under a later incarnation."""

    node: str
    incarnation: bytes
    blank: bool
    """It does not count for a majority: it has forgotten what it had agreed to."""


class Peer(NamedTuple):
    """A master that is configured, and its data centre."""

    node: str
    dc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:  # noqa: PLW1641 - the dataclass makes its hash
    """A membership that agrees on one order."""

    epoch: int
    members: tuple[str, ...]
    parent: bytes = GENESIS
    home: str = ""
    """The data centre where its evaluation begins.  It follows from parent and members, so it is no part of the id."""
    returned: tuple[Returned, ...] = ()
    """Of its members those that ever lost their disks, in their order."""
    peers: tuple[Peer, ...] = ()
    """Who may be a member, in order, once an agreed entry has changed that; nobody: those of the settings."""
    before: tuple[Peer, ...] = ()
    """Who might before, as long as the last change is undecided: a majority has to be one of both."""

    def __eq__(self, other: object) -> bool:
        """As all values do; but of nearly all views that are compared the epochs differ, or it is the same object."""
        if self is other:
            return True
        if not isinstance(other, View):
            return NotImplemented
        return self.epoch == other.epoch and _fields_of(self) == _fields_of(other)

    @property
    def id(self) -> bytes:
        """Name of the view: of its epoch, members and parent, of who of them returned, and of who may be a member."""
        return _view_id(self)

    @property
    def blank(self) -> frozenset[str]:
        """Members that do not count for a majority."""
        return frozenset(member.node for member in self.returned if member.blank)

    def incarnation(self, node: str) -> bytes:
        """Of a member that lost its disk, the incarnation that is in this view; of all others nothing.

        >>> view = View(epoch=2, members=("m1", "m2"), returned=(Returned("m2", bytes([7]) * 16, blank=True),))
        >>> view.incarnation("m1"), view.incarnation("m2") == bytes([7]) * 16, sorted(view.blank)
        (b'', True, ['m2'])
        """
        return next((member.incarnation for member in self.returned if member.node == node), b"")


_fields_of: Final = attrgetter(*(each.name for each in fields(View)))


@lru_cache(maxsize=64)
def _view_id(view: View) -> bytes:
    """Every entry of a view is written with it."""
    returned = (part for m in view.returned for part in (m.node.encode(), m.incarnation, bytes([m.blank])))
    named = [peer for which in (view.peers, view.before) for peer in (Peer("", ""), *which)]
    peers = (part.encode() for peer in named for part in peer) if view.peers or view.before else ()
    epoch, members = view.epoch.to_bytes(8, "big"), (m.encode() for m in view.members)
    return hash_of(epoch, *members, view.parent, *returned, *peers)


def first_view(masters: Mapping[str, str], witnesses: frozenset[str] = frozenset()) -> View:
    """The view that a new cluster starts in: all configured masters, each with its data centre.

    >>> view = first_view({"m2": "dc2", "m1": "dc1"})
    >>> view.members, view.home
    (('m1', 'm2'), 'dc1')
    >>> first_view({"m2": "dc2", "m1": "dc1"}, frozenset({"dc1"})).home
    'dc2'
    """
    names = sorted(masters)
    homes = [masters[name] for name in names if masters[name] not in witnesses]
    return View(epoch=1, members=tuple(names), home=(homes or [masters[names[0]]])[0])


def no_view(incarnation: bytes) -> View:
    """Where a master stands that lost its disk, until it is let in: alone, and agreeing on nothing."""
    return View(epoch=0, members=(), parent=hash_of(incarnation))


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
    newest: tuple[tuple[str, bytes], ...] = ()
    """Of each master that is known to have lost its disk, itself included, the newest incarnation heard of."""
    changes: tuple[tuple[Peer, ...], ...] = ()
    """Who may be a member by each of the entries of this log, in order, that its view does not name yet."""
    forced: tuple[Peer, ...] = ()
    """All that is left, as an operator says in this view, by one of these entries; nobody: none says so."""
    outside: bool = False
    """The strongest side that it has heard since its view began does not name it."""

    @property
    def pending(self) -> View | None:
        """What it voted for, as long as it is not installed."""
        return self.ballot if self.ballot is not None and self.ballot.epoch > self.view.epoch else None

    @property
    def voted(self) -> int:
        """The last epoch that it voted in."""
        return self.view.epoch if self.ballot is None else self.ballot.epoch

    @property
    def rank(self) -> Rank:
        """How strong its side is.  A side that once held a majority beats one that did not."""
        view = self.view
        return Rank(self.promise, not view.before, len(view.members), view.members)


class Ask(NamedTuple):
    """A request for a snapshot: posts of `node` up to `sequence` were heard, with a gap before."""

    node: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Held:
    """How far a data centre's effects topic goes."""

    term: bytes
    """Id of the last view whose handover it has."""
    index: int
    """Of the last effect."""


NOWHERE: Final = Held(GENESIS, 0)
OF_A_BRANCH: Final = Held(b"\xff" * 32, 0)
"""Of effects that are not those of the log: this data centre gave way, and has not copied the other side's yet."""


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
    effects: Held = NOWHERE
    """Of the sender's data centre; from a vote on nothing is added before the new view is handed the duty."""
    unheard: tuple[str, ...] = ()
    """Data centres out of whose topics nothing comes to the sender: whoever hears them passes it on."""
    changes: tuple[tuple[Peer, ...], ...] = ()
    """Who may be a member by each of the entries up to the base, in order, that the view does not name yet."""
    full: bool = False
    """Whether the effects topic of the sender's data centre takes no records: it cannot be a view's home."""

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
