"""A stronger side's log, as it was read so far: what the agreement asks of it while it gives way.

It stands beside the own log (`quadlog.masterstore.beside`), from the fork on; before that the own log is theirs, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog import codec
from quadlog.core.model import START, Pair, Point, Transaction
from quadlog.errors import StateError
from quadlog.masterstore.rows import logged_at, logged_from, logged_id

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from quadlog.masterstore.beside import Beside

_NOWHERE: Final = Point(0, b"")
"""A point of no log."""


class Began(NamedTuple):
    """What a branch was begun with."""

    view: bytes
    """Id of the view that is being joined."""
    fork: Point
    """The last entry that both logs have."""
    own: Point
    """The end of the own log at that time."""


class Reading:
    """What all branches share that were asked for between a beginning and the next."""

    def __init__(self) -> None:
        """Nothing was read."""
        self.is_live = True
        """Whether it is what is read beside now."""
        self.ids: dict[bytes, int] = {}
        """Of what was read, with indexes: giving way asks for each that waits, while all others wait."""


class StoredBranch:
    """A `Branch` up to where it was read when it was asked for.

    It is of no more use once another one was begun, or none is read: then it says that it stands beside another log.
    What was adopted of it is the own log; `ids` tells the same as before.
    """

    def __init__(self, beside: Beside, reading: Reading, began: Began, last: Point) -> None:
        """`beside`: where it stands."""
        self.view: Final = began.view
        """Id of the view that is being joined."""
        self.fork: Final = began.fork
        self.last: Final = last
        self._own: Final = began.own
        self._beside, self.reading = beside, reading
        self._families: Final = beside.families

    @property
    def is_live(self) -> bool:
        """Whether it is what is read beside now."""
        return self.reading.is_live

    @property
    def own(self) -> Point:
        """The end of the own log that it was read beside."""
        return self._own if self.is_live else _NOWHERE

    def ids(self, index: int) -> Container[bytes]:
        """Of all transactions that are synchronised there, up to an index."""
        return _Ids(self, self._beside, index)

    def chain_at(self, index: int) -> bytes | None:
        """Chain hash of the entry at an index; None: it was not read so far."""
        if index == START.index:
            return START.chain
        if index > self.last.index or not self.is_live:
            return None
        found = logged_at(self._families["log" if index <= self.fork.index else "beside"], index)
        return None if found is None else found[0]

    def tail(self, index: int, length: int) -> Sequence[tuple[Point, Pair]]:
        """Their newest entries up to an index, oldest first, no more than so many."""
        return list(self._entries(max(1, index - length + 1), min(index, self.last.index)))

    def _entries(self, first: int, last: int) -> Iterator[tuple[Point, Pair]]:
        fork = self.fork.index
        for name, begin, end in (("log", first, min(last, fork)), ("beside", max(first, fork + 1), last)):
            if begin <= end:
                yield from up_to(logged_from(self._families[name], begin), end)

    def given_way(self, index: int) -> Sequence[tuple[Pair, Transaction]]:
        """The own entries behind the fork, or behind this index if that is before it; oldest first.

        Raises:
            StateError: the payload of one is not here.

        """
        own = logged_from(self._families["log"], min(index, self.fork.index) + 1)
        return [(pair, self._transaction(point, pair)) for point, pair in up_to(own, self._own.index)]

    def _transaction(self, point: Point, pair: Pair) -> Transaction:
        value: bytes | None = self._families["payloads"].get(b"".join(pair.key))
        if value is None:
            message = (
                f"entry {point.index} is to give way to another log, and its payload is not kept here any more:"
                " it would be lost. Nothing was changed; an earlier version may have written this store"
            )
            raise StateError(message)
        return codec.unpack_payload(value).transaction


class _Ids:
    """Ids of a branch, up to an index."""

    def __init__(self, branch: StoredBranch, beside: Beside, index: int) -> None:
        self._branch, self._beside, self._index = branch, beside, index

    def __contains__(self, transaction_id: object) -> bool:
        if not isinstance(transaction_id, bytes):
            return False
        if not self._branch.is_live:
            own = self._beside.logged(transaction_id)
            return own is not None and own[0] <= self._index
        theirs = self._branch.reading.ids.get(transaction_id)
        if theirs is not None and theirs <= self._index:
            return True
        own = logged_id(self._beside.families["ids"], transaction_id)
        return own is not None and own[0] <= self._up_to_fork

    @property
    def _up_to_fork(self) -> int:
        return min(self._index, self._branch.fork.index)


def up_to(entries: Iterator[tuple[Point, Pair]], index: int) -> Iterator[tuple[Point, Pair]]:
    """Those of a log's entries that are not behind an index."""
    for point, pair in entries:
        if point.index > index:
            return
        yield point, pair
