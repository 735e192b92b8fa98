"""Two logs that part, one of them in a master's store and the other one beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.messages import Adopted, Save
from quadlog.core.model import HardState, LogPosition, Pair, Payload, View
from quadlog.core.records import Reached
from quadlog.master.log.log_publisher import logged_entry
from quadlog.masterstore.store import MasterStore, Taken
from tests.support.masters.master_stores import entries_of, payload_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.model import Entry
    from quadlog.core.records import LoggedEntry

JOINED = View(epoch=4, members=("m1", "m2"), parent=bytes([7]) * 32, home="dc1")


class Logs:
    """An own log 1..5, and another one that is the same up to 3: its transactions are 1, 2, 3, 14, 5, 16."""

    def __init__(self) -> None:
        """Payloads have the numbers of their transactions."""
        self.own = [payload_of(number) for number in (1, 2, 3, 4, 5)]
        self.theirs = [payload_of(number) for number in (1, 2, 3, 14, 5, 16)]
        self.entries = entries_of(self.own)
        self.others = entries_of(self.theirs)
        self.payloads = {payload.transaction.key: payload for payload in (*self.own, *self.theirs)}

    @property
    def said(self) -> list[LoggedEntry]:
        """What their agreed topic says behind the fork."""
        return [logged_entry(entry, self.payloads[entry.pair.key]) for entry in self.others[3:]]

    def save(
        self,
        store: MasterStore,
        *,
        adopted: Adopted | None = None,
        acquired: Sequence[Payload] = (),
        enqueued: Sequence[Pair] = (),
        entries: Sequence[Entry] = (),
        taken: Taken | None = None,
        held: int = 0,
        unneeded: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """One round; whoever adopts installs `JOINED`."""
        store.save(
            Save(
                counter=1,
                sequence=1,
                standing=None if adopted is None else HardState(view=JOINED, promise=4),
                adopted=adopted,
                acquired=tuple(payload.transaction for payload in acquired),
                enqueued=tuple(enqueued),
                dequeued=(),
                entries=tuple(entries),
                released=(),
            ),
            payloads=self.payloads,
            taken=taken or Taken(positions={}, effects=(0, 0, 0), rejected={}, reached=Reached(held=held)),
            unneeded=unneeded,
        )

    def saved(self, store: MasterStore) -> None:
        """The own log, with its payloads."""
        self.save(store, acquired=self.own, entries=self.entries)

    @property
    def fork(self) -> LogPosition:
        """The last entry that both have."""
        return self.entries[2].point

    def begin(self, store: MasterStore, *, entries: int = 3) -> None:
        """Read some of the other log beside."""
        store.beside.begin(self.fork, JOINED.id, self.entries[-1].point)
        store.beside.add(self.said[:entries])
