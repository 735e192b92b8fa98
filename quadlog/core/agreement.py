"""Agreement: many masters, one order.  POST, COLLECT, ADD, MERGE.

Sans-I/O: the shell feeds inputs to `Agreement.step` and then takes one `Ready`, whose
order of work is a contract.  The protocol is TxLog's: every master posts its incoming
queue; what is the common prefix of all queues *as posted*, up to the least counter,
is synchronised.

    POST      merge base, counter, the incoming queue in order (acquired transactions only)
    COLLECT   the newest post of every member of the view
    ADD       the longest common prefix of the posted queues, up to the least counter
    MERGE     all pairs that were not known yet
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, assert_never

from quadlog.core.messages import (
    POST_LIMIT,
    Acquired,
    Durable,
    Heard,
    Now,
    Pace,
    Ready,
    Save,
    Submitted,
    Tick,
    TwoOrdersError,
)
from quadlog.core.model import Entry, Pair, Point, Post, Rank, Transaction, View, chain_hash
from quadlog.core.queue import IncomingQueue

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from quadlog.core.messages import Input

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

        """
        self.node: Final = node
        self.incarnation: Final = incarnation
        self.view = view
        self.last = durable.last
        self.counter = durable.counter
        self.ignored: Counter[str] = Counter()
        """Posts that were not listened to, by node: of unknown peers, of other views or incarnations."""
        self.heard_at: dict[str, float] = {}
        """When each other member was heard last: milliseconds of the steady clock."""
        self.queue: Final = IncomingQueue(durable.queue, durable.acquired)
        self._sequence = durable.sequence
        self.pace: Final = pace
        self._logged: Final = logged
        self._tail: deque[tuple[Point, Pair]] = deque(durable.tail, maxlen=POST_LIMIT)
        self._tail_ids = {pair.id for _, pair in self._tail}
        self._latest: dict[str, Post] = {}
        self._heads: dict[str, int] = {}
        self._pending = _Pending()
        self._now = Now(float("-inf"), 0)
        self._posted_at = float("-inf")
        self._news, self._moved = True, False  # the first thing a master does is to speak

    # --- what the shell may ask -----------------------------------------------------------------

    def post_of(self, node: str) -> Post | None:
        """The newest post of a member."""
        return self._latest.get(node)

    @property
    def wake_at(self) -> float:
        """When the next `Tick` is due: milliseconds of the steady clock."""
        if self._news:
            return self._posted_at + self.pace.window
        return self._posted_at + (self.pace.settle if self._moved else self.pace.idle)

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
                pass
            case _:
                assert_never(given)

    def ready(self) -> Ready | None:
        """Everything that the inputs since the last call ask for, or None.

        Posting is decided here, so that one post answers however many inputs came in.  What is
        only merged waits for the next post: until then nobody was promised anything.
        """
        if self._now.steady >= self.wake_at:
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
        self._raise_counter()
        post = Post(
            node=self.node,
            incarnation=self.incarnation,
            sequence=self._sequence,
            view=self.view,
            base=self.last,
            counter=self.counter,
            queue=self.queue.acquired_prefix(POST_LIMIT),
            added=self._led_up(),
            rank=Rank(self.view.epoch, len(self.view.members), self.view.members),
        )
        self._latest[self.node], self._heads[self.node] = post, 0
        self._posted_at, self._news, self._moved = self._now.steady, False, False
        self._pending.post = post
        self._add()

    def _raise_counter(self) -> int:
        """The hybrid logical clock's next reading: above all before it, and not behind the wall."""
        self.counter = max(self.counter + 1, self._now.wall << LOGICAL_BITS)
        return self.counter

    def _led_up(self) -> tuple[Pair, ...]:
        """The entries since the furthest lagger's merge base, as far as it is known.

        A member can be behind only by what it posted itself (else it could not have been agreed
        without it), so the tail, as long as the longest post, always reaches back far enough.
        """
        bases = [post.base.index for post in self._latest.values()]
        lag = self.last.index - min(bases, default=self.last.index)
        newest_first = islice(reversed(self._tail), max(lag, 0))  # below 0: I am the lagger
        return tuple(pair for _, pair in newest_first)[::-1]

    # --- COLLECT ----------------------------------------------------------------------------------

    def _collect(self, post: Post) -> None:
        if post.node == self.node:
            return
        if post.node not in self.view.members or post.view != self.view:
            self.ignored[post.node] += 1
            return
        known = self._latest.get(post.node)
        if known and known.incarnation != post.incarnation:
            self.ignored[post.node] += 1
            return
        if known and known.sequence >= post.sequence:
            return  # heard already, or out of date
        self._latest[post.node], self._heads[post.node] = post, 0
        self.heard_at[post.node] = self._now.steady
        self.counter = max(self.counter, post.counter)
        if post.base.index < self.last.index:
            self._moved = True  # a lagger: the next post tells it what was added
        self._follow(post)
        self._merge(post)
        self._add()

    def _follow(self, post: Post) -> None:
        """A lagger takes from a forerunner's post what that one has already added."""
        behind = post.base.index - self.last.index
        if 0 < behind <= len(post.added):  # else it has not heard me yet: its next post reaches back to me
            for pair in post.added[-behind:]:
                self._append(pair)
        chain = self._chain_at(post.base.index)
        if chain is not None and chain != post.base.chain:
            message = (
                f"{self.node} and {post.node} agreed on two orders in view {self.view.epoch}: at index "
                f"{post.base.index} the chain is {chain.hex()} here and {post.base.chain.hex()} there"
            )
            raise TwoOrdersError(message)

    def _chain_at(self, index: int) -> bytes | None:
        back = self.last.index - index
        if back == 0:
            return self.last.chain
        return self._tail[-1 - back][0].chain if 0 < back < len(self._tail) else None

    # --- ADD ----------------------------------------------------------------------------------------

    def _add(self) -> None:
        """Append the longest common prefix of the posted queues that no member can still insert into."""
        posts = [post for member in self.view.members if (post := self._latest.get(member))]
        if len(posts) < len(self.view.members):
            return  # every member has to speak in this view first
        stable = min(post.counter for post in posts)
        while (pair := self._common_head(posts)) is not None and pair.timestamp <= stable:
            self._append(pair)

    def _common_head(self, posts: Sequence[Post]) -> Pair | None:
        """The pair that heads every member's queue as posted, less what is added already."""
        first = self._head(posts[0])
        if first is None or any(self._head(post) != first for post in posts[1:]):
            return None
        return first

    def _head(self, post: Post) -> Pair | None:
        """The first pair of a posted queue that is not spent.

        All pairs of a post were merged when it was collected, so one whose id waits no longer is spent.
        """
        at = self._heads[post.node]
        while at < len(post.queue) and post.queue[at].id not in self.queue:
            at += 1
        self._heads[post.node] = at
        return post.queue[at] if at < len(post.queue) else None

    def _append(self, pair: Pair) -> None:
        transaction = self.queue.transaction(pair)
        if transaction is None:
            message = f"{self.node}: entry {self.last.index + 1} was agreed, but its payload is not here"
            raise AssertionError(message)
        previous = self.last.chain
        self.last = Point(self.last.index + 1, chain_hash(previous, transaction, pair.timestamp))
        entry = Entry(
            index=self.last.index,
            pair=pair,
            kind=transaction.kind,
            options=transaction.options,
            previous=previous,
            chain=self.last.chain,
            view=self.view,
        )
        self._pending.entries.append(entry)
        self._remember(entry)
        self._spend(pair.id)
        self._moved = True

    def _remember(self, entry: Entry) -> None:
        if len(self._tail) == POST_LIMIT:
            self._tail_ids.discard(self._tail[0][1].id)
        self._tail.append((entry.point, entry.pair))
        self._tail_ids.add(entry.pair.id)

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

    def _merge(self, post: Post) -> None:
        for pair in post.queue:
            self._enqueue(pair)

    def _enqueue(self, pair: Pair) -> None:
        """Every pair is kept: two timestamps of one id are two pairs, and the first agreed spends both."""
        if pair in self.queue.pairs(pair.id) or self._is_logged(pair.id):
            return
        self._pending.enqueued[pair] = None
        if self.queue.add(pair):
            self._news = True

    def _is_logged(self, transaction_id: bytes) -> bool:
        return transaction_id in self._tail_ids or transaction_id in self._logged

    # --- transactions and their payloads ----------------------------------------------------------

    def _submit(self, transaction: Transaction) -> None:
        if self._is_logged(transaction.id):
            return
        self._acquire(transaction)
        if any(pair.digest == transaction.digest for pair in self.queue.pairs(transaction.id)):
            return  # a retry of what is waiting already
        self._enqueue(Pair(self._raise_counter(), transaction.id, transaction.digest))

    def _acquire(self, transaction: Transaction) -> None:
        if self._is_logged(transaction.id) or self.queue.has_payload(transaction.key):
            return
        self._pending.acquired.append(transaction)
        if self.queue.acquire(transaction):
            self._news = True
