"""What must hold where an operator approves that a side gives way: see `weather`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.approval import approval_in, dropped, is_dropped
from quadlog.core.cluster_settings import SplitApproval
from quadlog.core.model import TransactionKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from quadlog.core.messages import Save
    from quadlog.core.model import HardState, Pair
    from tests.support.agreement.cluster import Logged, Member


class ApprovalSafety:
    """No side gives way with entries of its own unless that was approved; what was dropped does not come back."""

    def __init__(self) -> None:
        """Nothing has happened."""
        self._stood: dict[tuple[str, bytes], HardState] = {}
        """By master and incarnation where it stood.

        Who was removed, or may agree on nothing, needs no approval, and is not here.
        """
        self.gave_way = self.dropped = 0
        """How often a side with entries of its own did, and how many of them were dropped."""

    def saved(self, member: Member, save: Save, lost: Sequence[Logged], posted: Collection[Pair]) -> None:
        """A master saved a turn; `posted`: all pairs that were ever posted."""
        key = (member.name, member.incarnation)
        before = self._stood.pop(key, None)
        if member.disk.standing is not None and member.core.is_peer and member.core.may_agree:
            self._stood[key] = member.disk.standing
        is_auto = member.settings.split_approval is not SplitApproval.MANUAL
        if save.adopted is None or is_auto or member.dc in member.witnesses:
            return
        last = lost[-1] if lost else None
        approval = approval_in(last.transaction.options) if last is not None else None
        if before is not None and before.fork is not None and last is not None:
            own = [one for one in lost if one.point.index > before.fork]
            end = lost[-2].point if len(lost) > 1 else save.adopted.joined_log.fork
            is_valid = approval is not None and approval.after == end
            assert not own or is_valid, f"{member.name} gave way with {len(own)} entries, unapproved"
            assert not own or before.approved == last.point.index, (
                f"{member.name} did not know of its approval"
            )
            self.gave_way += bool(own)
        drop = approval.drop if approval is not None else frozenset[bytes]()
        for one in lost:
            is_update = one.transaction.kind is TransactionKind.TX and not is_dropped(one.pair.digest)
            waiting = [pair for pair in member.core.queue.pairs(one.pair.id) if pair not in posted]
            wanted = dropped(one.transaction) if is_update and one.pair.id in drop else one.transaction
            assert all(pair.digest == wanted.digest for pair in waiting), f"{one} waits as {waiting}"
            self.dropped += bool(waiting) and wanted is not one.transaction
