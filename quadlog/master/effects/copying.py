"""Copying: the effects that come into this data centre's topic from another one's, and from where on.

All others copy the home's or, while that is out of reach, another one's that does.  The home copies from the data
centre that has the duty, while another one has it; and before it hands the duty over in a new view, from whoever has
more of the effects than it has itself.

A copy begins where the last one of this view ended, if that was of the same topic.  If it was of another one, or the
own worker has said more since, it begins behind the last effect that both have: in one view they are of one history.
Where there is none yet, both topics' terms tell up to where they are the same (`lineage`), and the first thing that is
said is a rewind: what this data centre decided behind that is of another history.

A home may have given way before, to a side that it lost again: nobody is left then that has that side's effects.  It
says the rewind by itself, and goes on behind the last effect that is one of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from consumers.effects import epoch_of, term_of
from quadlog.clock import wall
from quadlog.codec.envelope import ATTEMPT, EVALUATED_IN, HANDOVER, INDEX, MIRRORED, REWIND, SEED, TERM
from quadlog.core.model import GENESIS
from quadlog.core.records import Rewind
from quadlog.failpoints import Failpoint, visit
from quadlog.master.effects.lineage import follows, furthest, is_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from consumers.effects_ledger import EffectsLedger
    from producers.effects import EffectsMirror
    from quadlog.core.model import Held, View
    from quadlog.core.records import Term
    from quadlog.ports import Record

log = structlog.get_logger()

AGAIN_MS: Final = 500.0
"""Until what could not be found is looked for again."""


class Part(Enum):
    """What is copied of a topic."""

    HOME = "of the home, to follow it"
    COPY = "of another data centre that follows the home, while that is out of reach"
    DUTY = "of the data centre that has the duty, what was said there"
    REST = "of whoever has more than the new home, all of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is copied."""

    dc: str
    part: Part
    epoch: int
    """Of the view installed here."""
    term: bytes
    """The view's: another branch may have a view of the same epoch."""
    start: int = 0
    """Offset behind which a term begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where is copying to begin?"""

    source: Source
    terms: tuple[Term, ...]
    index: int
    """Of the last own effect."""
    heard: int
    """Offset behind the last own record that was heard: whoever stands beyond it was not heard yet."""
    is_exact: bool = False
    """Whether all own records have to be heard first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An answer."""

    source: Source
    offset: int | None
    """Of the first record to copy; None: it is not known yet."""
    fork: int | None = None
    """Index of the last effect that stays; None: all do."""
    void: tuple[tuple[int, int], ...] = ()
    """First and last offsets of what that topic has taken back itself since, with the rewinds that say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What copying needs of the world."""

    find: Callable[[Wanted], None]
    """Looks where to begin; `Copying.found` is told."""
    read: Callable[[str, int], None]
    """Has the effects of a data centre read from an offset on."""
    leave: Callable[[str], None]
    """Has the effects of a data centre read no more."""
    newest_cut: Callable[[], int]
    """Epoch of the newest cut that the agreed topic has or is to have."""
    settle: Callable[[], None]
    """Waits until all that was said is acknowledged; for failpoints."""
    foresee: Callable[[], None] = lambda: None
    """Is called where the own topic is full, before what is said behind all that it has."""


class Copying:
    """For the master that leads.  Owned by the node's thread; times are steady milliseconds."""

    def __init__(self, *, dc: str, ledger: EffectsLedger, mirror: EffectsMirror, reach: Reach) -> None:
        """Begin by copying nothing.

        Args:
            dc: this data centre.
            ledger: follows the own topic.
            mirror: writes to it.
            reach: what copying needs.

        """
        self._dc, self._ledger, self._mirror, self._reach = dc, ledger, mirror, reach
        self._source: Source | None = None
        self._next: int | None = None
        """Offset of the next record to copy; None: it is looked for."""
        self._fork: int | None = None
        """A rewind to there is to be said before the next record."""
        self._void: tuple[tuple[int, int], ...] = ()
        self._is_asked, self._again_at = False, float("-inf")
        self._is_held = self._is_early = self._is_behind_rewind = False
        self._is_full = False
        self._back_in = 0
        """Epoch of the view in which the own effects were last taken back without any to copy."""

    def tend(
        self,
        view: View,
        moment: float,
        *,
        is_held: bool,
        heard: int,
        fork: int | None,
        others: Mapping[str, Iterable[Held]],
        ways: Mapping[str, Sequence[str]],
        is_full: bool = False,
    ) -> bool:
        """See what is to be copied; whether all is here that a handover in this view begins behind.

        Args:
            view: installed here.
            moment: now.
            is_held: whether a vote was cast for another one: until that is installed nothing is added.
            heard: offset behind the last record of the own topic that was heard.
            fork: index of the last own effect that is one of the log, where those behind it are of a branch.
            others: of the other data centres of the view what their masters' posts say of effects.
            ways: by way of which data centres those are heard of that are out of reach.
            is_full: whether the own topic takes no records.

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
                Wanted(
                    source=source,
                    terms=self._ledger.duty.terms,
                    index=self._ledger.index,
                    heard=heard,
                    is_exact=is_full,
                )
            )
        return source is None

    def _go_back(self, view: View, index: int) -> None:
        """The home's own effects behind that one are of a branch: they are taken back, and the view's term follows."""
        if self._back_in == view.epoch:
            return
        self._back_in = view.epoch
        ledger, seed = self._ledger, self._ledger.seed
        log.info("rewind_written", to=index, effects=ledger.index, epoch=view.epoch)
        rewind = Rewind(
            epoch=view.epoch, index=index, term=GENESIS, attempt=ledger.attempt, cut=self._reach.newest_cut()
        )
        self._mirror.rewind(rewind, at=wall())
        if not index and seed is not None:
            self._mirror.sow(seed, epoch=view.epoch)
        visit(Failpoint.REWIND_SAID, self._reach.settle)

    def _wanted(
        self, view: View, others: Mapping[str, Iterable[Held]], ways: Mapping[str, Sequence[str]]
    ) -> Source | None:
        if not view.home:
            return None  # this master lost its disk, and is in no view yet
        source = partial(Source, epoch=view.epoch, term=view.id)
        if view.home != self._dc:
            for way in ways.get(view.home, ()):
                if any(follows(there, view) for there in others.get(way, ())):
                    return source(dc=way, part=Part.COPY)
            return source(dc=view.home, part=Part.HOME)
        duty = self._ledger.duty
        if not is_of(duty.terms, view):
            more = furthest(duty.terms, self._ledger.index, others)
            return None if more is None else source(dc=more[0], part=Part.REST)
        if duty.dc == self._dc:
            return None
        return source(dc=duty.dc, part=Part.DUTY, start=duty.start)

    def stop(self) -> None:
        """Another master leads."""
        self._turn_to(None)

    def begin_again(self, dc: str | None = None) -> None:
        """Where to go on has to be found: effects of a data centre were made anew, or the own ones took nothing."""
        if dc is None:
            self._back_in = 0  # that may not be there either
        if self._source is not None and dc in {None, self._source.dc}:
            self._turn_to(None)

    def _turn_to(self, source: Source | None) -> None:
        before, self._source = self._source, source
        goes_on = (
            before is not None
            and source is not None
            and (before.dc, before.part) == (source.dc, source.part)
            and source.part is Part.HOME
            and self._next is not None
            and self._fork is None
        )
        if goes_on:  # the same stream in a new view: its handover comes with it
            if self._is_early:
                self._go_on()
            return
        self._next, self._fork, self._is_early, self._is_behind_rewind = None, None, False, False
        self._is_asked, self._again_at = False, float("-inf")
        if before is not None and (source is None or source.dc != before.dc):
            self._reach.leave(before.dc)

    def _go_on(self) -> None:
        """Have read again what came too early."""
        self._is_early = False
        if self._next is not None and self._source is not None:
            self._reach.read(self._source.dc, self._next)

    def found(self, found: Found) -> None:
        """Where to begin."""
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

    def hear(self, dc: str, record: Record) -> None:
        """A record of another data centre's effects: into the own topic, once, in order."""
        source = self._source
        if source is None or dc != source.dc or record.offset != self._next or self._is_held:
            return  # read before, or again
        if any(first <= record.offset <= last for first, last in self._void):
            self._next = record.offset + 1
            return
        self._next = record.offset + 1  # also where another program wrote it
        if record.number(REWIND) is not None:
            self._turn_to(None)  # that topic goes back itself: where to go on has to be found anew
            return
        if record.header(HANDOVER) is not None and epoch_of(record) > source.epoch:
            self._is_early = True  # of a view that is not installed here, and may never be
            self._next = record.offset
            return
        if self._fork is not None:
            if all(record.header(name) is None for name in (HANDOVER, TERM, SEED)):
                return  # no word of quadlog's: it does not tell what follows
            cut = self._reach.newest_cut()
            self._mirror.rewind(_rewind(self._fork, record, epoch=source.epoch, cut=cut), at=wall())
            visit(Failpoint.REWIND_SAID, self._reach.settle)
            self._fork, self._is_behind_rewind = None, True
        if self._wants(source, record):
            self._mirror.copy(record, origin=source.dc, epoch=source.epoch)
            visit(Failpoint.HALF_MIRROR, self._reach.settle)
            if self._is_behind_rewind:
                visit(Failpoint.HALF_BEHIND_REWIND, self._reach.settle)

    def _wants(self, source: Source, record: Record) -> bool:
        """What was said here came from here; the home copies what was said where the duty is."""
        match source.part:
            case Part.HOME | Part.COPY:
                is_own = record.header(EVALUATED_IN) == self._dc.encode()
                return not (is_own and epoch_of(record) == source.epoch)
            case Part.DUTY:
                return record.header(MIRRORED) is None
            case Part.REST:
                return True


def _rewind(index: int, following: Record, *, epoch: int, cut: int) -> Rewind:
    """Back to an effect; behind it stands this record."""
    if following.header(HANDOVER) is not None:
        return Rewind(epoch=epoch, index=index, term=GENESIS, attempt=0, cut=cut)
    attempt = following.number(ATTEMPT) or 0
    if attempt and following.header(INDEX) is None:
        attempt -= 1  # a fence begins its attempt
    return Rewind(epoch=epoch, index=index, term=term_of(following) or GENESIS, attempt=attempt, cut=cut)
