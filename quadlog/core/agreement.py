"""Agreement: many masters, one order.  POST, COLLECT, ADD, MERGE.

Sans-I/O: the shell feeds inputs to `Agreement.step` and then takes one `Ready`, whose
order of work is a contract.  The protocol is TxLog's: every master posts its incoming
queue; what is the common prefix of all queues *as posted*, up to the least counter,
is synchronised.

    POST      merge base, counter, what is new in the incoming queue (acquired transactions only)
    COLLECT   the newest post of every member of the view
    ADD       the longest common prefix of the posted queues, up to the least counter
    MERGE     all pairs that were not known yet

What a master posts is in `posting`, what is known of the others' posts in `member`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

from quadlog.core.member import Member
from quadlog.core.messages import (
    Acquired,
    Durable,
    Heard,
    Limits,
    Now,
    Pace,
    Ready,
    Save,
    Submitted,
    Tick,
    TwoOrdersError,
)
from quadlog.core.model import Ask, Entry, Pair, Post, Rank, Transaction, View
from quadlog.core.posting import Posting
from quadlog.core.queue import IncomingQueue
from quadlog.core.synchronised import SynchronisedQueue

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from quadlog.core.messages import Input
    from quadlog.core.model import Point

LOGICAL_BITS: Final = 16


@dataclass(slots=True)
class _Pending:
    """What the next Ready will hold."""

    acquired: list[Transaction] = field(default_factory=list[Transaction])
    enqueued: dict[Pair, None] = field(default_factory=dict[Pair, None])
    dequeued: list[Pair] = field(default_factory=list[Pair])
    entries: list[Entry] = field(default_factory=list[Entry])
    released: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    post: Post | None = None


class Agreement:
    """One master's part in the agreement.  Owned by one thread."""

    def __init__(
        self,
        *,
        node: str,
        incarnation: bytes,
        view: View,
        durable: Durable,
        logged: Container[bytes],
        pace: Pace,
        limits: Limits,
    ) -> None:
        """Start, or go on after a restart.

        Args:
            node: this master's id, a member of `view`.
            incarnation: of this master: 16 bytes, new whenever it lost its disk.
            view: the installed view.
            durable: what was saved last.
            logged: ids of all synchronised transactions up to `durable.last`; it may lag behind
                what this object appends.
            pace: when to post.
            limits: how much at once.

        """
        self.node: Final = node
        self.incarnation: Final = incarnation
        self.view = view
        self.counter = durable.counter
        self.ignored: Counter[str] = Counter()
        """Posts that were not listened to, by node: of unknown peers, of other views or incarnations."""
        self.heard_at: dict[str, float] = {}
        """When each other member was heard last: milliseconds of the steady clock."""
        self.queue: Final = IncomingQueue(durable.queue, durable.acquired)
        self._sequence = durable.sequence
        self.pace: Final = pace
        self._limits: Final = limits
        self._log: Final = SynchronisedQueue(durable.last, durable.tail, logged=logged, length=limits.post)
        self._posting: Final = Posting(self.queue, limits)
        self._members: dict[str, Member] = {}
        self._asks: dict[str, Ask] = {}
        self._pending = _Pending()
        self._now = Now(float("-inf"), 0)
        self._posted_at = float("-inf")
        self._news, self._moved = True, False  # the first thing a master does is to speak
        self._more = False

    # --- what the shell may ask -----------------------------------------------------------------

    @property
    def last(self) -> Point:
        """The end of the synchronised queue: the merge base of the next post."""
        return self._log.last

    @property
    def members(self) -> Mapping[str, Member]:
        """What is known of each member that has posted, this master included."""
        return self._members

    @property
    def wake_at(self) -> float:
        """When the next `Tick` is due: milliseconds of the steady clock."""
        return float("-inf") if self._more else self._post_at

    @property
    def _post_at(self) -> float:
        if self._news:
            return self._posted_at + self.pace.window
        return self._posted_at + (self.pace.settle if self._moved else self.pace.idle)

    def is_synchronised(self, transaction_id: bytes) -> bool:
        """Is a transaction of this id in the synchronised queue, saved or about to be?"""
        return transaction_id in self._log

    # --- inputs in, one Ready out ---------------------------------------------------------------

    def step(self, given: Input, now: Now) -> None:
        """Take one input."""
        self._now = now
        match given:
            case Submitted(transaction=transaction):
                self._submit(transaction)
            case Acquired(transaction=transaction):
                self._acquire(transaction)
            case Heard(post=post):
                self._collect(post)
            case Tick():
                if self._more:
                    self._add()
            case _:
                assert_never(given)

    def ready(self) -> Ready | None:
        """Everything that the inputs since the last call ask for, or None.

        Posting is decided here, so that one post answers however many inputs came in.  What is
        only merged waits for the next post: until then nobody was promised anything.
        """
        if self._now.steady >= self._post_at:
            self._post()
        pending = self._pending
        if not pending.entries and pending.post is None:
            return None
        self._pending = _Pending()
        save = Save(
            counter=self.counter,
            sequence=self._sequence,
            acquired=tuple(pending.acquired),
            enqueued=tuple(pending.enqueued),
            dequeued=tuple(pending.dequeued),
            entries=tuple(pending.entries),
            released=tuple(pending.released),
        )
        return Ready(save=save, entries=save.entries, post=pending.post)

    # --- POST -------------------------------------------------------------------------------------

    def _post(self) -> None:
        self._sequence += 1
        counter = self._raise_counter()
        is_snapshot, queue = self._posting.draw(self._sequence)
        if left := self._posting.first_left:
            counter = min(counter, left.timestamp - 1)  # what is left may stand before what was posted
        own = self._members.get(self.node) or Member(self.incarnation)
        post = Post(
            node=self.node,
            incarnation=self.incarnation,
            sequence=self._sequence,
            base_sequence=None if is_snapshot else own.heard,
            view=self.view,
            base=self.last,
            counter=counter,
            queue=queue,
            added=self._log.since(self._furthest if is_snapshot else own.base.index),
            asks=tuple(self._asks.values()),
            rank=Rank(self.view.epoch, len(self.view.members), self.view.members),
        )
        self._members[self.node] = own
        own.hear(post)
        own.understand(post, queue)
        self._posted_at, self._news, self._moved = self._now.steady, left is not None, False
        self._pending.post = post
        self._add()

    def _raise_counter(self) -> int:
        """The hybrid logical clock's next reading: above all before it, and not behind the wall."""
        self.counter = max(self.counter + 1, self._now.wall << LOGICAL_BITS)
        return self.counter

    @property
    def _furthest(self) -> int:
        """Index of the merge base that the furthest lagger posted, as far as members were heard.

        ADD does not go too far beyond it, so the log always remembers what that one lacks.
        """
        return min((member.base.index for member in self._members.values()), default=self.last.index)

    # --- COLLECT ----------------------------------------------------------------------------------

    def _collect(self, post: Post) -> None:
        if post.node == self.node:
            return
        if post.node not in self.view.members or post.view != self.view:
            self.ignored[post.node] += 1
            return
        member = self._members.setdefault(post.node, Member(post.incarnation))
        if member.incarnation != post.incarnation:
            self.ignored[post.node] += 1
            return
        if member.heard >= post.sequence:
            return  # heard already, or out of date
        member.hear(post)
        self.heard_at[post.node] = self._now.steady
        self.counter = max(self.counter, post.highest)
        self._follow(post)
        waiting = self._merge(post)
        if member.follows(post) and post.base.index <= self.last.index:
            member.understand(post, waiting)
            self._asks.pop(post.node, None)
        else:
            self._ask(post)
        if any(ask.node == self.node and self._posting.asked(ask.sequence) for ask in post.asks):
            self._news = True
        self._add()

    def _ask(self, post: Post) -> None:
        """Something before this post was not heard: its sender is asked for a snapshot until one comes.

        Until then its last word is the one that was understood.
        """
        self._news = self._news or post.node not in self._asks
        self._asks[post.node] = Ask(post.node, post.sequence)

    def _follow(self, post: Post) -> None:
        """A lagger takes from a forerunner's post what that one has already added."""
        behind = post.base.index - self.last.index
        if 0 < behind <= len(post.added):  # else what is missing comes with a snapshot
            for pair in post.added[-behind:]:
                self._append(pair)
        chain = self._log.chain_at(post.base.index)
        if chain is not None and chain != post.base.chain:
            message = (
                f"{self.node} and {post.node} agreed on two orders in view {self.view.epoch}: at index "
                f"{post.base.index} the chain is {chain.hex()} here and {post.base.chain.hex()} there"
            )
            raise TwoOrdersError(message)

    # --- ADD ----------------------------------------------------------------------------------------

    def _add(self) -> None:
        """Append the longest common prefix of the posted queues that no member can still insert into."""
        self._more = False
        members = [self._members[name] for name in self.view.members if name in self._members]
        if len(members) < len(self.view.members) or any(member.understood is None for member in members):
            return  # every member has to speak in this view first
        stable = min(member.counter for member in members)
        end = self._furthest + self._limits.post
        while (pair := self._common_head(members)) is not None and pair.timestamp <= stable:
            if len(self._pending.entries) >= self._limits.turn:
                self._more = True
                return
            if self.last.index >= end:
                # Laggers have to post first; if it is I who lags behind, at once.
                self._news = self._news or self._members[self.node].base.index < self.last.index
                return
            self._append(pair)

    def _common_head(self, members: Sequence[Member]) -> Pair | None:
        """The pair that heads every member's queue as posted, less what is added already."""
        first = members[0].head(self.queue)
        for member in members[1:]:
            if first is None or member.head(self.queue) != first:
                return None
        return first

    def _append(self, pair: Pair) -> None:
        transaction = self.queue.transaction(pair)
        if transaction is None:
            message = f"{self.node}: entry {self.last.index + 1} was agreed, but its payload is not here"
            raise AssertionError(message)
        self._pending.entries.append(self._log.append(pair, transaction, self.view))
        self._spend(pair.id)
        self._moved = True

    def _spend(self, transaction_id: bytes) -> None:
        """With a transaction any later pair of the same id is spent, and every payload of it."""
        pairs, payloads = self.queue.remove(transaction_id)
        for pair in pairs:
            if pair in self._pending.enqueued:
                del self._pending.enqueued[pair]
            else:
                self._pending.dequeued.append(pair)
        self._pending.released += payloads

    # --- MERGE --------------------------------------------------------------------------------------

    def _merge(self, post: Post) -> list[Pair]:
        """The post's pairs that wait here, each as the one object that stands for it."""
        return [waiting for pair in post.queue if (waiting := self._enqueue(pair)) is not None]

    def _enqueue(self, pair: Pair) -> Pair | None:
        """Every pair is kept: two timestamps of one id are two pairs, and the first agreed spends both."""
        for known in self.queue.pairs(pair.id):
            if known == pair:
                return known
        if pair.id in self._log:
            return None
        self._pending.enqueued[pair] = None
        if self.queue.add(pair):
            self._offer(pair)
        return pair

    def _offer(self, pair: Pair) -> None:
        self._posting.offer(pair)
        self._news = True

    # --- transactions and their payloads ----------------------------------------------------------

    def _submit(self, transaction: Transaction) -> None:
        if transaction.id in self._log:
            return
        self._acquire(transaction)
        if any(pair.digest == transaction.digest for pair in self.queue.pairs(transaction.id)):
            return  # a retry of what is waiting already
        self._enqueue(Pair(self._raise_counter(), transaction.id, transaction.digest))

    def _acquire(self, transaction: Transaction) -> None:
        if transaction.id in self._log or self.queue.has_payload(transaction.key):
            return
        self._pending.acquired.append(transaction)
        for pair in self.queue.acquire(transaction):
            self._offer(pair)
