"""Approval of a rejoin: an operator's word, agreed on each side, that the weaker sides may give way.

Where `split-approval` is manual, a side with entries of its own does not give way to a stronger one before a CONFIG
entry approves it.  The entry counts if it directly follows the entry that it names: what was approved was foreseen
from there.  Behind it nothing is added for a pause, so that the sides come together as they were foreseen.

It may name updates of the side that gives way as dropped.  Then a transaction with the same id, and without a body,
is agreed instead of the update.  It is determined by its id and digest, as decisions on synchronous transactions are:
no master has to pass on a payload.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.core.model import LogPosition, Payload, Transaction
from quadlog.core.synchronous import decision_in

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN: Final = "split-approved"
AFTER: Final = "split-after"
DROP: Final = "split-drop"
"""Options of a CONFIG transaction: plan hash, position of the entry before it as `12:0011…`, dropped ids."""

PAUSE_MS: Final = 10_000.0
"""Milliseconds for which nothing is added behind an approval, unless the sides come together before; `max-peer-lag` if
that is less."""

LONGEST_DROP: Final = 1_000
"""Maximum number of updates that an approval drops."""

MARK: Final = b"\x00qldrop\x00"
"""Mark of the digests of dropped updates; the beginning of the update's digest follows."""

REASON: Final = "dropped: an operator approved the end of a split without this update"
"""Reason in the effect of a dropped update."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What an operator has approved."""

    plan: bytes
    """Hash of the plan, as the preview has it."""
    after: LogPosition
    """The last entry of the side, as the preview has it."""
    drop: frozenset[bytes] = frozenset()
    """Ids of the updates that are dropped."""

    @property
    def options(self) -> dict[str, str]:
        """Options of the transaction.

        >>> approval = Approval(bytes(32), LogPosition(7, bytes(32)), frozenset({b"id"}))
        >>> approval_in(approval.options) == approval
        True
        """
        drop = {DROP: " ".join(sorted(one.hex() for one in self.drop))} if self.drop else {}
        after = f"{self.after.index}:{self.after.chain.hex()}"
        return {PLAN: self.plan.hex(), AFTER: after, **drop}


def approval_in(options: Mapping[str, str]) -> Approval | None:
    """Return the approval that a CONFIG transaction with these options is; None if it is another one."""
    if PLAN not in options:
        return None
    after = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", options.get(AFTER, ""))
    try:
        plan = bytes.fromhex(options[PLAN])
        drop = frozenset(map(bytes.fromhex, options.get(DROP, "").split()))
    except ValueError:
        return None
    if after is None:
        return None
    return Approval(plan, LogPosition(int(after[1]), bytes.fromhex(after[2])), drop)


def dropped(transaction: Transaction) -> Transaction:
    """Return what is agreed instead of an update that is dropped.

    >>> one = dropped(Transaction(id=b"id", digest=bytes(range(32))))
    >>> implied_by(one.key) == one, is_dropped(one.digest), len(one.digest)
    (True, True, 32)
    """
    if is_dropped(transaction.digest):
        return transaction
    digest = MARK + transaction.digest[: len(transaction.digest) - len(MARK)]
    return Transaction(id=transaction.id, digest=digest)


def is_dropped(digest: bytes) -> bool:
    """Return whether a digest is that of a dropped update."""
    return digest.startswith(MARK)


def implied_by(key: tuple[bytes, bytes]) -> Transaction | None:
    """Return the transaction that an id and a digest determine, so that nobody needs its payload.

    That is a decision, or a dropped update; None: another one.
    """
    transaction_id, digest = key
    if digest[:3] != b"\x00ql":
        return None
    if is_dropped(digest):
        return Transaction(id=transaction_id, digest=digest)
    decision = decision_in(digest)
    return None if decision is None else decision.transaction


def implied_payload(key: tuple[bytes, bytes]) -> Payload | None:
    """Return the payload of such a transaction, which is empty; None: another one."""
    transaction = implied_by(key)
    if transaction is None:
        return None
    return Payload(transaction=transaction, origin="", origin_dc="", created=0, media_type="", body=b"")
