"""COLLECT, ADD and MERGE: received posts, new entries, and waiting pairs.

    COLLECT   the newest post of every member of the view
    ADD       the longest common prefix of the posted queues, up to the least counter
    MERGE     all pairs that were not known yet

Pairs with an acquired payload may be posted: they are offered to `unposted`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.agreement.pacing import LOGICAL_BITS
from quadlog.core.agreement.progress_tracker import common_head
from quadlog.core.messages import ForgottenPayloadError, TwoOrdersError
from quadlog.core.model import START, Pair, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quadlog.core.agreement.shared import Shared
    from quadlog.core.model import Post, Transaction
    from quadlog.core.queues.progress import Progress
    from quadlog.core.synchronous import Decision


class Rounds:
    """Growth of one master's queue and log by received posts."""

    def __init__(self, shared: Shared, *, offer: Callable[[Pair], None]) -> None:
        """Start without any post; `offer` is called with each pair that may be posted."""
        self._node: Final = shared.node
        self._views: Final = shared.views
        self._progress: Final = shared.progress
        self._local_state: Final = shared.local_state
        self._clock: Final = shared.clock
        self._pacing: Final = shared.pacing
        self._limits: Final = shared.limits
        self._offer: Final = offer

    # --- COLLECT ----------------------------------------------------------------------------------

    def collect(self, member: Progress, post: Post) -> None:
        """Make a post its sender's last word, or request a snapshot if that is not possible."""
        is_here = post.view == self._views.view
        member.on_post(post, post.base if is_here else post.beside)
        pairs: Sequence[Pair] = post.queue
        if is_here:
            self._follow(post)
            pairs = self._merge(post.queue)
        if member.follows(post) and not (is_here and post.base.index > self._local_state.log.last.index):
            member.understand(post, pairs)
            self._progress.understood(post.node)
        else:
            self._ask(post)

    def _ask(self, post: Post) -> None:
        if self._progress.ask(post):
            self._pacing.note_news()

    def begin_view(self) -> None:
        """Process again the posts that members of the new view sent in it."""
        view = self._views.view
        for name in view.members:
            member = self._progress.members.get(name)
            if member is None or member.said is None:
                continue
            said = member.said
            is_here = said.view == view
            member.base = (said.base if is_here or said.view.id == view.parent else said.beside) or START
            if name == self._node:
                member.forget()
            elif is_here:
                self._follow(said)
                member.repost(self._merge(sorted(member.posted)))
                if said.base.index > self._local_state.log.last.index:
                    member.forget()
                    self._ask(said)

    # --- ADD --------------------------------------------------------------------------------------

    def add(self) -> None:
        """Append the longest common prefix of the posted queues into which no member can still insert a pair."""
        local_state, pacing = self._local_state, self._pacing
        pacing.has_more = False
        members = self._progress.in_view()
        if members is None or self._views.is_frozen(members):
            return  # every member has to post in this view first
        if not self._may_add():
            return
        stable = min(member.counter for member in members)
        end = self._progress.furthest_behind(local_state.log.last.index) + self._limits.post
        while (pair := common_head(members, local_state.queue)) is not None and pair.timestamp <= stable:
            if len(local_state.changes.entries) >= self._limits.turn:
                pacing.has_more = True
                return
            if local_state.log.last.index >= end:
                # Members that lag have to post first; this master does so at once if it is one of them.
                if self._progress.members[self._node].base.index < local_state.log.last.index:
                    pacing.note_news()
                return
            if self._append(pair) and not self._may_add():
                return

    def _may_add(self) -> bool:
        """False while this side waits for others.

        That is so behind an approval, and without a majority, unless an operator has declared that it is all that is
        left.
        """
        forces = self._views.forces
        if self._views.is_paused(self._local_state.log.last.index):
            return False
        return self._views.may_agree or any(map(forces, self._local_state.queue.special()))

    def _follow(self, post: Post) -> None:
        """Append the entries that a member ahead of this one has already added, from its post.

        Raises:
            ForgottenPayloadError: the payload of such an entry is not here.
            TwoOrdersError: both masters have different entries at one index.

        """
        log = self._local_state.log
        behind = post.base.index - log.last.index
        if 0 < behind <= len(post.added):  # else the missing entries arrive with a snapshot
            for pair in post.added[-behind:]:
                # An entry is agreed only if all members have its payload.
                if self._local_state.queue.transaction(pair) is None:
                    message = f"{self._node}: {post.node} says what was agreed, and its payload is not here"
                    raise ForgottenPayloadError(message)
                self._append(pair)
        chain = log.chain_at(post.base.index)
        if chain is not None and chain != post.base.chain:
            raise TwoOrdersError(
                f"{self._node} and {post.node} agreed on two orders in view {self._views.view.epoch}: at index "
                f"{post.base.index} the chain is {chain.hex()} here and {post.base.chain.hex()} there"
            )

    def _append(self, pair: Pair) -> bool:
        """Append a waiting pair; return whether it may have changed what may be added."""
        local_state = self._local_state
        transaction = local_state.queue.transaction(pair)
        if transaction is None:
            index = local_state.log.last.index + 1
            raise AssertionError(f"{self._node}: entry {index} was agreed, but its payload is not here")
        self._pacing.move()
        before = local_state.log.last
        if local_state.append(pair, transaction, self._views.view, self._clock.now.steady):
            self._pacing.note_news()  # others wait to hear that it is durable here
        if transaction.kind is not TransactionKind.CONFIG:
            return False
        if self._views.configure(transaction, before, pair.timestamp >> LOGICAL_BITS):
            self._pacing.note_news()
            self._pacing.tend_soon()
        return True

    # --- MERGE ------------------------------------------------------------------------------------

    def _merge(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Merge pairs into the queue; return those that wait here, each as the object that the queue holds."""
        return [waiting for pair in pairs if (waiting := self._enqueue(pair)) is not None]

    def _enqueue(self, pair: Pair) -> Pair | None:
        """Add a pair unless its id is synchronised; return the object that the queue holds.

        Every pair is kept: two timestamps of one id are two pairs, and the first one that is agreed spends
        both.
        """
        for known in self._local_state.queue.pairs(pair.id):
            if known == pair:
                return known
        if pair.id in self._local_state.log:
            return None
        if self._local_state.enqueue(pair):
            self._offer(pair)
        return pair

    # --- transactions and their payloads ----------------------------------------------------------

    def submit(self, transaction: Transaction) -> None:
        """Stamp and enqueue a client's transaction whose payload is here, unless it already waits."""
        if any(p.digest == transaction.digest for p in self._local_state.queue.pairs(transaction.id)):
            return  # a retry
        self._enqueue(Pair(self._clock.stamp(), transaction.id, transaction.digest))

    def propose(self, decision: Decision) -> None:
        """Stamp and enqueue a decision, unless it is agreed or waits."""
        transaction_id, digest = decision.key
        if not self._local_state.queue.pairs(transaction_id):
            self._enqueue(Pair(self._clock.stamp(), transaction_id, digest))

    def acquire(self, transaction: Transaction) -> None:
        """Note a payload that was not here, and offer its pairs for posting."""
        for pair in self._local_state.acquire(transaction):
            self._offer(pair)
