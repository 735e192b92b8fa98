"""Copying: which effects are copied into this data centre's topic from another one's, and from which offset on.

All other data centres copy the home's effects or, while the home is out of reach, those of another data
centre that copies them.  The home copies from the data centre that has the duty, while that is another one.
Before the home hands over the duty in a new view, it copies from a data centre that has more of the effects
than the home itself.

A copy continues where the last copy of this view ended, if that was made from the same topic.  If it was made
from another topic, or the own worker has written effects since, the copy begins after the last effect that
both topics have: within one view, their effects belong to one history.  If the topic has no handover of this
view yet, the terms of both topics show up to where they are the same (`lineage`), and the first record
written is a rewind: what this data centre decided after that point belongs to another history.

A home may have given way before to a side that it then lost again: no data centre that is left has that
side's effects.  Such a home writes the rewind without copying, and continues after the last effect that
belongs to the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from consumers.effects import epoch_of, term_of
from quadlog.clock import wall
from quadlog.codec.envelope import (
    ATTEMPT,
    EVALUATED_IN,
    HANDOVER,
    INDEX,
    MIRRORED,
    REWIND,
    SEED,
    TERM,
    UNDECIDED,
)
from quadlog.core.model import GENESIS
from quadlog.core.records import Rewind
from quadlog.failpoints import Failpoint, visit
from quadlog.master.effects.lineage import follows, furthest, is_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from consumers.effects_ledger import EffectsLedger
    from producers.effects import EffectsMirror
    from quadlog.core.model import EffectsPosition, View
    from quadlog.core.records import Term
    from quadlog.ports import Record

log = structlog.get_logger()

AGAIN_MS: Final = 500.0
"""Milliseconds until a failed search is repeated."""


class CopiedPart(Enum):
    """Which records of a topic are copied."""

    HOME = "of the home, to follow it"
    COPY = "of another data centre that follows the home, while that is out of reach"
    DUTY = "of the data centre that has the duty, what was said there"
    REST = "of a data centre that has more than the new home, all of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsSource:
    """A topic to copy from, and which of its records to copy."""

    dc: str
    part: CopiedPart
    view: View
    """The view installed here."""
    start: int = 0
    """Offset in that topic after which a term begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStartQuery:
    """A request to find the offset at which copying begins."""

    source: EffectsSource
    terms: tuple[Term, ...]
    index: int
    """Index of the last own effect."""
    heard: int
    """Offset after the last own record that was heard; own records from there on were not heard yet."""
    is_exact: bool = False
    """True if all own records must be heard first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStart:
    """The answer to a `CopyStartQuery`."""

    source: EffectsSource
    offset: int | None
    """Offset of the first record to copy; None if it is not known yet."""
    fork: int | None = None
    """Index of the last effect that stays; None if all stay."""
    void: tuple[tuple[int, int], ...] = ()
    """First and last offsets of the ranges that the source topic has revoked since, each including its rewind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyingPorts:
    """Functions of the environment that copying needs."""

    find: Callable[[CopyStartQuery], None]
    """Searches for the offset to begin at, and has `EffectsCopying.found` called."""
    read: Callable[[str, int], None]
    """Starts to read the effects of a data centre at an offset."""
    leave: Callable[[str], None]
    """Stops reading the effects of a data centre."""
    newest_cut: Callable[[], int]
    """Returns the epoch of the newest cut that the agreed topic contains or will contain."""
    settle: Callable[[], None]
    """Waits until all produced records are acknowledged; for failpoints."""
    keeps_branches: Callable[[], bool] = lambda: False
    """Returns whether workers keep what they applied of a branch."""
    foresee: Callable[[], None] = lambda: None
    """Called if the own topic is full, before the first record that follows everything the topic holds."""


class EffectsCopying:
    """Copies effects into the own topic; for the master that leads.

    Owned by the node's thread; times are steady milliseconds.
    """

    def __init__(self, *, dc: str, ledger: EffectsLedger, mirror: EffectsMirror, reach: CopyingPorts) -> None:
        """Start without copying anything; `ledger` and `mirror` are those of the own topic."""
        self._dc, self._ledger, self._mirror, self._reach = dc, ledger, mirror, reach
        self._source: EffectsSource | None = None
        self._next: int | None = None
        """Offset of the next record to copy; None while it is searched for."""
        self._fork: int | None = None
        """Index of the rewind that must be written before the next record; None if no rewind is due."""
        self._void: tuple[tuple[int, int], ...] = ()
        self._is_asked, self._again_at = False, float("-inf")
        self._is_held = self._is_early = self._is_behind_rewind = False
        self._is_full = False
        self._back_in = 0
        """Epoch of the view in which own effects were last revoked without a source to copy."""

    def tick(
        self,
        view: View,
        moment: float,
        *,
        is_held: bool,
        heard: int,
        fork: int | None,
        others: Mapping[str, Iterable[EffectsPosition]],
        ways: Mapping[str, Sequence[str]],
        is_full: bool = False,
    ) -> bool:
        """Choose what to copy, and return whether this topic has all effects that a handover in this view must follow.

        Args:
            view: the installed view.
            moment: the current time.
            is_held: True if a vote was cast for another view: until that view is installed, nothing is added.
            heard: offset after the last record of the own topic that was heard.
            fork: index of the last own effect that belongs to the log, if later own effects are of a branch.
            others: effects as reported by the masters' posts, by data centre, for the other data centres of
                the view.
            ways: for each data centre out of reach, the data centres through which it is heard.
            is_full: True if the own topic accepts no records.

        """
        self._is_full = is_full
        if self._is_held and not is_held:
            self._go_on()
        self._is_held = is_held
        if view.home == self._dc and fork is not None:
            self._turn_to(None)
            if not is_held:
                self._go_back(view, fork)
            return False
        source = self._wanted(view, others, ways)
        if source != self._source:
            self._turn_to(source)
        is_due = self._next is None and not self._is_asked and moment >= self._again_at
        if source is not None and is_due and not is_held:
            self._is_asked, self._again_at = True, moment + AGAIN_MS
            self._reach.find(
                CopyStartQuery(
                    source=source,
                    terms=self._ledger.duty.terms,
                    index=self._ledger.index,
                    heard=heard,
                    is_exact=is_full,
                )
            )
        return source is None

    def _go_back(self, view: View, index: int) -> None:
        """Write a rewind to effect `index`: later effects of this home are of a branch, and the view's term follows."""
        if self._back_in == view.epoch:
            return
        self._back_in = view.epoch
        ledger, seed = self._ledger, self._ledger.seed
        log.info("rewind_written", to=index, effects=ledger.index, epoch=view.epoch)
        self._publish(
            Rewind(
                epoch=view.epoch,
                index=index,
                term=GENESIS,
                attempt=ledger.attempt,
                cut=self._reach.newest_cut(),
            )
        )
        if not index and seed is not None:
            self._mirror.publish_seed(seed, epoch=view.epoch)
        visit(Failpoint.REWIND_SAID, self._reach.settle)

    def _wanted(
        self, view: View, others: Mapping[str, Iterable[EffectsPosition]], ways: Mapping[str, Sequence[str]]
    ) -> EffectsSource | None:
        if not view.home:
            return None  # this master lost its disk, and is in no view yet
        source = partial(EffectsSource, view=view)
        if view.home != self._dc:
            for way in ways.get(view.home, ()):
                if any(follows(there, view) for there in others.get(way, ())):
                    return source(dc=way, part=CopiedPart.COPY)
            return source(dc=view.home, part=CopiedPart.HOME)
        duty = self._ledger.duty
        if not is_of(duty.terms, view):
            more = furthest(duty.terms, self._ledger.index, others)
            return None if more is None else source(dc=more[0], part=CopiedPart.REST)
        if duty.dc == self._dc:
            return None
        return source(dc=duty.dc, part=CopiedPart.DUTY, start=duty.start)

    def stop(self) -> None:
        """Stop copying: another master leads."""
        self._turn_to(None)

    def begin_again(self, dc: str | None = None) -> None:
        """Search again for the offset to continue at.

        `dc`: the data centre whose effects topic was re-created; None if the own topic accepted nothing.
        """
        if dc is None:
            self._back_in = 0  # that rewind may be missing in the topic, too
        if self._source is not None and dc in {None, self._source.dc}:
            self._turn_to(None)

    def _turn_to(self, source: EffectsSource | None) -> None:
        before, self._source = self._source, source
        goes_on = (
            before is not None
            and source is not None
            and (before.dc, before.part) == (source.dc, source.part)
            and source.part is CopiedPart.HOME
            and self._next is not None
            and self._fork is None
        )
        if goes_on:  # the same stream in a new view, and it contains that view's handover
            if self._is_early:
                self._go_on()
            return
        self._next, self._fork, self._is_early, self._is_behind_rewind = None, None, False, False
        self._is_asked, self._again_at = False, float("-inf")
        if before is not None and (source is None or source.dc != before.dc):
            self._reach.leave(before.dc)

    def _go_on(self) -> None:
        """Request the records again that arrived too early."""
        self._is_early = False
        if self._next is not None and self._source is not None:
            self._reach.read(self._source.dc, self._next)

    def found(self, found: CopyStart) -> None:
        """Begin to copy at the offset that was found."""
        if found.source != self._source or self._next is not None:
            return
        self._is_asked = False
        if found.offset is None:
            return
        self._next, self._fork, self._void = found.offset, found.fork, found.void
        if self._is_full:
            self._reach.foresee()
        log.info("effects_copying_started", dc=found.source.dc, offset=found.offset, fork=found.fork)
        self._reach.read(found.source.dc, found.offset)

    def on_record(self, dc: str, record: Record) -> None:
        """Copy a record of another data centre's effects into the own topic, once and in order."""
        source = self._source
        if source is None or dc != source.dc or record.offset != self._next or self._is_held:
            return  # already read, or read again
        if any(first <= record.offset <= last for first, last in self._void):
            self._next = record.offset + 1
            return
        self._next = record.offset + 1  # also if another program wrote it
        if record.number(REWIND) is not None:
            # Within a view a data centre follows the home before its workers decide anything in that view: what it
            # then writes as the one with the duty follows its rewind, and is not revoked by it.
            if source.part is not CopiedPart.DUTY or epoch_of(record) > source.view.epoch:
                self._turn_to(None)  # that topic was rewound: the offset must be found again
            return
        if record.header(HANDOVER) is not None and epoch_of(record) > source.view.epoch:
            self._is_early = True  # of a view that is not installed here, and may never be
            self._next = record.offset
            return
        if self._fork is not None:
            if all(record.header(name) is None for name in (HANDOVER, TERM, SEED)):
                return  # not a record of quadlog: it does not show what follows
            cut = self._reach.newest_cut()
            self._publish(_rewind(self._fork, record, epoch=source.view.epoch, cut=cut))
            visit(Failpoint.REWIND_SAID, self._reach.settle)
            self._fork, self._is_behind_rewind = None, True
        if self._wants(source, record):
            self._mirror.copy(record, origin=source.dc, epoch=source.view.epoch)
            visit(Failpoint.HALF_MIRROR, self._reach.settle)
            if self._is_behind_rewind:
                visit(Failpoint.HALF_BEHIND_REWIND, self._reach.settle)

    def _publish(self, rewind: Rewind) -> None:
        moment = wall()
        kept_at = moment if self._reach.keeps_branches() else None
        self._mirror.publish_rewind(replace(rewind, kept_at=kept_at), at=moment)

    def _wants(self, source: EffectsSource, record: Record) -> bool:
        """Return whether a record must be copied.

        From the home, or from a copy of its topic, records that were evaluated here in this view are skipped:
        they came from this topic.  From the data centre that has the duty, the home copies only records that
        are not copies themselves.
        """
        match source.part:
            case CopiedPart.HOME | CopiedPart.COPY:
                is_own = record.header(EVALUATED_IN) == self._dc.encode()
                return not (is_own and epoch_of(record) == source.view.epoch)
            case CopiedPart.DUTY:
                return record.header(MIRRORED) is None
            case CopiedPart.REST:
                return True


def _rewind(index: int, following: Record, *, epoch: int, cut: int) -> Rewind:
    """Return a rewind to effect `index`, after which the record `following` is written."""
    if following.header(HANDOVER) is not None:
        return Rewind(epoch=epoch, index=index, term=GENESIS, attempt=0, cut=cut)
    attempt = following.number(ATTEMPT) or 0
    if attempt and following.header(INDEX) is None and following.header(UNDECIDED) is None:
        attempt -= 1  # a fence begins its attempt
    return Rewind(epoch=epoch, index=index, term=term_of(following) or GENESIS, attempt=attempt, cut=cut)
