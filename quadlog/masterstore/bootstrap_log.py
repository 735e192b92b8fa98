"""The log of a master that starts without one, fetched into the regular families of its store (decision 35)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocksdict import WriteBatch

from quadlog import codec
from quadlog.core.model import START, LogPosition
from quadlog.errors import StateError
from quadlog.masterstore.rows import ID, INDEX, LOGGED, logged_at, logged_from, newest
from quadlog.masterstore.staged_log import BEHIND_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocksdict import ColumnFamily, Rdict

    from quadlog.core.model import Payload
    from quadlog.masterstore.rows import Row


class BootstrapLog:
    """Writer of the fetched log.  Used before anything else is written to the store, by the same thread."""

    def __init__(
        self,
        families: Mapping[str, Rdict],
        handles: Mapping[str, ColumnFamily],
        write: Callable[[WriteBatch], None],
    ) -> None:
        """Use the `families` and `handles` of the whole store; `write` writes a batch, and syncs it."""
        self._families, self._handles, self._write = families, handles, write

    @property
    def last(self) -> LogPosition:
        """The last entry of the log."""
        log = self._families["log"]
        index = newest(log)
        found = logged_at(log, index)
        return START if found is None else LogPosition(index, found[0])

    def append(self, rows: Iterable[Row], payloads: Iterable[Payload] = ()) -> None:
        """Append rows to the log, in one synced write.

        Args:
            rows: rows in the order of their indexes.
            payloads: payloads of those entries that may have to wait again.

        Raises:
            StateError: the rows do not follow the log; none is written.

        """
        batch, last = WriteBatch(raw_mode=True), self.last.index
        log, ids, rejected, bodies = (self._handles[name] for name in ("log", "ids", "rejected", "payloads"))
        for point, pair, body_hash, reason in rows:
            if point.index != last + 1:
                message = f"entry {point.index} does not follow entry {last}: nothing of what came was taken"
                raise StateError(message)
            last = point.index
            batch.put(INDEX.pack(last), LOGGED.pack(point.chain, *pair), log)
            batch.put(pair.id, ID.pack(last, body_hash), ids)
            if reason is not None:
                batch.put(INDEX.pack(last), reason.encode(), rejected)
        for payload in payloads:
            batch.put(b"".join(payload.transaction.key), codec.pack_payload(payload), bodies)
        self._write(batch)

    def forget_behind(self, index: int) -> None:
        """Delete all entries after an index: they belong to another log."""
        batch = WriteBatch(raw_mode=True)
        log, ids, rejected, bodies = (self._handles[name] for name in ("log", "ids", "rejected", "payloads"))
        for _, pair in logged_from(self._families["log"], index + 1):
            batch.delete(pair.id, ids)
            batch.delete(b"".join(pair.key), bodies)
        for family in (log, rejected):
            batch.delete_range(INDEX.pack(index + 1), BEHIND_ALL, family)
        self._write(batch)
