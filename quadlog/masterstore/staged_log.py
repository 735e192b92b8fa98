"""The log of a stronger side: read into families of its own, durable, and adopted as the local log atomically.

    beside         index -> chain + pair               its entries after the fork
    beside_ids     id -> index + hash of the body      of these entries
    beside_bodies  id + digest -> payload              of these entries

`meta` holds the joined log that is being read (the view that is being joined, the fork, the end of the local
log) and, from an adoption until all entries have been moved, the index up to which they were adopted (``adopted``).

All other masters wait during an adoption, so adopting a joined log of 100,000 entries takes no longer than one of ten:
the mark ``adopted`` makes these families part of the local log, and their contents are moved to the rest of it in
pieces.  Until then, an entry, id or payload of the local log is looked up in both places.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar, cast

from rocksdict import WriteBatch

from quadlog import codec
from quadlog.core.agreement.limbo import marks_of
from quadlog.core.model import LogPosition, Pair, Payload, Transaction, body_hash
from quadlog.errors import StateError
from quadlog.masterstore.joined_log import JoinedCache, JoinStart, StagedJoinedLog, up_to
from quadlog.masterstore.rows import ID, INDEX, LOGGED, logged_at, logged_from, logged_id, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rocksdict import ColumnFamily, Rdict

    from quadlog.core.messages import Adopted
    from quadlog.core.records import LoggedEntry

T = TypeVar("T")

FAMILIES: Final = ("beside", "beside_ids", "beside_bodies")

PIECE: Final = 8 * 1024 * 1024
"""Maximum bytes that are moved with one write."""
PIECE_ENTRIES: Final = 500
"""Maximum entries that are moved with one write: about 15 ms, during which nothing else is done."""

BEHIND_ALL: Final = b"\xff" * 64
"""A key that is greater than all others, in every family."""


class StagedLog:
    """The joined log in a master's store.  Modified only by the thread that writes the store."""

    def __init__(
        self,
        families: Mapping[str, Rdict],
        handles: Mapping[str, ColumnFamily],
        write: Callable[[WriteBatch], None],
    ) -> None:
        """Continue the joined log that was being read, and complete an interrupted adoption; `write` also syncs."""
        self.families: Final = families
        self._handles, self._write = handles, write
        self._reading = JoinedCache()
        value: bytes | None = families["meta"].get(b"adopted")
        self._adopted = None if value is None else int(INDEX.unpack(value)[0])
        """Index up to which these entries are the local log; None: none of them are."""
        self._moved = 0
        """Index up to which the adopted entries have been moved."""
        self.move_all()
        ids = cast("Iterator[tuple[bytes, bytes]]", families["beside_ids"].items())
        self._reading.ids = {name: ID.unpack(value)[0] for name, value in ids}
        self._reading.marks = marks_of(logged_from(families["beside"], 1))

    # --- reading a joined log ---------------------------------------------------------------------

    def begin(self, fork: LogPosition, view: bytes, own: LogPosition) -> None:
        """Start to read another log, and delete the joined log that was read before.

        Args:
            fork: the last entry that both logs have.
            view: id of the view that is being joined.
            own: the end of the local log.

        """
        self.move_all()
        batch = WriteBatch(raw_mode=True)
        self._clear(batch)
        said = [view.hex(), *((point.index, point.chain.hex()) for point in (fork, own))]
        batch.put(b"joined_log", json.dumps(said).encode(), self._handles["meta"])
        self._write(batch)

    def drop(self) -> None:
        """Delete the joined log, unless it has been adopted."""
        if self._adopted is not None:
            return
        batch = WriteBatch(raw_mode=True)
        self._clear(batch)
        self._write(batch)

    def _clear(self, batch: WriteBatch) -> None:
        for name in FAMILIES:
            batch.delete_range(b"", BEHIND_ALL, self._handles[name])
        batch.delete(b"joined_log", self._handles["meta"])
        self._end_reading()

    def _end_reading(self) -> None:
        self._reading.is_live = False
        self._reading = JoinedCache()

    def add(self, entries: Sequence[LoggedEntry]) -> None:
        """Append entries from the other side's agreed topic, in one synced write.

        Raises:
            StateError: an entry does not follow the one before.

        """
        joined_log = self.joined_log()
        assert joined_log is not None, "a joined log is begun before entries are added"
        last, batch, read = joined_log.last, WriteBatch(raw_mode=True), list[tuple[LogPosition, Pair]]()
        log, ids, bodies = (self._handles[name] for name in FAMILIES)
        for entry in entries:
            if entry.index != last.index + 1 or entry.previous != last.chain:
                raise StateError(
                    f"entry {entry.index} on {entry.previous.hex()[:16]} of another data centre does not follow"
                    f" entry {last.index} with {last.chain.hex()[:16]}; it was not taken"
                )
            last, payload = LogPosition(entry.index, entry.chain), payload_of(entry)
            pair = Pair(entry.timestamp, *payload.transaction.key)
            batch.put(INDEX.pack(entry.index), LOGGED.pack(entry.chain, *pair), log)
            batch.put(entry.id, ID.pack(entry.index, body_hash(entry.body, entry.options)), ids)
            batch.put(b"".join(pair.key), codec.pack_payload(payload), bodies)
            read.append((last, pair))
        self._write(batch)
        self._reading.ids.update((entry.id, entry.index) for entry in entries)
        self._reading.marks += marks_of(read)

    def truncate(self, index: int) -> None:
        """Delete the entries after an index, which the other side gave up; earlier results of `joined_log` are invalid.

        Args:
            index: index of the last entry to keep; not before the fork.

        """
        batch = WriteBatch(raw_mode=True)
        log, ids, bodies = (self._handles[name] for name in FAMILIES)
        for point, pair in logged_from(self.families["beside"], index + 1):
            batch.delete(INDEX.pack(point.index), log)
            batch.delete(pair.id, ids)
            batch.delete(b"".join(pair.key), bodies)
        self._write(batch)
        kept = JoinedCache()
        kept.ids = {name: at for name, at in self._reading.ids.items() if at <= index}
        kept.marks = [one for one in self._reading.marks if one[0].index <= index]
        self._reading.is_live = False
        self._reading = kept

    def joined_log(self) -> StagedJoinedLog | None:
        """Return the joined log as far as it was read; None if none is being read."""
        value: bytes | None = self.families["meta"].get(b"joined_log")
        if value is None:
            return None
        view, *points = json.loads(value)
        fork, own = (LogPosition(index, bytes.fromhex(chain)) for index, chain in points)
        index = newest(self.families["beside"])
        found = logged_at(self.families["beside"], index)
        last = fork if found is None else LogPosition(index, found[0])
        return StagedJoinedLog(self, self._reading, JoinStart(bytes.fromhex(view), fork, own), last)

    # --- adopting ---------------------------------------------------------------------------------

    def adopt(self, batch: WriteBatch, adopted: Adopted) -> None:
        """Add an adoption to a batch: the joined log becomes the local log up to `adopted.last`.

        Call `adopted` after the batch is written.  The batch deletes the payloads of local entries that are cut;
        payloads that must wait again have to be put into the batch after this call.
        """
        joined_log, kept = adopted.joined_log, adopted.kept
        assert isinstance(joined_log, StagedJoinedLog)
        assert joined_log.is_live, "what was read beside is still what is read"
        log, ids, payloads, rejected, meta = (
            self._handles[name] for name in ("log", "ids", "payloads", "rejected", "meta")
        )
        for point, pair in logged_from(self.families["log"], kept + 1):
            batch.delete(INDEX.pack(point.index), log)
            batch.delete(pair.id, ids)
            batch.delete(b"".join(pair.key), payloads)
        batch.delete_range(INDEX.pack(kept + 1), BEHIND_ALL, rejected)
        batch.delete(b"joined_log", meta)
        batch.put(b"adopted", INDEX.pack(adopted.last.index), meta)

    def adopted(self, last: int) -> None:
        """Note that the batch of `adopt` is written: the entries stored here are the local log up to `last`."""
        self._adopted, self._moved = last, 0
        self._end_reading()

    def move_all(self) -> None:
        """Move all adopted entries."""
        while self._adopted is not None:
            self.move_chunk()

    def move_chunk(self) -> None:
        """Move a piece of the adopted entries; after the last piece nothing is stored here any more.

        A process that dies in between moves the piece again.
        """
        last = self._adopted
        if last is None:
            return
        batch, count = WriteBatch(raw_mode=True), 0
        for point, pair in self._read_up_to(last, behind=self._moved):
            self._move(batch, point, pair)
            self._moved, count = point.index, count + 1
            if count >= PIECE_ENTRIES or batch.size_in_bytes() > PIECE:
                self._write(batch)
                return
        self._clear(batch)
        batch.delete(b"adopted", self._handles["meta"])
        self._write(batch)
        self._adopted = None

    def _move(self, batch: WriteBatch, point: LogPosition, pair: Pair) -> None:
        log, ids, payloads = (self._handles[name] for name in ("log", "ids", "payloads"))
        key = b"".join(pair.key)
        body: bytes | None = self.families["beside_bodies"].get(key)
        batch.put(INDEX.pack(point.index), LOGGED.pack(point.chain, *pair), log)
        batch.put(pair.id, cast("bytes", self.families["beside_ids"].get(pair.id)), ids)
        if body is not None:  # else the payload is not needed any more
            batch.put(key, body, payloads)

    def _read_up_to(self, index: int, *, behind: int) -> Iterator[tuple[LogPosition, Pair]]:
        return up_to(logged_from(self.families["beside"], behind + 1), index)

    def release(self, batch: WriteBatch, keys: Iterable[bytes]) -> None:
        """Add to a batch the deletion of payloads that are not needed, wherever they are stored."""
        places = [self._handles["payloads"]]
        if self._adopted is not None:
            places.append(self._handles["beside_bodies"])
        for key in keys:
            for place in places:
                batch.delete(key, place)

    @property
    def is_moving(self) -> bool:
        """True while a part of the local log is stored here."""
        return self._adopted is not None

    # --- the local log, of which a part may be stored here ------------------------------------------

    def entry(self, index: int) -> tuple[bytes, Pair] | None:
        """Return the chain hash and the pair of the local entry at an index."""
        return self._either(
            lambda: logged_at(self.families["log"], index),
            lambda last: logged_at(self.families["beside"], index) if index <= last else None,
        )

    def logged(self, transaction_id: bytes) -> tuple[int, bytes] | None:
        """Return the index of a synchronised transaction, and the hash of its body."""

        def beside(last: int) -> tuple[int, bytes] | None:
            found = logged_id(self.families["beside_ids"], transaction_id)
            return found if found is not None and found[0] <= last else None

        return self._either(lambda: logged_id(self.families["ids"], transaction_id), beside)

    def __contains__(self, transaction_id: object) -> bool:
        """Return whether a transaction of this id is synchronised."""
        return isinstance(transaction_id, bytes) and self.logged(transaction_id) is not None

    def get(self, transaction_id: bytes) -> bytes | None:
        """Return the digest of a synchronised transaction; None if there is none, or its entry is not stored."""
        logged = self.logged(transaction_id)
        entry = None if logged is None else self.entry(logged[0])
        return None if entry is None else entry[1].digest

    def payload(self, key: bytes) -> bytes | None:
        """Return a payload that waits, or whose entry is not published yet."""
        return self._either(
            lambda: self.families["payloads"].get(key), lambda _: self.families["beside_bodies"].get(key)
        )

    def _either(self, there: Callable[[], T | None], here: Callable[[int], T | None]) -> T | None:
        """Look in the families of the log, then here, then there again: the value may have been moved in between."""
        if (found := there()) is not None or (last := self._adopted) is None:
            return found
        return found if (found := here(last)) is not None else there()


def payload_of(entry: LoggedEntry) -> Payload:
    """Return the payload of an entry.  The agreed topic lacks the client's data centre, which is not needed again."""
    return Payload(
        transaction=Transaction(id=entry.id, digest=entry.digest, kind=entry.kind, options=entry.options),
        origin=entry.origin,
        origin_dc="",
        created=entry.created,
        media_type=entry.media_type,
        body=entry.body,
        traceparent=entry.traceparent,
    )
