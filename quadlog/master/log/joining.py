"""Joining: a stronger side's log is read beside the own one, until this master is let in and gives way to it.

Their agreed topic is read from behind the last entry that both logs have, the fork.  It moves forward while what is
read stands in the own log, too: their topic may lag behind both logs.  What was read is durable at once
(`quadlog.masterstore.beside`), and told to the agreement, which says how far it is in every post.  Whatever does not
fit (their topic goes back itself, the own log grew) has it begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from consumers import agreed
from consumers.agreed import AgreedConsumer
from quadlog.clock import now
from quadlog.core.messages import Followed
from quadlog.core.model import Point
from quadlog.core.records import Cut, LoggedEntry
from quadlog.failpoints import Failpoint, visit
from quadlog.master.topics.foreign import understood

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import View
    from quadlog.masterstore.beside import Beside
    from quadlog.ports import Record

log = structlog.get_logger()

AGAIN_MS: Final = 500.0
"""Until a fork that could not be found is looked for again, in another data centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Whose log is read."""

    view: View
    """The stronger side's."""
    own: Point
    """The end of the own log."""
    dc: str
    """Whose agreed topic is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """Where to begin."""

    joined: Joined
    fork: Point | None
    """The last entry that both logs have; None: it could not be found."""
    offset: int = 0
    """Behind it in their topic."""
    cut: int = 1
    """Epoch of the newest cut before that: entries of smaller ones are void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What joining needs of the world."""

    find: Callable[[Joined], None]
    """Looks for the fork; `Joining.found` is told."""
    read: Callable[[str, int], None]
    """Has the agreed topic of a data centre read from an offset on."""
    leave: Callable[[str], None]
    """Has it read no more."""


class Joining:
    """Owned by the node's thread; times are steady milliseconds."""

    def __init__(self, agreement: Agreement, beside: Beside, dc_of: Mapping[str, str], reach: Reach) -> None:
        """Nothing is read; what was read before a restart is read again.

        Args:
            agreement: says whom to join, and is told how far.
            beside: keeps what was read.
            dc_of: every master's data centre.
            reach: what joining needs.

        """
        self._agreement, self._beside, self._dc_of, self._reach = agreement, beside, dc_of, reach
        self._joined: Joined | None = None
        self._consumer: AgreedConsumer | None = None
        self._next = 0
        self._read: list[LoggedEntry] = []
        self._shared: Point | None = None
        """A later fork than the branch was begun with, heard in this turn."""
        self._is_apart = False
        """Whether anything was read that the own log does not have."""
        self._is_asked, self._again_at = False, float("-inf")
        self._tries = 0

    @property
    def fork(self) -> Point | None:
        """The last entry that both logs have, while another one is read."""
        branch = self._beside.branch() if self._consumer is not None else None
        return branch.fork if branch is not None else None

    def tend(self, moment: float, *, unheard: Collection[str] = ()) -> None:
        """See whom to join.

        Args:
            moment: now.
            unheard: data centres out of whose topics nothing comes: their logs are read elsewhere, if there is another.

        """
        joining, own = self._agreement.standing.joining, self._agreement.last
        joined = self._joined
        if joining is None:
            if joined is not None:
                self._stop()
            return
        sources = self._sources(joining, unheard)
        if joined is None or (joined.view, joined.own) != (joining, own) or joined.dc not in sources:
            self._stop()
        if self._consumer is None and not self._is_asked and moment >= self._again_at:
            self._joined = Joined(view=joining, own=own, dc=self._next_of(sources))
            self._is_asked, self._again_at = True, moment + AGAIN_MS
            self._reach.find(self._joined)

    def _sources(self, view: View, unheard: Collection[str]) -> list[str]:
        """The home's topic first; where that is out of reach another one's of the same side.

        The own one where there is no other: masters of one data centre may stand apart for a moment.
        """
        here = self._dc_of[self._agreement.node]
        others = sorted({self._dc_of[name] for name in view.members} - {view.home, here})
        sources = [dc for dc in (view.home, *others) if dc != here] or [here]
        return [dc for dc in sources if dc not in unheard] or sources

    def _next_of(self, sources: Sequence[str]) -> str:
        self._tries += 1
        return sources[(self._tries - 1) % len(sources)]

    def _stop(self) -> None:
        if self._joined is not None and self._consumer is not None:
            self._reach.leave(self._joined.dc)
        self._joined = self._consumer = None
        self._read, self._shared = [], None
        self._is_asked, self._again_at = False, float("-inf")

    def begin_again(self, dc: str) -> None:
        """The agreed topic of a data centre was made anew: where the logs part has to be found again."""
        if self._joined is not None and self._joined.dc == dc:
            self._stop()

    def found(self, forked: Forked) -> None:
        """Where to begin."""
        if forked.joined != self._joined or self._consumer is not None:
            return
        self._is_asked = False
        if forked.fork is None:
            return
        joined, fork = forked.joined, forked.fork
        log.info("join_started", dc=joined.dc, fork=fork.index, own=joined.own.index)
        self._beside.begin(fork, joined.view.id, joined.own)
        visit(Failpoint.BESIDE_BEGUN)
        self._consumer, self._next = AgreedConsumer(fork, cut=forked.cut), forked.offset
        self._is_apart = False
        self._reach.read(joined.dc, forked.offset)
        self._tell()

    def hear(self, dc: str, record: Record) -> None:
        """A record of another data centre's agreed topic."""
        joined = self._joined
        if self._consumer is None or joined is None or dc != joined.dc or record.offset != self._next:
            return
        self._next += 1
        said = self._consumer.hear(record)
        if isinstance(said, Cut):
            self._stop()  # that side gave way itself: where the logs part is to be found anew
        elif said is not None and not self._is_apart and self._has(said):
            self._shared = Point(said.index, said.chain)
        elif said is not None:
            self._is_apart = True
            self._read.append(said)

    def _has(self, entry: LoggedEntry) -> bool:
        own = self._beside.entry(entry.index)
        return own is not None and own[0] == entry.chain

    def note(self) -> None:
        """Keep what was heard in this turn, and tell the agreement."""
        joined, shared, self._shared = self._joined, self._shared, None
        if joined is not None and shared is not None and self._agreement.standing.joining is not None:
            self._beside.begin(shared, joined.view.id, joined.own)
            self._tell()
        if self._read:
            read, self._read = self._read, []
            self._beside.add(read)
            visit(Failpoint.HALF_BESIDE)
            self._tell()

    def _tell(self) -> None:
        branch = self._beside.branch()
        assert branch is not None
        self._agreement.step(Followed(branch=branch), now())


def fork_of(
    records: Iterable[Record], own: Point, chain_at: Callable[[int], bytes | None]
) -> tuple[Point, int, int] | None:
    """The last entry that both logs have, the offset behind it in their topic, and the newest cut before that.

    Behind a cut at this very entry, too: whoever began before it would meet it, and search again, without end.

    Args:
        records: the last ones of their agreed topic.
        own: the end of the own log.
        chain_at: chain hash of the own entry at an index.

    Returns:
        None if it stands before these records.

    """
    common: dict[int, tuple[Point, int, int]] = {}
    epoch = 1
    for record, said in understood(records, lambda record: agreed.place_of(record, most=own.index)):
        if isinstance(said, Cut):
            common = {index: found for index, found in common.items() if index <= said.index}
            epoch = max(epoch, said.epoch)
            if said.index in common and common[said.index][0].chain == said.chain:
                common[said.index] = (common[said.index][0], record.offset + 1, epoch)
        elif said is not None and chain_at(said.index) == said.chain:
            # Said again, it is passed over.
            common.setdefault(said.index, (said.point, record.offset + 1, epoch))
    return common[max(common)] if common else None
