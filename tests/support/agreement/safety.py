"""What must hold after every step, whatever the weather: see `weather`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.approval import implied_by
from quadlog.core.model import TransactionKind
from tests.support.agreement.approval_safety import ApprovalSafety
from tests.support.agreement.limbo_safety import LimboSafety
from tests.support.agreement.read_safety import ReadSafety

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quadlog.core.messages import AgreementLimits, Save
    from quadlog.core.model import Entry, LogPosition, Pair, Post, Transaction, View
    from tests.support.agreement.cluster import Logged, Member
    from tests.support.agreement.witnesses import Homes

TX = TransactionKind.TX


class Safety:
    """One order in a view; what a majority agreed stays where it is; nothing said that is not kept."""

    def __init__(
        self,
        limits: AgreementLimits,
        is_majority: Callable[[View], bool],
        homes: Homes,
        *,
        is_only: Callable[[View], bool | None] = lambda _: None,
    ) -> None:
        """Nothing has happened.

        Args:
            limits: how much at once.
            is_majority: whether a view holds one.
            homes: which data centres may be homes.
            is_only: whether a view may make history, where there is only one; None where there may be several.

        """
        self.limbo = LimboSafety(is_majority)
        self.reads = ReadSafety()
        self.approvals = ApprovalSafety()
        self._is_only = is_only
        self._history: dict[int, LogPosition] = {}
        """By index, what was agreed, where a side without a majority waits."""
        self._homes = homes
        self._limits = limits
        self._is_majority = is_majority
        self._order: dict[tuple[bytes, int], LogPosition] = {}
        self.settled: dict[int, tuple[LogPosition, bytes]] = {}
        """By index, what was agreed in a view that holds a majority."""
        self._asked: dict[bytes, tuple[str, int, int]] = {}
        """By id of a client's transaction: where it was given first, up to where majorities had agreed then, and the
        index of the last synchronous transaction that anybody had committed."""
        self._said: dict[tuple[bytes, str, int], frozenset[Pair]] = {}
        """By sender and sequence: all that the sender's posts said up to this one, from the last snapshot on."""
        self._promised: dict[tuple[bytes, str], Post] = {}
        self._posted: set[Pair] = set()
        self._added: dict[str, int] = {}
        """By master how many entries were looked at that it added and did not save yet."""
        self._views: dict[str, View] = {}
        """By master the view that it saved last."""
        self._votes: dict[tuple[bytes, str, int], bytes] = {}

    def saved(self, member: Member, save: Save, lost: Sequence[Logged]) -> None:
        """A master saved a turn."""
        log, queue = member.disk.log, member.core.queue
        self._check_added(member, save.entries)
        self._added[member.name] = 0
        ended = {} if save.adopted is None else save.adopted.ended
        for index, one in enumerate(lost, 1 if save.adopted is None else save.adopted.kept + 1):
            is_kept, is_tx = (
                one.pair.id in queue or one.pair.id in member.disk.ids,
                one.transaction.kind is TX,
            )
            assert is_kept or not is_tx, f"{member.name} gave up {one}"
            is_config = one.transaction.kind is TransactionKind.CONFIG
            assert is_kept or not is_config or ended[one.pair.id] == index, (
                f"{one} ended, which {member.name} hides"
            )
            assert is_config or one.pair.id not in ended, f"{one} ended, says {member.name}"
        assert len(log) == len(member.disk.ids), f"{member.name} has something twice"
        for entry in save.entries:
            point = self._order.setdefault((entry.view.id, entry.index), entry.point)
            assert point == entry.point, f"two orders in {entry.view} at {entry.index}"
            has_payload = entry.pair.key in member.kafka or implied_by(entry.pair.key) is not None
            assert has_payload, f"{entry.index} agreed without its payload"
            before = log[entry.index - 2] if entry.index > 1 else None
            assert before is None or before.pair < entry.pair, (
                f"{entry.index} was agreed behind a later timestamp: {before} then {entry.pair}"
            )
            if self._is_majority(entry.view):
                known = self.settled.setdefault(entry.index, (entry.point, entry.pair.id))
                assert known == (entry.point, entry.pair.id), f"{entry.index} was agreed twice by majorities"
        self.approvals.saved(member, save, lost, self._posted)
        self.limbo.saved(member, save.entries, is_cut=save.adopted is not None)
        self.reads.saved(save.entries)
        for entry in save.entries:
            self._check_only(entry)
            self._check_strict(member, entry)
        if save.standing is not None:
            self._homes.installed(save.standing.view)
            self._check_brought(member, save.standing.view)
        ballot = save.standing.ballot if save.standing is not None else None
        if ballot is not None:
            vote = self._votes.setdefault((member.incarnation, member.name, ballot.epoch), ballot.id)
            assert vote == ballot.id, f"{member.name} voted twice in epoch {ballot.epoch}"

    def _check_only(self, entry: Entry) -> None:
        """Where a side without a majority waits, there is one history: nothing is agreed twice, and nothing is undone.

        Who waits may still learn from another one what both had promised before.
        """
        is_only = self._is_only(entry.view)
        if is_only is None:
            return
        known = self._history.get(entry.index)
        assert known is not None or is_only, f"{entry.index} was agreed without a majority, in {entry.view}"
        assert self._history.setdefault(entry.index, entry.point) == entry.point, (
            f"{entry.index} was agreed twice"
        )

    def asked(self, member: Member, transaction: Transaction) -> None:
        """A client is about to give a transaction, which may be the barrier of a strict read."""
        known = member.name, max(self.settled, default=0), self.limbo.committed
        self._asked.setdefault(transaction.id, known)

    def _check_strict(self, member: Member, entry: Entry) -> None:
        """Where a master says that a majority agreed on a barrier, all stands before it that was agreed before."""
        name, index, committed = self._asked.get(entry.pair.id, ("", 0, 0))
        if name != member.name or not member.core.confirms(entry):
            return
        log = member.disk.log
        assert index < entry.index, f"{member.name} reads at {entry.index}, and {index} was agreed before"
        if index:
            assert log[index - 1].point == self.settled[index][0], f"{member.name} reads a branch at {index}"
        self.reads.agreed(member, entry.index, committed)

    def _check_brought(self, member: Member, view: View) -> None:
        """What a master brings into a view has its place in the order of that view, as what is added there has."""
        if self._views.get(member.name) == view:
            return
        self._views[member.name] = view
        for index, logged in enumerate(member.disk.log, start=1):
            point = self._order.setdefault((view.id, index), logged.point)
            assert point == logged.point, f"two orders in {view} at {index}, where {member.name} comes in"

    def added(self, member: Member, heard: Post | None = None) -> None:
        """Something came to a master, perhaps a post: it may have added something that is not saved yet."""
        self._check_added(member, member.core._local_state.changes.entries, heard)

    def _check_added(self, member: Member, entries: Sequence[Entry], heard: Post | None = None) -> None:
        """What was not looked at yet; it came by ADD, unless somebody told in this view that it has it.

        Who follows may so get what was added in a view before this one, and brought along by who told of it.  All
        members of that view had promised that.  Whoever was let in since had not, and may have said nothing in this
        view yet (seed 700284).
        """
        before = min(self._added.get(member.name, 0), len(entries))
        self._added[member.name] = len(entries)
        if before == len(entries):
            return
        view, told = member.core.view, _told_to(member)
        if heard is not None and heard.view == view:
            behind = heard.base.index - entries[before].index
            if behind < len(heard.added):  # else it was not followed: its sender is asked for a snapshot
                told = max(told, heard.base.index)
        for entry in entries[before:]:
            if entry.view == view and entry.index > told:
                self._check_promised(member, entry)

    @staticmethod
    def _check_promised(member: Member, entry: Entry) -> None:
        """All others have promised in this view that nothing comes below it, as far as is heard now."""
        core = member.core
        for name in core.view.members:
            if name == member.name:
                continue
            other = core.members.get(name)
            assert other is not None, f"{member.name} added {entry.pair}, and has not heard {name}"
            assert other.is_in(core.view), f"{member.name} added {entry.pair}, and {name} is in another view"
            assert entry.pair.timestamp <= other.counter, (
                f"{member.name} added {entry.pair}, and {name} has promised {other.counter}"
            )

    def posted(self, member: Member, post: Post) -> None:
        """A master has posted."""
        before: frozenset[Pair] = frozenset()
        if post.base_sequence is not None:
            before = self._said[member.incarnation, member.name, post.base_sequence]
        said = before.union(post.queue) if post.queue else before
        self._said[member.incarnation, member.name, post.sequence] = said
        self._promised[member.incarnation, member.name] = post
        self._posted.update(post.queue)
        missing = [p for p in member.core.queue.acquired() if p not in said]
        assert all(pair.timestamp > post.counter for pair in missing), (
            f"{member.name} posted counter {post.counter} and left out {min(missing)}"
        )
        assert not (post.whole and missing), f"{member.name} says that its post is whole"
        assert max(len(post.queue), len(post.added)) <= self._limits.post, (
            f"{member.name} posts too much at once"
        )

    def submitted(self, member: Member, pairs: Sequence[Pair]) -> None:
        """A client's transaction was stamped.  With it a view may be installed, whose members' pairs come along."""
        promised = self._promised.get((member.incarnation, member.name))
        stamped = [pair for pair in pairs if pair not in self._posted]
        assert promised is None or all(pair.timestamp > promised.counter for pair in stamped), (
            f"{member.name} posted counter {promised and promised.counter} and then stamped {stamped}"
        )

    def kept(self, member: Member) -> None:
        """What it posted it still knows: in its queue, or synchronised."""
        post = self._promised.get((member.incarnation, member.name))
        if post is None:
            return
        core = member.core
        if core.view == post.view:
            queue, log = core.queue, core._local_state.log
            for pair in self._said[member.incarnation, member.name, post.sequence]:
                assert pair.id in queue or pair.id in log, f"{member.name} posted {pair} and forgot it"
        assert core.counter >= post.counter, f"{member.name} posted a counter and went back"

    def understood(self, reader: Member, sender: Member) -> None:
        """What a reader holds of a member is what that one had posted with its last word, once each."""
        core = reader.core
        known = core.members.get(sender.name)
        if known is None or known.said is None or known.said.view != core.view:
            return
        posted = self._said[known.incarnation, sender.name, known.said.sequence]
        said = sorted(p for p in posted if p.id in core.queue)
        held = sorted(p for p in known.posted if p.id in core.queue)
        assert held == said, f"{reader.name} holds {held} of {sender.name}, which said {said}"
        assert known.base.index <= core.last.index or sender.name in core._progress.asks, (
            f"{reader.name} counts what {sender.name} said at a base that it has not reached"
        )


def _told_to(member: Member) -> int:
    """Up to where the others have what is agreed, by their last words in this view: nothing of that comes by ADD."""
    core = member.core
    words = (other.said for name, other in core.members.items() if name != member.name)
    return max((said.base.index for said in words if said is not None and said.view == core.view), default=0)
