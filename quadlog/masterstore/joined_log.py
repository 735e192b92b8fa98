"""A stronger side's log, as far as it was read, for the agreement while this master gives way.

Its entries after the fork are stored apart from the local log (`quadlog.masterstore.staged_log`); up to the fork both
logs have the same entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog import codec
from quadlog.core.approval import implied_by
from quadlog.core.model import START, LogPosition, Pair, Transaction
from quadlog.errors import StateError
from quadlog.masterstore.rows import logged_at, logged_from, logged_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quadlog.masterstore.staged_log import StagedLog

_NOWHERE: Final = LogPosition(0, b"")
"""A point that is in no log."""


class JoinStart(NamedTuple):
    """The state when the reading of a joined log begins."""

    view: bytes
    """Id of the view that is being joined."""
    fork: LogPosition
    """The last entry that both logs have."""
    own: LogPosition
    """The end of the local log at that time."""


class JoinedCache:
    """State shared by all joined logs that are requested between one `StagedLog.begin` and the next."""

    def __init__(self) -> None:
        self.is_live = True
        """True while this is the joined log that is being read."""
        self.ids: dict[bytes, int] = {}
        """Index by id, of the entries that were read.

        Giving way looks up each waiting id while all other masters wait.
        """
        self.marks: list[tuple[LogPosition, Pair]] = []
        """The synchronous transactions and decisions among them, for the same reason."""


class StagedJoinedLog:
    """A `JoinedLog`, as far as it was read when it was requested.

    It is invalid once another joined log was begun, or none is read: its `own` is then a point that is in no log.
    After an adoption `digests` returns the same as before, from the local log.
    """

    def __init__(self, beside: StagedLog, reading: JoinedCache, began: JoinStart, last: LogPosition) -> None:
        """Represent the joined log that is stored in `beside`, up to `last`."""
        self.view: Final = began.view
        """Id of the view that is being joined."""
        self.fork: Final = began.fork
        self.last: Final = last
        self._own: Final = began.own
        self._beside, self.reading = beside, reading
        self._families: Final = beside.families

    @property
    def is_live(self) -> bool:
        """True while this is the joined log that is being read."""
        return self.reading.is_live

    @property
    def own(self) -> LogPosition:
        """The end of the local log when the reading began; a point that is in no log once the joined log is invalid."""
        return self._own if self.is_live else _NOWHERE

    def digests(self, index: int) -> JoinedDigests:
        """Return the digests of all transactions that are synchronised in the joined log, up to an index."""
        return JoinedDigests(self, self._beside, index)

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash of the entry at an index; None if the entry has not been read."""
        if index == START.index:
            return START.chain
        if index > self.last.index or not self.is_live:
            return None
        found = logged_at(self._families["log" if index <= self.fork.index else "beside"], index)
        return None if found is None else found[0]

    def tail(self, index: int, length: int) -> Sequence[tuple[LogPosition, Pair]]:
        """Return the newest entries of the joined log up to an index, oldest first, at most `length`."""
        return list(self._entries(max(1, index - length + 1), min(index, self.last.index)))

    def _entries(self, first: int, last: int) -> Iterator[tuple[LogPosition, Pair]]:
        fork = self.fork.index
        for name, begin, end in (("log", first, min(last, fork)), ("beside", max(first, fork + 1), last)):
            if begin <= end:
                yield from up_to(logged_from(self._families[name], begin), end)

    def given_way(self, index: int) -> Sequence[tuple[Pair, Transaction]]:
        """Return the local entries after the fork, or after `index` if that is before the fork; oldest first.

        Raises:
            StateError: the payload of an entry is not stored here.

        """
        own = logged_from(self._families["log"], min(index, self.fork.index) + 1)
        return [(pair, self._transaction(point, pair)) for point, pair in up_to(own, self._own.index)]

    def marks(self, index: int) -> Sequence[tuple[LogPosition, Pair]]:
        """Return the synchronous transactions and decisions after the fork, up to an index, oldest first."""
        return [one for one in self.reading.marks if self.fork.index < one[0].index <= index]

    def _transaction(self, point: LogPosition, pair: Pair) -> Transaction:
        if (implied := implied_by(pair.key)) is not None:
            return implied
        value: bytes | None = self._families["payloads"].get(b"".join(pair.key))
        if value is None:
            raise StateError(
                f"entry {point.index} is to give way to another log, and its payload is not kept here any more:"
                " it would be lost. Nothing was changed"
            )
        return codec.unpack_payload(value).transaction


class JoinedDigests:
    """Digests of the transactions that are synchronised in a joined log, by id, up to an index.

    Each is looked up in the store.  After an adoption they are those of the local log.
    """

    def __init__(self, joined_log: StagedJoinedLog, log: StagedLog, index: int) -> None:
        self._joined_log, self._log, self._index = joined_log, log, index

    def __contains__(self, transaction_id: object) -> bool:
        """Return whether a transaction of this id is synchronised there."""
        return isinstance(transaction_id, bytes) and self._place(transaction_id) is not None

    def get(self, transaction_id: bytes) -> bytes | None:
        """Return the digest of a transaction that is synchronised there; None if there is none."""
        place = self._place(transaction_id)
        if place is None:
            return None
        family, index = place
        entry = self._log.entry(index) if family is None else logged_at(self._log.families[family], index)
        return None if entry is None else entry[1].digest

    def _place(self, transaction_id: bytes) -> tuple[str | None, int] | None:
        """Return the family and the index of the entry; without a family it is in the local log."""
        if not self._joined_log.is_live:
            own = self._log.logged(transaction_id)
            return (None, own[0]) if own is not None and own[0] <= self._index else None
        theirs = self._joined_log.reading.ids.get(transaction_id)
        if theirs is not None and theirs <= self._index:
            return "beside", theirs
        own = logged_id(self._log.families["ids"], transaction_id)
        up_to_fork = min(self._index, self._joined_log.fork.index)
        return ("log", own[0]) if own is not None and own[0] <= up_to_fork else None


def up_to(entries: Iterator[tuple[LogPosition, Pair]], index: int) -> Iterator[tuple[LogPosition, Pair]]:
    """Yield the entries of a log up to an index, inclusive."""
    for point, pair in entries:
        if point.index > index:
            return
        yield point, pair
