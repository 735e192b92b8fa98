"""Synchronous transactions: how a pair says that it is one, and the entries that decide them.

A synchronous transaction is ordered like any other, and is then undecided until an entry of a later index decides it:
COMMIT or ROLLBACK, of which the first one in the log counts.  Each decides all undecided ones up to its target.

A pair says by its digest what it is, so that the undecided ones are known wherever pairs are: in queues, in posts, and
in a log without bodies.  A digest begins with one of four marks of 8 bytes, or else is a hash of the whole payload.  A
decision is determined by its target: two masters that propose the same one propose one transaction, and nobody needs
to pass on a payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from quadlog.core.model import LogPosition, Transaction, TransactionKind, hash_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.model import Pair

COMMIT_MODE: Final = "commit"
"""Option of a transaction that says how it is committed; a value of `CommitMode`, and missing for the default."""

SYNCHRONOUS: Final = b"\x00qlsync\x00"
"""Mark of the digests of synchronous transactions; the rest is the beginning of the payload's hash."""

RESUMED: Final = b"\x00qlrsum\x00"
"""Mark of the digests of synchronous transactions that continue a suspended one.

The index of that one follows, and the beginning of the payload's hash.
"""

_MARKS: Final = {
    b"\x00qlcmit\x00": TransactionKind.COMMIT,
    b"\x00qlroll\x00": TransactionKind.ROLLBACK,
}
"""Marks of the digests of decisions; the index of the target and the beginning of its chain hash follow."""

DECISIONS: Final = frozenset(_MARKS.values())
"""Kinds of entries that decide synchronous transactions."""

_MARK, _INDEX, _CHAIN = 8, 8, 16
"""Bytes of a mark, of an index, and of the part of a chain hash."""

TARGET: Final = "target"
"""Option of a decision: index of its target and the beginning of its chain hash, as `12:0011…`."""


RESUMES: Final = "resumes"
RESUMES_INDEX: Final = "resumes-index"
"""Options of a synchronous transaction that continues a suspended one: id and index of that."""

FATE: Final = "fate"
"""Option with which a worker marks an entry that it does not evaluate: the value is the outcome."""

ROLLED_BACK: Final = "rolled back: synchro-quorum data centres did not have it within synchro-timeout"
"""Reason in the effect of a synchronous transaction that is rolled back."""

SUSPENDED: Final = "suspended: this side of a split holds no majority, and may not decide it"
"""Reason in the effect of a synchronous transaction that is set aside."""


class CommitMode(StrEnum):
    """When a transaction is answered, and when its effect may be shown."""

    LAZY = "lazy"
    """Answered once its payload is durable in the data centre of the master that accepted it."""
    DEFAULT = "default"
    """Answered once it is agreed, and applied by a worker of that data centre."""
    SYNC = "sync"
    """Answered, and shown, once `synchro-quorum` data centres have it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an entry decides: all undecided synchronous transactions up to its target."""

    kind: TransactionKind
    """COMMIT or ROLLBACK."""
    index: int
    """Index of the target."""
    chain: bytes
    """The first 16 bytes of the target's chain hash."""

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Id and digest of the transaction."""
        mark = next(mark for mark, kind in _MARKS.items() if kind is self.kind)
        digest = mark + self.index.to_bytes(_INDEX, "big") + self.chain
        return hash_of(b"decision", digest)[:16], digest

    @property
    def transaction(self) -> Transaction:
        """The transaction; equal at all masters.

        >>> one = decision_on(TransactionKind.COMMIT, LogPosition(7, bytes(32)))
        >>> one.transaction.options, decision_in(one.transaction.digest) == one
        ({'target': '7:00000000000000000000000000000000'}, True)
        """
        transaction_id, digest = self.key
        options = {TARGET: f"{self.index}:{self.chain.hex()}"}
        return Transaction(id=transaction_id, digest=digest, kind=self.kind, options=options)

    def concerns(self, point: LogPosition) -> bool:
        """Return whether it decides a synchronous transaction at this point, as far as none before it does."""
        return point.index < self.index or (point.index == self.index and point.chain[:_CHAIN] == self.chain)


def decision_on(kind: TransactionKind, target: LogPosition) -> Decision:
    """Return the decision of a kind for everything undecided up to a target."""
    return Decision(kind, target.index, target.chain[:_CHAIN])


@lru_cache(maxsize=4096)
def _decision_in(digest: bytes) -> Decision | None:
    kind = _MARKS.get(digest[:_MARK])
    if kind is None:
        return None
    index = int.from_bytes(digest[_MARK : _MARK + _INDEX], "big")
    return Decision(kind, index, digest[_MARK + _INDEX :])


def decision_in(digest: bytes) -> Decision | None:
    """Return the decision that a digest states; None if it is that of another transaction."""
    return _decision_in(digest) if digest[0] == 0 and digest[:3] == b"\x00ql" else None


def resumed_id(chain: bytes) -> bytes:
    """Return the id of the transaction that continues the suspended entry with this chain hash."""
    return hash_of(b"resumed", chain)[:16]


def is_synchronous(pair: Pair) -> bool:
    """Return whether the transaction of a pair asks to be synchronous."""
    return pair.digest.startswith((SYNCHRONOUS, RESUMED))


def resumed_index(pair: Pair) -> int:
    """Return the index of the suspended entry that a pair's transaction continues; 0: it continues none."""
    return (
        int.from_bytes(pair.digest[_MARK : _MARK + _INDEX], "big") if pair.digest.startswith(RESUMED) else 0
    )


def concerns_limbo(pair: Pair) -> bool:
    """Return whether a pair is that of a synchronous transaction, or of a decision."""
    return is_synchronous(pair) or decision_in(pair.digest) is not None


def marked(digest: bytes, options: Mapping[str, str]) -> bytes:
    """Return the digest of a payload with these options: marked, if they ask for a synchronous transaction."""
    if RESUMES_INDEX in options:
        index = int(options[RESUMES_INDEX]).to_bytes(_INDEX, "big")
        return RESUMED + index + digest[: len(digest) - _MARK - _INDEX]
    if options.get(COMMIT_MODE) != CommitMode.SYNC:
        return digest
    return SYNCHRONOUS + digest[: len(digest) - _MARK]
