"""Joining: a stronger side's log is read in addition to the own one, until this master is let in and gives way to it.

The other side's agreed topic is read from after the fork, the last entry that both logs have.  The fork moves
forward as long as the entries read are in the own log, too: the topic may lag behind both logs.  Entries that
were read are made durable at once (`quadlog.masterstore.staged_log`) and passed to the agreement, which reports
the progress in every post.  A cut in the topic, where that side gave way itself, drops what was read after it.  If
something does not fit (a cut before the fork, the own log grew), joining starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from consumers import agreed
from consumers.agreed import AgreedConsumer
from quadlog.clock import now
from quadlog.core.messages import JoinedLogRead
from quadlog.core.model import LogPosition
from quadlog.core.records import Cut, LoggedEntry
from quadlog.failpoints import Failpoint, visit
from quadlog.master.topics.foreign_records import understood

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import View
    from quadlog.masterstore.staged_log import StagedLog
    from quadlog.ports import Record

log = structlog.get_logger()

AGAIN_MS: Final = 500.0
"""Milliseconds until a fork that could not be found is searched for again, in another data centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSide:
    """The log that is read."""

    view: View
    """View of the stronger side."""
    own: LogPosition
    """End of the own log."""
    dc: str
    """Data centre whose agreed topic is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkFound:
    """Where reading begins."""

    joined: JoinedSide
    fork: LogPosition | None
    """The last entry that both logs have; None if it could not be found."""
    offset: int = 0
    """Offset after that entry in the other topic."""
    cut: int = 1
    """Epoch of the newest cut before that offset: entries of smaller epochs are void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningPorts:
    """Functions of the environment that joining needs."""

    find: Callable[[JoinedSide], None]
    """Searches for the fork, and has `Joining.found` called."""
    read: Callable[[str, int], None]
    """Starts to read the agreed topic of a data centre at an offset."""
    leave: Callable[[str], None]
    """Stops reading it."""


class Joining:
    """Reads a stronger side's log.  Owned by the node's thread; times are steady milliseconds."""

    def __init__(
        self, agreement: Agreement, beside: StagedLog, dc_of: Mapping[str, str], reach: JoiningPorts
    ) -> None:
        """Start without reading; a log that was being read before a restart is read again."""
        self._agreement, self._beside, self._dc_of, self._reach = agreement, beside, dc_of, reach
        self._joined: JoinedSide | None = None
        self._consumer: AgreedConsumer | None = None
        self._next = 0
        self._read: list[LoggedEntry] = []
        self._shared: LogPosition | None = None
        """A fork, read in this turn, that is later than the one of the stored joined log."""
        self._is_apart = False
        """True if an entry was read that the own log does not have."""
        self._is_asked, self._again_at = False, float("-inf")
        self._tries = 0

    @property
    def fork(self) -> LogPosition | None:
        """The last entry that both logs have; None while no other log is read."""
        joined_log = self._beside.joined_log() if self._consumer is not None else None
        return joined_log.fork if joined_log is not None else None

    def tick(self, moment: float, *, unheard: Collection[str] = ()) -> None:
        """Start, continue or stop reading, as the agreement requires.

        `unheard`: data centres from whose topics nothing arrives: another topic is read if there is one.
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
            self._joined = JoinedSide(view=joining, own=own, dc=self._next_of(sources))
            self._is_asked, self._again_at = True, moment + AGAIN_MS
            self._reach.find(self._joined)

    def _sources(self, view: View, unheard: Collection[str]) -> list[str]:
        """Return the data centres to read from: the view's home and, if it is out of reach, others of the same side.

        The own data centre is used only if there is no other: its masters may be in different views for a
        moment.
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
        """Search for the fork again, because the agreed topic of a data centre was re-created."""
        if self._joined is not None and self._joined.dc == dc:
            self._stop()

    def found(self, forked: ForkFound) -> None:
        """Begin to read after the fork that was found."""
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

    def on_record(self, dc: str, record: Record) -> None:
        """Process a record of another data centre's agreed topic."""
        joined = self._joined
        if self._consumer is None or joined is None or dc != joined.dc or record.offset != self._next:
            return
        self._next += 1
        said = self._consumer.on_record(record)
        if isinstance(said, Cut):
            self._go_back(said)
        elif said is not None and not self._is_apart and self._has(said):
            self._shared = LogPosition(said.index, said.chain)
        elif said is not None:
            self._is_apart = True
            self._read.append(said)

    def _go_back(self, cut: Cut) -> None:
        """Drop what was read after the entry of a cut: that side gave way itself there.

        Before the fork, or at an entry of another log, the fork must be found again.
        """
        joined_log = self._beside.joined_log()
        assert joined_log is not None
        fork = self._shared or joined_log.fork
        chains = {entry.index: entry.chain for entry in self._read} | {fork.index: fork.chain}
        if cut.index < fork.index or (chains.get(cut.index) or joined_log.chain_at(cut.index)) != cut.chain:
            self._stop()
            return
        self._read = [entry for entry in self._read if entry.index <= cut.index]
        self._is_apart = cut.index > fork.index
        if joined_log.last.index > cut.index:
            self._beside.truncate(cut.index)
            self._tell()

    def _has(self, entry: LoggedEntry) -> bool:
        own = self._beside.entry(entry.index)
        return own is not None and own[0] == entry.chain

    def note(self) -> None:
        """Store what was read in this turn, and pass it to the agreement."""
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
        joined_log = self._beside.joined_log()
        assert joined_log is not None
        self._agreement.step(JoinedLogRead(joined_log=joined_log), now())


def fork_of(
    records: Iterable[Record], own: LogPosition, chain_at: Callable[[int], bytes | None]
) -> tuple[LogPosition, int, int] | None:
    """Return the last entry that both logs have, the offset after it in the other topic, and the newest cut before it.

    The offset is also after a cut at this very entry: a reader that began before the cut would read it and
    search again, endlessly.

    Args:
        records: the last records of the other agreed topic.
        own: end of the own log.
        chain_at: function that returns the chain hash of the own entry at an index.

    Returns:
        None if that entry precedes these records.

    """
    common: dict[int, tuple[LogPosition, int, int]] = {}
    epoch = 1
    for record, said in understood(records, lambda record: agreed.place_of(record, most=own.index)):
        if isinstance(said, Cut):
            common = {index: found for index, found in common.items() if index <= said.index}
            epoch = max(epoch, said.epoch)
            if said.index in common and common[said.index][0].chain == said.chain:
                common[said.index] = (common[said.index][0], record.offset + 1, epoch)
        elif said is not None and chain_at(said.index) == said.chain:
            # A repetition is ignored.
            common.setdefault(said.index, (said.point, record.offset + 1, epoch))
    return common[max(common)] if common else None
