"""Agreement of many masters on one order: POST, COLLECT, ADD, MERGE.

Performs no I/O: the shell passes inputs to `Agreement.step` and then takes one `Ready`, whose
order of work is a contract.  The protocol is TxLog's: every master posts its incoming
queue; the common prefix of all queues *as posted*, up to the least counter, is synchronised.

    POST      merge base, counter, what is new in the incoming queue (acquired transactions only): `post_builder`
    COLLECT   the newest post of every member of the view: `rounds`
    ADD       the longest common prefix of the posted queues, up to the least counter: `rounds`
    MERGE     all pairs that were not known yet: `rounds`

Other modules: `progress_tracker` (known posts of the others), `pacing` (when to post), `views` (the members and how
they change), `view_change` (from one view to the next), `local_state` (queue, log, and what must be saved).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from quadlog.core.agreement.cluster_view import ClusterView, KnownMaster
from quadlog.core.agreement.limbo import LimboDecider
from quadlog.core.agreement.local_state import LocalState
from quadlog.core.agreement.pacing import Clock, Pacing
from quadlog.core.agreement.post_builder import PostBuilder
from quadlog.core.agreement.progress_tracker import ProgressTracker
from quadlog.core.agreement.read_index import ReadIndex
from quadlog.core.agreement.rounds import Rounds
from quadlog.core.agreement.shared import Shared
from quadlog.core.agreement.view_change import ViewChange
from quadlog.core.membership.incarnations import first_standing
from quadlog.core.membership.views import Views
from quadlog.core.messages import (
    Acquired,
    AgreementLimits,
    FoundSynchronous,
    JoinedLogRead,
    LocalStatus,
    Now,
    PostingPace,
    PostReceived,
    Promoted,
    Ready,
    RecoveredState,
    Save,
    Submitted,
    Tick,
    Voided,
)
from quadlog.core.model import OF_A_BRANCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.agreement.limbo import Limbo
    from quadlog.core.cluster_settings import ClusterSettings
    from quadlog.core.messages import Input, LoggedDigests
    from quadlog.core.model import Entry, HardState, LogPosition, Peer, Post, Transaction, View
    from quadlog.core.queues.progress import Progress


class Agreement:
    """One master's part in the agreement.  Used by one thread only."""

    def __init__(
        self,
        *,
        node: str,
        incarnation: bytes,
        masters: Mapping[str, str],
        durable: RecoveredState,
        logged: LoggedDigests,
        settings: ClusterSettings,
        pace: PostingPace,
        limits: AgreementLimits,
        witnesses: frozenset[str] = frozenset(),
    ) -> None:
        """Start, or continue after a restart.

        Args:
            node: this master's id, one of `masters`; a blank master may be missing there.
            incarnation: this master's incarnation: 16 bytes, see `new_incarnation`.
            masters: data centre of each peer of the settings.
            durable: the state saved last.
            logged: digests of all synchronised transactions up to `durable.last`; may lack
                what this object appends.
            settings: the settings that all masters share, as the file of this one has them.
            pace: intervals of posts.
            limits: sizes of posts and turns.
            witnesses: data centres that evaluate nothing, by the settings; the same at all masters.

        """
        self.node: Final = node
        self.incarnation: Final = incarnation
        self.pace: Final = pace
        self._views: Final = Views(
            node,
            masters,
            durable.standing or first_standing(node, incarnation, masters, witnesses, blank=durable.blank),
            settings=settings,
            near=limits.near,
            idle=pace.idle,
            put_off=pace.put_off,
            witnesses=witnesses,
        )
        self._clock: Final = Clock(durable.counter)
        self._pacing: Final = Pacing(pace, lambda: self._views.settings.lag_ms(pace.idle))
        self._local_state: Final = LocalState(durable, logged=logged, length=limits.post)
        self.queue: Final = self._local_state.queue
        self._progress: Final = ProgressTracker(node, self._views)
        self.ignored: Final = self._progress.ignored
        shared = Shared(
            node=node,
            views=self._views,
            progress=self._progress,
            local_state=self._local_state,
            clock=self._clock,
            pacing=self._pacing,
            limits=limits,
        )
        self._post_builder: Final = PostBuilder(shared, incarnation, durable.sequence)
        self._rounds: Final = Rounds(shared, offer=self._post_builder.offer)
        self._decider: Final = LimboDecider(shared, self._local_state.limbo)
        self._read_index: Final = ReadIndex(shared)
        self._view_change: Final = ViewChange(shared)
        self._post_due: Post | None = None
        self._saved = durable.standing

    # --- state for the shell ----------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The installed view."""
        return self._views.view

    @property
    def standing(self) -> HardState:
        """Membership state of this master."""
        return self._views.standing

    @property
    def is_blank(self) -> bool:
        """True if this master lost its disk: it takes part in nothing until it is admitted."""
        return not self.view.members

    @property
    def is_peer(self) -> bool:
        """True if this master is a peer, as far as it knows; otherwise it accepts no writes."""
        return self._views.is_peer

    @property
    def peers(self) -> tuple[Peer, ...]:
        """The masters that may be members of a view, as far as this master knows."""
        return self._views.peers

    @property
    def has_majority(self) -> bool:
        """True if the members of the view that are not blank are more than half of all data centres."""
        return self._views.is_majority(self.view)

    @property
    def settings(self) -> ClusterSettings:
        """The settings that all masters share, as they count here."""
        return self._views.settings

    @property
    def may_agree(self) -> bool:
        """False if this side adds nothing to the log, because it waits for a majority."""
        return self._views.may_agree

    def cluster(self) -> ClusterView:
        """Return the cluster as this master knows it now, for other threads."""
        members = self._progress.members
        return ClusterView(
            node=self.node,
            standing=self.standing,
            peers=self.peers,
            undecided=self._views.undecided,
            is_peer=self.is_peer,
            has_majority=self.has_majority,
            is_half=not self.has_majority and self._views.electorate.vouches(self.view),
            may_agree=self.may_agree,
            held=self._views.held,
            settings=self.settings,
            limbo=self._decider.view(),
            last=self.last,
            incoming=len(self.queue),
            beside=self.beside,
            is_branch=self._post_builder.status.effects == OF_A_BRANCH,
            masters={
                name: KnownMaster(one.base, one.incarnation, one.said.rejoined if one.said else None)
                for name, one in members.items()
            },
            heard_at=dict(self.heard_at),
            last_heard=self._views.failure_detector.last_heard(self.view),
            ignored=dict(self.ignored),
            idle=self.pace.idle,
        )

    def confirms(self, entry: Entry) -> bool:
        """Return whether the view in which this master appended an entry holds a majority of the voting data centres.

        If so, all that any majority had agreed before the transaction was submitted precedes the entry: each
        member of the view has posted it since, and every other majority includes one of them.  For an entry
        that was adopted with a stronger side's log the result means nothing.
        """
        return self._views.is_majority(entry.view)

    def read_index(self, barrier: int) -> int:
        """Return the index that a worker must show for a strict read with a barrier at an index: see `ReadIndex`."""
        return self._read_index.behind(barrier)

    @property
    def known_outcomes(self) -> int:
        """Index up to which the shell knows the outcomes of synchronous transactions: `LocalStatus.known`."""
        return self._post_builder.status.known

    @property
    def limbo(self) -> Limbo:
        """The synchronous transactions that are agreed and not decided."""
        return self._local_state.limbo

    @property
    def effects_confirmed(self) -> int:
        """Index up to which enough data centres have the effects in their topics for synchronous transactions.

        These are a majority, and `synchro-quorum`.  0: not known.
        """
        return self._decider.effects_confirmed(self._post_builder.status.effects)

    @property
    def heard_at(self) -> Mapping[str, float]:
        """Time at which each other master was last heard, in milliseconds of the steady clock."""
        return self._views.failure_detector.heard_at

    @property
    def beside(self) -> LogPosition | None:
        """Position up to which the log of the side that this master is joining was read."""
        return self._view_change.beside

    @property
    def counter(self) -> int:
        """The last reading of this master's clock."""
        return self._clock.counter

    @property
    def last(self) -> LogPosition:
        """End of the synchronised queue: the merge base of the next post."""
        return self._local_state.log.last

    @property
    def members(self) -> Mapping[str, Progress]:
        """Known state of each master that has posted, including this one."""
        return self._progress.members

    @property
    def wake_at(self) -> float:
        """Time at which the next `Tick` is due, in milliseconds of the steady clock."""
        return min(self._pacing.wake_at, self._decider.wake_at)

    @property
    def settled(self) -> int:
        """Index up to which no entry is ever cut here: all members of a view that holds a majority have these entries.

        0: no such entry is known.
        """
        members = self._progress.in_view()
        if members is None or not self.has_majority:
            return 0
        return min(member.said.base.index for member in members if member.said is not None)

    def is_synchronised(self, transaction_id: bytes) -> bool:
        """Return whether a transaction of this id is in the synchronised queue, saved or about to be saved."""
        return transaction_id in self._local_state.log

    def needs_payload(self, key: tuple[bytes, bytes]) -> bool:
        """Return whether a payload is not here and may be needed.

        So may a twin: a payload whose id is synchronised with another one.  That entry may be cut while the twin waits
        on the stronger side.
        """
        if self.queue.has_payload(key):
            return False
        log = self._local_state.log
        digest = log.digest(key[0])
        return digest is None or (digest != key[1] and self.settled < log.last.index)

    # --- inputs in, one Ready out -----------------------------------------------------------------

    def step(self, given: Input, now: Now) -> None:
        """Process one input."""
        self._clock.now = now
        self._views.failure_detector.wake(now.steady)
        self._local_state.begin_turn()
        match given:
            case Submitted(transaction=transaction):
                self._acquire(transaction)
                if not self.is_synchronised(transaction.id):
                    self._rounds.submit(transaction)
            case Acquired(transaction=transaction):
                self._acquire(transaction)
            case PostReceived(post=post):
                self._collect(post)
            case JoinedLogRead(joined_log=joined_log):
                self._view_change.joined_log = joined_log
                self._pacing.note_news()
                self._install()
            case Voided(node=node, incarnation=incarnation):
                if self._progress.void(node, incarnation):
                    self._govern()
            case FoundSynchronous() | Promoted() | LocalStatus():
                self._note(given)
            case Tick():
                self._tick()
            case _:
                assert_never(given)

    def _note(self, given: FoundSynchronous | Promoted | LocalStatus) -> None:
        """Note what the shell knows of effects, of its own data centre, and of operators."""
        if isinstance(given, LocalStatus):
            self._report(given)
        elif isinstance(given, Promoted):
            self._decider.hurries_until = given.until
        elif self._local_state.limbo.found(given.point, given.id, self._clock.now.steady):
            self._pacing.note_news()

    def _tick(self) -> None:
        if self._clock.now.steady >= self._pacing.tend_at:
            self._govern()
        if self._pacing.has_more:
            self._rounds.add()

    def ready(self) -> Ready | None:
        """Return all work that the inputs since the last call require, or None.

        Posting is decided here, so that one post answers any number of inputs.  Pairs that are only merged
        wait for the next post: until then nothing is promised to any master.
        """
        self._propose()
        if self._clock.now.steady >= self._pacing.post_at:
            self._post_due = self._post_builder.post(self.beside)
            self._rounds.add()
        changes, post = self._local_state.changes, self._post_due
        if not changes.entries and post is None and changes.adopted is None:
            return None
        if self._local_state.has_twins:
            self._local_state.release_twins(self.settled)
        self._local_state.take_changes()
        self._post_due = None
        save = Save(
            counter=self.counter,
            sequence=self._post_builder.sequence,
            standing=None if self.standing is self._saved else self.standing,
            adopted=changes.adopted,
            acquired=tuple(changes.acquired),
            enqueued=tuple(changes.enqueued),
            dequeued=tuple(changes.dequeued),
            entries=tuple(changes.entries),
            released=tuple(changes.released),
            limbo=self._local_state.limbo.begins_at,
        )
        self._saved = self.standing
        return Ready(save=save, entries=save.entries, post=post)

    def _propose(self) -> None:
        """Propose to decide what is undecided, if that is due."""
        limbo = self._local_state.limbo
        if limbo.begins_at:
            limbo.settle(min(self.settled, self._post_builder.status.known))
        decision = self._decider.proposal(self._clock.now.steady)
        if decision is not None:
            self._rounds.propose(decision)

    # --- transactions and their payloads ----------------------------------------------------------

    def _acquire(self, transaction: Transaction) -> None:
        if not self.needs_payload(transaction.key):
            return
        if self.is_synchronised(transaction.id):
            self._local_state.acquire_twin(transaction)
        else:
            self._rounds.acquire(transaction)
        if self._view_change.may_wait_for(transaction.id):
            self._install()

    # --- COLLECT ----------------------------------------------------------------------------------

    def _collect(self, post: Post) -> None:
        if post.node == self.node:
            return
        member = self._progress.recognised(post)
        if member is None:
            # A removed master may request a snapshot, to learn of its removal.
            self._post_builder.on_post(post)
            return
        if member.heard >= post.sequence:
            return  # received before, or out of date
        before = member.said
        self._clock.pass_by(post.highest)
        self._views.failure_detector.on_post(post, self.view, self._clock.now.steady)
        self._rounds.collect(member, post)
        self._post_builder.on_post(post)
        if self._views.is_moved_by(post, before):
            self._govern()
        self._rounds.add()

    # --- views ------------------------------------------------------------------------------------

    def _report(self, status: LocalStatus) -> None:
        adopted = self._local_state.changes.adopted
        if adopted is not None and status.effects.index > adopted.kept:
            # The first post in the new view reports this, before the shell has truncated what it follows.
            status = replace(status, effects=OF_A_BRANCH)
        self._post_builder.report(status)
        self._views.view_election.status = status
        if status.effects != OF_A_BRANCH:
            self._local_state.limbo.evaluated(status.effects.index)

    def _govern(self) -> None:
        """Update the membership: missing members, a side to join, votes."""
        now, members = self._clock.now.steady, self._progress.members
        self._pacing.tended(now)
        holding_up = self._progress.holding_up(self.queue)
        changed = self._views.tick(members, holding_up, now, last=self.last.index)
        self._install()
        has_voted = self._views.vote(members, self.last.index, now)
        if has_voted or changed:
            self._pacing.note_news()
            if self.standing.joining is None:
                self._view_change.joined_log = None
        if has_voted:
            self._install()

    def _install(self) -> None:
        if self._view_change.install(self._clock.now.steady):
            self._report(self._post_builder.status)
            self._read_index.begin_view()
            self._post_builder.begin_view()
            self._rounds.begin_view()
