"""Agreement: many masters, one order.  POST, COLLECT, ADD, MERGE.

Sans-I/O: the shell feeds inputs to `Agreement.step` and then takes one `Ready`, whose
order of work is a contract.  The protocol is TxLog's: every master posts its incoming
queue; what is the common prefix of all queues *as posted*, up to the least counter,
is synchronised.

    POST      merge base, counter, what is new in the incoming queue (acquired transactions only)
    COLLECT   the newest post of every member of the view
    ADD       the longest common prefix of the posted queues, up to the least counter
    MERGE     all pairs that were not known yet

What a master posts is in `posting`, what is known of the others' posts in `member`, who takes part and how that
changes in `views`, what a new view inherits in `bequest`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

from quadlog.core.bequest import bequest, estate
from quadlog.core.member import Member
from quadlog.core.messages import (
    Acquired,
    Adopted,
    Durable,
    Followed,
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
from quadlog.core.model import START, Ask, Entry, Pair, Post, Standing, Transaction, View, first_view
from quadlog.core.posting import Posting
from quadlog.core.queue import IncomingQueue
from quadlog.core.synchronised import SynchronisedQueue
from quadlog.core.views import NOBODY, Views

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from quadlog.core.bequest import Bequest
    from quadlog.core.messages import Branch, Input
    from quadlog.core.model import Point
    from quadlog.core.views import HoldingUp

LOGICAL_BITS: Final = 16


@dataclass(slots=True)
class _Pending:
    """What the next Ready will hold."""

    acquired: list[Transaction] = field(default_factory=list[Transaction])
    enqueued: dict[Pair, None] = field(default_factory=dict[Pair, None])
    dequeued: list[Pair] = field(default_factory=list[Pair])
    entries: list[Entry] = field(default_factory=list[Entry])
    released: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    adopted: Adopted | None = None
    post: Post | None = None


class Agreement:
    """One master's part in the agreement.  Owned by one thread."""

    def __init__(
        self,
        *,
        node: str,
        incarnation: bytes,
        masters: Mapping[str, str],
        durable: Durable,
        logged: Container[bytes],
        pace: Pace,
        limits: Limits,
    ) -> None:
        """Start, or go on after a restart.

        Args:
            node: this master's id, one of `masters`.
            incarnation: of this master: 16 bytes, new whenever it lost its disk.
            masters: all that vote, each with its data centre.
            durable: what was saved last.
            logged: ids of all synchronised transactions up to `durable.last`; it may lag behind
                what this object appends.
            pace: when to post.
            limits: how much at once.

        """
        self.node: Final = node
        self.incarnation: Final = incarnation
        self._views: Final = Views(
            node,
            masters,
            durable.standing or Standing(view=first_view(masters)),
            lag=pace.lag,
            near=limits.near,
        )
        self.counter = durable.counter
        self.ignored: Counter[str] = Counter()
        """Posts that were not listened to, by node: of unknown peers, of other incarnations."""
        self.queue: Final = IncomingQueue(durable.queue, durable.acquired)
        self._sequence = durable.sequence
        self.pace: Final = pace
        self._limits: Final = limits
        self._logged: Final = logged
        self._log = SynchronisedQueue(durable.last, durable.tail, logged=logged, length=limits.post)
        self._posting = Posting(self.queue, limits)
        self._members: dict[str, Member] = {}
        self._asks: dict[str, Ask] = {}
        self._pending = _Pending()
        self._now = Now(float("-inf"), 0)
        self._posted_at = float("-inf")
        self._news, self._moved = True, False  # the first thing a master does is to speak
        self._more = False
        self._saved = self.standing
        self._branch: Branch | None = None
        self._is_adopted = False
        self._tended_at = float("-inf")
        self._lacks: Pair | None = None

    # --- what the shell may ask -----------------------------------------------------------------

    @property
    def view(self) -> View:
        """The installed one."""
        return self._views.view

    @property
    def standing(self) -> Standing:
        """Where this master stands among the others."""
        return self._views.standing

    @property
    def heard_at(self) -> Mapping[str, float]:
        """When each other master was heard last: milliseconds of the steady clock."""
        return self._views.heard_at

    @property
    def beside(self) -> Point | None:
        """How far the log of the side that this master is joining was read."""
        branch = self._branch
        return branch.last if branch is not None and branch.own == self.last else None

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
        return float("-inf") if self._more else min(self._post_at, self._tended_at + self._tend_each)

    @property
    def _tend_each(self) -> float:
        return min(self.pace.lag / 20, self.pace.idle)

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
        if self._is_adopted:
            self._log.logged, self._is_adopted = (
                self._logged,
                False,
            )  # what the last Ready adopted is saved by now
        match given:
            case Submitted(transaction=transaction):
                self._submit(transaction)
            case Acquired(transaction=transaction):
                self._acquire(transaction)
            case Heard(post=post):
                self._collect(post)
            case Followed(branch=branch):
                self._branch, self._news = branch, True
                self._install()
            case Tick():
                if now.steady >= self._tended_at + self._tend_each:
                    self._govern()
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
        if not pending.entries and pending.post is None and pending.adopted is None:
            return None
        self._pending = _Pending()
        self._is_adopted = pending.adopted is not None
        save = Save(
            counter=self.counter,
            sequence=self._sequence,
            standing=None if self.standing is self._saved else self.standing,
            adopted=pending.adopted,
            acquired=tuple(pending.acquired),
            enqueued=tuple(pending.enqueued),
            dequeued=tuple(pending.dequeued),
            entries=tuple(pending.entries),
            released=tuple(pending.released),
        )
        self._saved = self.standing
        return Ready(save=save, entries=save.entries, post=pending.post)

    # --- POST -------------------------------------------------------------------------------------

    def _post(self) -> None:
        self._sequence += 1
        counter = self._raise_counter()
        is_snapshot, queue = self._posting.draw(self._sequence)
        left = self._posting.first_left
        if left is not None:
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
            ballot=self._views.ballot,
            rank=self._views.rank,
            joining=self.standing.joining,
            given_up=self.standing.given_up,
            whole=left is None,
            beside=self.beside,
        )
        self._members[self.node] = own
        own.hear(post, post.base)
        own.understand(post, queue)
        self._posted_at, self._news, self._moved = self._now.steady, left is not None, False
        self._pending.post = post
        if post.ballot is not None:
            self._tended_at = float("-inf")
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
        members = (self._members.get(name) for name in self.view.members)
        return min((member.base.index for member in members if member), default=self.last.index)

    # --- COLLECT ----------------------------------------------------------------------------------

    def _collect(self, post: Post) -> None:
        if post.node == self.node:
            return
        if post.node not in self._views.masters:
            self.ignored[post.node] += 1
            return
        member = self._members.setdefault(post.node, Member(post.incarnation))
        if member.incarnation != post.incarnation:
            self.ignored[post.node] += 1
            return
        if member.heard >= post.sequence:
            return  # heard already, or out of date
        before = member.said
        self.counter = max(self.counter, post.highest)
        self._views.hear(post, self._now.steady)
        self._listen(member, post)
        if any(ask.node == self.node and self._posting.asked(ask.sequence) for ask in post.asks):
            self._news = True
        if not self._views.is_settled or not _stands_as_before(before, post):
            self._govern()
        self._add()

    def _listen(self, member: Member, post: Post) -> None:
        """Take a post as its sender's last word; or ask for a snapshot, if that cannot be."""
        is_here = post.view == self.view
        member.hear(post, post.base if is_here else post.beside)
        pairs: Sequence[Pair] = post.queue
        if is_here:
            self._follow(post)
            pairs = self._merge(post.queue)
        if member.follows(post) and not (is_here and post.base.index > self.last.index):
            member.understand(post, pairs)
            self._asks.pop(post.node, None)
        else:
            self._ask(post)

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
        members = self._in_view()
        if members is None or self._views.is_frozen(members):
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

    def _in_view(self) -> list[Member] | None:
        """All members, if each has spoken in this view."""
        view = self.view
        members = [self._members.get(name) for name in view.members]
        spoken = [member for member in members if member is not None and member.is_in(view)]
        return spoken if len(spoken) == len(members) else None

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

    def _merge(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Those that wait here, each as the one object that stands for it."""
        return [waiting for pair in pairs if (waiting := self._enqueue(pair)) is not None]

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
        if self._views.ballot is not None and (self._lacks is None or self._lacks.id == transaction.id):
            self._install()

    # --- views ------------------------------------------------------------------------------------

    def _govern(self) -> None:
        """Look after the membership: who is missing, whom to join, what to vote for."""
        now = self._now.steady
        self._tended_at = now
        changed = self._views.tend(self._members, self._holding_up(), now)
        self._install()
        if self._views.vote(self._members, self.last.index, now) or changed:
            self._news = True
            if self.standing.joining is None:
                self._branch = None
        self._install()

    def _holding_up(self) -> HoldingUp:
        """What heads the queues of all but some, and whose it does not."""
        members = self._in_view()
        if members is None:
            return NOBODY
        heads = {
            name: member.head(self.queue) for name, member in zip(self.view.members, members, strict=True)
        }
        head = min((pair for pair in heads.values() if pair is not None), default=None)
        return (head, frozenset(name for name, pair in heads.items() if pair != head)) if head else NOBODY

    def _install(self) -> None:
        """Install what was voted for, as soon as all did and all that it inherits is acquired."""
        ballot = self._views.ballot
        if ballot is None:
            return
        inherited = bequest(ballot, self.node, self._members)
        if inherited is None:
            return
        if ballot.parent == self.view.id:
            if not self._has_payloads(inherited.pairs):
                return
            promise = self.standing.promise
            self._keep_what_may_come(ballot)
        else:
            if inherited.lead is None or not self._give_way(ballot, inherited):
                return
            promise = inherited.lead.rank.epoch
        self._views.install(ballot, promise, self._now.steady)
        self._begin_view()

    def _has_payloads(self, pairs: frozenset[Pair]) -> bool:
        """A promise needs the payloads that it promises."""
        if self._lacks is not None and self._lacks in pairs and not self._has_payload(self._lacks):
            return False
        self._lacks = next((pair for pair in pairs if not self._has_payload(pair)), None)
        return self._lacks is None

    def _has_payload(self, pair: Pair) -> bool:
        return pair.id in self._log or self.queue.has_payload(pair.key)

    def _keep_what_may_come(self, view: View) -> None:
        """What is known, but neither acquired nor posted in the new view, is learned again when it is."""
        posted = {
            pair
            for name, member in self._members.items()
            if name != self.node and member.is_in(view)
            for pair in member.posted
        }
        pairs = self.queue.everything()
        kept = [pair for pair in pairs if pair in posted or self.queue.has_payload(pair.key)]
        if len(kept) < len(pairs):
            self._replace_queue(kept, self.queue.transactions())

    def _give_way(self, ballot: View, inherited: Bequest) -> bool:
        """Take the stronger side's log and queue; submit anew what only this side had.  Whether it could."""
        branch, own, lead = self._branch, self._members.get(self.node), inherited.lead
        assert lead is not None
        if (
            branch is None
            or branch.own != self.last
            or own is None
            or own.said is None
            or own.said.ballot != ballot
        ):
            return False
        if self._pending.entries or self._pending.adopted:
            return False  # that is to be saved first
        if branch.chain_at(lead.base.index) != lead.base.chain:
            return False  # it is not read so far
        kept = estate(self.queue, branch, lead.base, inherited.pairs, self._raise_counter)
        if kept is None:
            return False
        tail, logged = branch.tail(lead.base.index, self._limits.post), branch.ids(lead.base.index)
        self._log = SynchronisedQueue(lead.base, tail, logged=logged, length=self._limits.post)
        self._pending.adopted = Adopted(branch, lead.base)
        self._pending.acquired += kept.regained
        self._pending.released += kept.released
        self._replace_queue(kept.pairs, kept.acquired)
        self._branch = None
        return True

    def _replace_queue(self, pairs: Sequence[Pair], acquired: Sequence[Transaction]) -> None:
        before, after = set(self.queue.everything()), set(pairs)
        pending = self._pending
        for pair in sorted(before - after):
            if pair in pending.enqueued:
                del pending.enqueued[pair]
            else:
                pending.dequeued.append(pair)
        pending.enqueued.update(dict.fromkeys(sorted(after - before)))
        self.queue.replace(pairs, acquired)

    def _begin_view(self) -> None:
        """Hear again, as a member of the new view, what its members said in it."""
        self._posting = Posting(self.queue, self._limits)
        self._news = True
        for name in self.view.members:
            member = self._members.get(name)
            if member is None or member.said is None:
                continue
            said = member.said
            is_here = said.view == self.view
            member.base = (said.base if is_here or said.view.id == self.view.parent else said.beside) or START
            if name == self.node:
                member.forget()
            elif is_here:
                self._follow(said)
                member.repost(self._merge(sorted(member.posted)))
                if said.base.index > self.last.index:
                    member.forget()
                    self._ask(said)


def _stands_as_before(before: Post | None, post: Post) -> bool:
    """Does it say of the membership what was said before?"""
    return before is not None and (
        before.view,
        before.ballot,
        before.joining,
        before.given_up,
        before.whole,
    ) == (
        post.view,
        post.ballot,
        post.joining,
        post.given_up,
        post.whole,
    )
