"""Value types of the protocol: transactions, posts, views, entries.

All of them are immutable.  Timestamps are readings of a hybrid logical clock,
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
    """Return the blake2b-256 of the parts, each preceded by its length, so that no two lists of parts collide.

    >>> hash_of(b"ab", b"c") == hash_of(b"a", b"bc")
    False
    """
    digest = blake2b(digest_size=HASH_SIZE)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


class TransactionKind(StrEnum):
    """Kind of an entry; only TX carries quads."""

    TX = "TX"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    CONFIG = "CONFIG"
    EVALUATOR = "EVALUATOR"
    SUSPEND = "SUSPEND"


class Pair(NamedTuple):
    """Position of a transaction in an incoming queue.  Pairs sort in the order of the queue.

    The digest is part of it: two masters may receive one id with two bodies at the same time,
    and all masters must mean the same body by that id.
    """

    timestamp: int
    id: bytes
    digest: bytes

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Id and digest, which identify the payload."""
        return self.id, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The part of a transaction that ordering needs; the body stays in Kafka and RocksDB."""

    id: bytes
    digest: bytes
    kind: TransactionKind = TransactionKind.TX
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Id and digest, which identify the payload."""
        return self.id, self.digest


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Permanent position in a history: index and chain hash of an entry."""

    index: int
    chain: bytes


START: Final = LogPosition(0, GENESIS)


class Rank(NamedTuple):
    """Strength of a side's claim: the side of the lower rank joins the side of the higher rank."""

    epoch: int
    """Epoch of the last view on its lineage that held a majority."""
    decided: bool
    """True if its view names one set of peers.

    Of two sides that follow one majority, the side that has decided a change of the peers knows more than the
    other.
    """
    members: int
    ids: tuple[str, ...]


class RejoinedMember(NamedTuple):
    """A member that lost its disk and returned under a later incarnation."""

    node: str
    incarnation: bytes
    blank: bool
    """True if it does not count for a majority: it has forgotten what it had agreed to."""


class Peer(NamedTuple):
    """A configured master and its data centre."""

    node: str
    dc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:  # noqa: PLW1641 - the dataclass generates the hash
    """A set of members that agree on one order."""

    epoch: int
    members: tuple[str, ...]
    parent: bytes = GENESIS
    home: str = ""
    """Data centre where evaluation begins.  It follows from parent and members, so it is not part of the id."""
    returned: tuple[RejoinedMember, ...] = ()
    """The members that ever lost their disks, in the order of `members`."""
    peers: tuple[Peer, ...] = ()
    """Masters that may be members, in order, after a change by an agreed entry; empty: the peers of the settings."""
    before: tuple[Peer, ...] = ()
    """The peers before the last change while it is undecided: a majority must then be a majority of both sets."""

    def __eq__(self, other: object) -> bool:
        """Compare identity and epoch first, which decides nearly all comparisons, and then all fields."""
        if self is other:
            return True
        if not isinstance(other, View):
            return NotImplemented
        return self.epoch == other.epoch and _fields_of(self) == _fields_of(other)

    @property
    def id(self) -> bytes:
        """Hash of the epoch, members, parent, returned members and peers."""
        return _view_id(self)

    @property
    def names(self) -> str:
        """Its members, for sentences."""
        return ", ".join(self.members) or "nobody"

    @property
    def blank(self) -> frozenset[str]:
        """The members that do not count for a majority."""
        return frozenset(member.node for member in self.returned if member.blank)

    def incarnation(self, node: str) -> bytes:
        """Return the incarnation in this view of a member that lost its disk; empty for all other members.

        >>> view = View(epoch=2, members=("m1", "m2"), returned=(RejoinedMember("m2", bytes([7]) * 16, blank=True),))
        >>> view.incarnation("m1"), view.incarnation("m2") == bytes([7]) * 16, sorted(view.blank)
        (b'', True, ['m2'])
        """
        return next((member.incarnation for member in self.returned if member.node == node), b"")


_fields_of: Final = attrgetter(*(each.name for each in fields(View)))


@lru_cache(maxsize=64)
def _view_id(view: View) -> bytes:
    """Return the id of a view, cached because every entry of the view is written with it."""
    returned = (part for m in view.returned for part in (m.node.encode(), m.incarnation, bytes([m.blank])))
    named = [peer for which in (view.peers, view.before) for peer in (Peer("", ""), *which)]
    peers = (part.encode() for peer in named for part in peer) if view.peers or view.before else ()
    epoch, members = view.epoch.to_bytes(8, "big"), (m.encode() for m in view.members)
    return hash_of(epoch, *members, view.parent, *returned, *peers)


def first_view(masters: Mapping[str, str], witnesses: frozenset[str] = frozenset()) -> View:
    """Return the view in which a new cluster starts: all configured masters, each with its data centre.

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
    """Return the view of a master that lost its disk, until it is admitted: no members, so it agrees on nothing."""
    return View(epoch=0, members=(), parent=hash_of(incarnation))


@dataclass(frozen=True, slots=True, kw_only=True)
class HardState:
    """Membership state of a master, which it must never forget."""

    view: View
    """The installed view."""
    ballot: View | None = None
    """The view that it voted for, and installs once all have: one vote per epoch, permanently."""
    dropped: int = 0
    """Epoch of the last vote that it dropped for an earlier one, because that ballot cannot be elected any more."""
    promise: int = 1
    """Epoch of the last view on its lineage that held a majority."""
    joining: View | None = None
    """View of a stronger side to which it requests admission."""
    given_up: tuple[str, ...] = ()
    """Members that must not be in its next view."""
    newest: tuple[tuple[str, bytes], ...] = ()
    """Newest known incarnation of each master that is known to have lost its disk, including this master."""
    changes: tuple[tuple[Peer, ...], ...] = ()
    """The peers after each entry of this log that changes them and that its view does not name yet, in order."""
    forced: tuple[Peer, ...] = ()
    """The masters that are left, as one of these entries declares for this view; empty: none declares it."""
    outside: bool = False
    """True if the strongest side that it has heard since its view began does not name it."""
    settings: tuple[AgreedSetting, ...] = ()
    """The settings that entries of this log have set, by name."""
    fork: int | None = None
    """Index up to which another side has this log, too; None while the view holds a majority."""
    approved: int = 0
    """Index of an entry that approves the end of the split, as long as it is the last one; 0: none does."""

    @property
    def pending(self) -> View | None:
        """The view that it voted for, while that view is not installed."""
        return self.ballot if self.ballot is not None and self.ballot.epoch > self.view.epoch else None

    @property
    def voted(self) -> int:
        """The last epoch in which it voted; without a ballot, the epoch of its view."""
        return max(self.dropped, self.view.epoch if self.ballot is None else self.ballot.epoch)

    @property
    def rank(self) -> Rank:
        """Strength of its side.  A side that once held a majority beats one that never did."""
        view = self.view
        return Rank(self.promise, not view.before, len(view.members), view.members)


@dataclass(frozen=True, slots=True)
class AgreedSetting:
    """A value that a CONFIG entry has set; see `core.cluster_settings`."""

    name: str
    value: str
    """As `ClusterSettings.text` writes it."""
    index: int
    """Index of the entry; 0: no entry has set it, the value is that of a file."""
    at: int
    """When the change was requested, in milliseconds since 1970."""
    by: str
    """Name or address of the person or program that requested it."""


class RejoinReport(NamedTuple):
    """What a master gave up when it took over a stronger side's log."""

    at: int
    """Milliseconds since 1970."""
    kept: int
    """Index of the last entry of its own log that stayed."""
    gave_way: int
    """Number of its own entries after that."""
    ended: int
    """Number of these that have ended, changes of controls, settings and peers.  Updates wait again, or were in the
    other log, too."""


class Ask(NamedTuple):
    """A request for a snapshot: posts of `node` up to `sequence` were received, with a gap before it."""

    node: str
    sequence: int


@dataclass(frozen=True, slots=True)
class EffectsPosition:
    """End of a data centre's effects topic."""

    term: bytes
    """Id of the last view whose handover the topic contains."""
    index: int
    """Index of the last effect."""


NOWHERE: Final = EffectsPosition(GENESIS, 0)
OF_A_BRANCH: Final = EffectsPosition(b"\xff" * 32, 0)
"""Effects that are not those of the log: this data centre gave way and has not copied the other side's effects yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Message of a master in each round: a snapshot, or what is new since its previous post."""

    node: str
    incarnation: bytes
    sequence: int
    base_sequence: int | None = None
    """None: a snapshot, which voids all earlier posts.  Otherwise the sequence of the post that this is a delta on."""
    view: View
    base: LogPosition
    counter: int
    """All pairs of the sender's queue up to this timestamp are posted, and none will ever be added at or below it."""
    queue: tuple[Pair, ...]
    """Newly posted pairs, in order: always the lowest ones that are not posted yet."""
    added: tuple[Pair, ...] = ()
    """Pairs of the entries that lead up to the base.

    They begin after the base of the sender's previous post, in a snapshot after that of the member that lags
    furthest.
    """
    asks: tuple[Ask, ...] = ()
    ballot: View | None = None
    """The view that the sender voted for and has not installed yet."""
    dropped: int = 0
    """Epoch of the last vote that it dropped for an earlier one: it votes only in later epochs; 0: it dropped none."""
    rank: Rank
    joining: View | None = None
    given_up: tuple[str, ...] = ()
    whole: bool = True
    """True if no pair of the queue is left for the next post."""
    beside: LogPosition | None = None
    """Position up to which the sender has the log of the view that it is joining."""
    effects: EffectsPosition = NOWHERE
    """Effects of the sender's data centre; after a vote none are added until the new view is given the duty."""
    unheard: tuple[str, ...] = ()
    """Data centres from whose topics the sender receives nothing: masters that receive from them relay it."""
    changes: tuple[tuple[Peer, ...], ...] = ()
    """The peers after each entry up to the base that changes them and that the view does not name yet, in order."""
    full: bool = False
    """True if the effects topic of the sender's data centre accepts no records: it cannot be a view's home."""
    settings: tuple[AgreedSetting, ...] = ()
    """Settings as of the base that entries have set, and those of its file (index 0) that are no default."""
    rejoined: RejoinReport | None = None
    """What the sender gave up when it gave way last; None: nothing since its start."""

    @property
    def agreed_settings(self) -> tuple[AgreedSetting, ...]:
        """The settings that entries up to the base have set."""
        return tuple(one for one in self.settings if one.index)

    @property
    def highest(self) -> int:
        """Upper bound of all timestamps in the post."""
        return max(self.counter, self.queue[-1].timestamp) if self.queue else self.counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One transaction of the synchronised queue."""

    index: int
    pair: Pair
    kind: TransactionKind
    options: Mapping[str, str]
    previous: bytes
    chain: bytes
    view: View

    @property
    def point(self) -> LogPosition:
        """Index and chain hash of this entry."""
        return LogPosition(self.index, self.chain)


def chain_hash(previous: bytes, transaction: Transaction, timestamp: int) -> bytes:
    """Return the chain hash of the entry that `transaction` becomes; it is independent of the epoch that agreed it."""
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
    """Return the chain hash of an effect.  Entry chains show where logs fork, effect chains where states fork."""
    return hash_of(previous, entry_chain, outcome.encode(), signature_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A transaction as a client submitted it."""

    transaction: Transaction
    origin: str
    origin_dc: str
    created: int
    """Milliseconds since 1970: the value of NOW(), whenever it is evaluated."""
    media_type: str
    body: bytes
    traceparent: str = ""

    @property
    def body_hash(self) -> bytes:
        """16 bytes that distinguish a retry from a different request with the same Idempotency-Key."""
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
    """Return the digest of a whole payload: what is agreed under it is the same bytes in every data centre."""
    return hash_of(
        created.to_bytes(8, "big"),
        origin.encode(),
        media_type.encode(),
        traceparent.encode(),
        body,
        *_parts(options),
    )


REQUESTED_BY: Final = "setting-by"
"""Option that says who asked, which does not make a repeated request another one."""


def body_hash(body: bytes, options: Mapping[str, str] = _NONE) -> bytes:
    """Return 16 bytes that represent a body and its options where two requests are compared."""
    compared = {name: value for name, value in options.items() if name != REQUESTED_BY}
    asked = hash_of(body, *_parts(compared)) if compared else body
    return blake2b(asked, digest_size=16).digest()


def id_of_key(repository: str, key: str) -> bytes:
    """Return the transaction id of an ``Idempotency-Key``, which is the same at every master."""
    return hash_of(b"idempotency-key", repository.encode(), key.encode())[:16]
