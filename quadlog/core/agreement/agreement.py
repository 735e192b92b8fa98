"""Agreement: many masters, one order.  POST, COLLECT, ADD, MERGE.

Sans-I/O: the shell feeds inputs to `Agreement.step` and then takes one `Ready`, whose
order of work is a contract.  The protocol is TxLog's: every master posts its incoming
queue; what is the common prefix of all queues *as posted*, up to the least counter,
is synchronised.

    POST      merge base, counter, what is new in the incoming queue (acquired transactions only): `speech`
    COLLECT   the newest post of every member of the view: `rounds`
    ADD       the longest common prefix of the posted queues, up to the least counter: `rounds`
    MERGE     all pairs that were not known yet: `rounds`

What is known of the others' posts is in `company`, when to post in `pacing`, who takes part and how that changes in
`views`, how one view follows another in `succession`, and what is held and saved in `holdings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from quadlog.core.agreement.company import Company
from quadlog.core.agreement.holdings import Holdings
from quadlog.core.agreement.pacing import Clock, Pacing
from quadlog.core.agreement.rounds import Rounds
from quadlog.core.agreement.shared import Shared
from quadlog.core.agreement.speech import Speech
from quadlog.core.agreement.succession import Succession
from quadlog.core.membership.incarnations import first_standing
from quadlog.core.membership.views import Views
from quadlog.core.messages import (
    Acquired,
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
    Voided,
)
from quadlog.core.model import OF_A_BRANCH

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from quadlog.core.messages import Input
    from quadlog.core.model import Ask, Entry, Held, Peer, Point, Post, Standing, Transaction, View
    from quadlog.core.queues.member import Member


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
        witnesses: frozenset[str] = frozenset(),
    ) -> None:
        """Start, or go on after a restart.

        Args:
            node: this master's id, one of `masters`; or not yet, if it is blank.
            incarnation: of this master: 16 bytes, see `new_incarnation`.
            masters: the peers of the settings, each with its data centre.
            durable: what was saved last.
            logged: ids of all synchronised transactions up to `durable.last`; it may lag behind
                what this object appends.
            pace: when to post.
            limits: how much at once.
            witnesses: data centres that evaluate nothing, by the settings; the same at all masters.

        """
        self.node: Final = node
        self.incarnation: Final = incarnation
        self.pace: Final = pace
        self._views: Final = Views(
            node,
            masters,
            durable.standing or first_standing(node, incarnation, masters, witnesses, blank=durable.blank),
            lag=pace.lag,
            near=limits.near,
            put_off=pace.put_off,
            witnesses=witnesses,
        )
        self._clock: Final = Clock(durable.counter)
        self._pacing: Final = Pacing(pace)
        self._holdings: Final = Holdings(durable, logged=logged, length=limits.post)
        self.queue: Final = self._holdings.queue
        self._company: Final = Company(node, self._views)
        self.ignored: Final = self._company.ignored
        shared = Shared(
            node=node,
            views=self._views,
            company=self._company,
            holdings=self._holdings,
            clock=self._clock,
            pacing=self._pacing,
            limits=limits,
        )
        self._speech: Final = Speech(shared, incarnation, durable.sequence)
        self._rounds: Final = Rounds(shared, offer=self._speech.offer)
        self._succession: Final = Succession(
            self._views, self._holdings, self._company.members, stamp=self._clock.stamp
        )
        self._post_due: Post | None = None
        self._saved = durable.standing

    # --- what the shell may ask -------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The installed one."""
        return self._views.view

    @property
    def standing(self) -> Standing:
        """Where this master stands among the others."""
        return self._views.standing

    @property
    def is_blank(self) -> bool:
        """It lost its disk, and takes part in nothing until it is let in."""
        return not self.view.members

    @property
    def is_peer(self) -> bool:
        """Whether this master has its place among the others, as far as it was told: else it takes no writes."""
        return self._views.is_peer

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Who may be a member of a view, as far as this master was told."""
        return self._views.peers

    @property
    def undecided(self) -> frozenset[str]:
        """Those whose being a peer, or not, is agreed and not decided yet."""
        return self._views.undecided

    @property
    def has_majority(self) -> bool:
        """Whether more than half of all data centres are in the view."""
        return self._views.is_majority(self.view)

    def confirms(self, entry: Entry) -> bool:
        """Whether the view that this master appended an entry in holds a majority of the voting data centres.

        Then all that any majority had agreed before the transaction was submitted stands before it: each member of the
        view has posted it since, and one of them is in every other majority.  Of an entry that was adopted with a
        stronger side's log this says nothing.
        """
        return self._views.is_majority(entry.view)

    @property
    def heard_at(self) -> Mapping[str, float]:
        """When each other master was heard last: milliseconds of the steady clock."""
        return self._views.heard_at

    @property
    def beside(self) -> Point | None:
        """How far the log of the side that this master is joining was read."""
        return self._succession.beside

    @property
    def effects(self) -> Held:
        """How far the effects topic of this data centre goes; said in posts, and where a view's home may be."""
        return self._speech.effects

    @effects.setter
    def effects(self, held: Held) -> None:
        self._speech.effects = held
        self._views.know_effects(held)

    @property
    def unheard(self) -> tuple[str, ...]:
        """Data centres out of whose topics nothing comes; said in posts, at once, and means nothing here."""
        return self._speech.unheard

    @unheard.setter
    def unheard(self, dcs: tuple[str, ...]) -> None:
        self._speech.unheard = dcs

    @property
    def full(self) -> bool:
        """Whether the effects topic of this data centre takes no records; said in posts, and where no home may be."""
        return self._speech.full

    @full.setter
    def full(self, full: bool) -> None:
        self._speech.full = full
        self._views.know_full(full=full)

    @property
    def counter(self) -> int:
        """The last reading of this master's clock."""
        return self._clock.counter

    @property
    def last(self) -> Point:
        """The end of the synchronised queue: the merge base of the next post."""
        return self._holdings.log.last

    @property
    def members(self) -> Mapping[str, Member]:
        """What is known of each member that has posted, this master included."""
        return self._company.members

    @property
    def asks(self) -> Mapping[str, Ask]:
        """Of whom a snapshot is asked."""
        return self._company.asks

    @property
    def wake_at(self) -> float:
        """When the next `Tick` is due: milliseconds of the steady clock."""
        return self._pacing.wake_at

    @property
    def settled(self) -> int:
        """No entry up to this index is ever cut here: all members of a view that holds a majority have it.

        0: of none that is known.
        """
        members = self._company.in_view()
        if members is None or not self.has_majority:
            return 0
        return min(member.said.base.index for member in members if member.said is not None)

    def is_synchronised(self, transaction_id: bytes) -> bool:
        """Is a transaction of this id in the synchronised queue, saved or about to be?"""
        return transaction_id in self._holdings.log

    # --- inputs in, one Ready out -----------------------------------------------------------------

    def step(self, given: Input, now: Now) -> None:
        """Take one input."""
        self._clock.now = now
        self._views.wake(now.steady)
        self._holdings.begin_turn()
        match given:
            case Submitted(transaction=transaction):
                if not self.is_synchronised(transaction.id):
                    self._acquire(transaction)
                    self._rounds.submit(transaction)
            case Acquired(transaction=transaction):
                self._acquire(transaction)
            case Heard(post=post):
                self._collect(post)
            case Followed(branch=branch):
                self._succession.branch = branch
                self._pacing.tell()
                self._install()
            case Voided(node=node, incarnation=incarnation):
                if self._company.void(node, incarnation):
                    self._govern()
            case Tick():
                self._tick()
            case _:
                assert_never(given)

    def _tick(self) -> None:
        if self._clock.now.steady >= self._pacing.tend_at:
            self._govern()
        if self._pacing.has_more:
            self._rounds.add()

    def ready(self) -> Ready | None:
        """Everything that the inputs since the last call ask for, or None.

        Posting is decided here, so that one post answers however many inputs came in.  What is
        only merged waits for the next post: until then nobody was promised anything.
        """
        if self._clock.now.steady >= self._pacing.post_at:
            self._post_due = self._speech.post(self.beside)
            self._rounds.add()
        changes, post = self._holdings.changes, self._post_due
        if not changes.entries and post is None and changes.adopted is None:
            return None
        self._holdings.take_changes()
        self._post_due = None
        save = Save(
            counter=self.counter,
            sequence=self._speech.sequence,
            standing=None if self.standing is self._saved else self.standing,
            adopted=changes.adopted,
            acquired=tuple(changes.acquired),
            enqueued=tuple(changes.enqueued),
            dequeued=tuple(changes.dequeued),
            entries=tuple(changes.entries),
            released=tuple(changes.released),
        )
        self._saved = self.standing
        return Ready(save=save, entries=save.entries, post=post)

    # --- transactions and their payloads ----------------------------------------------------------

    def _acquire(self, transaction: Transaction) -> None:
        if self.is_synchronised(transaction.id) or self.queue.has_payload(transaction.key):
            return
        self._rounds.acquire(transaction)
        if self._succession.may_wait_for(transaction.id):
            self._install()

    # --- COLLECT ----------------------------------------------------------------------------------

    def _collect(self, post: Post) -> None:
        if post.node == self.node:
            return
        member = self._company.recognised(post)
        if member is None:
            self._speech.hear(post)  # who was removed may ask, to be told so
            return
        if member.heard >= post.sequence:
            return  # heard already, or out of date
        before = member.said
        self._clock.pass_by(post.highest)
        self._views.hear(post, self._clock.now.steady)
        self._rounds.collect(member, post)
        self._speech.hear(post)
        if self._views.is_moved_by(post, before):
            self._govern()
        self._rounds.add()

    # --- views ------------------------------------------------------------------------------------

    def _govern(self) -> None:
        """Look after the membership: who is missing, whom to join, what to vote for."""
        now, members = self._clock.now.steady, self._company.members
        self._pacing.tended(now)
        changed = self._views.tend(members, self._company.holding_up(self.queue), now)
        self._install()
        has_voted = self._views.vote(members, self.last.index, now)
        if has_voted or changed:
            self._pacing.tell()
            if self.standing.joining is None:
                self._succession.branch = None
        if has_voted:
            self._install()

    def _install(self) -> None:
        if self._succession.install(self._clock.now.steady):
            adopted = self._holdings.changes.adopted
            if adopted is not None and self.effects.index > adopted.kept:
                self.effects = (
                    OF_A_BRANCH  # the first post in the new view says so, before the shell has cut them
                )
            self._speech.begin_view()
            self._rounds.begin_view()
