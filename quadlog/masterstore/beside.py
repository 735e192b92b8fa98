"""The log of a stronger side, read beside the own one: durable, and taken for the own one at once or not at all.

    beside         index -> chain + pair               their entries behind the fork
    beside_ids     id -> index + hash of the body      of these
    beside_bodies  id + digest -> payload              of these

In `meta` stand the branch that is read (``branch``: the view that is being joined, the fork, the end of the own
log) and, from an adoption on until all of it is in its place, how far it went (``adopted``).

A branch of 100,000 entries is adopted in as much time as one of ten, because all others wait meanwhile: what stands
beside then is the own log by that mark, and is moved to the rest of it in pieces.  Whoever looks up an entry, an id
or a payload of the own log finds it in either place.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar, cast

from rocksdict import WriteBatch

from quadlog import codec
from quadlog.core.model import Pair, Payload, Point, Transaction, body_hash
from quadlog.errors import StateError
from quadlog.masterstore.branch import Began, Reading, StoredBranch, up_to
from quadlog.masterstore.rows import ID, INDEX, LOGGED, logged_at, logged_from, logged_id, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rocksdict import ColumnFamily, Rdict

    from quadlog.core.messages import Adopted
    from quadlog.core.records import LoggedEntry

T = TypeVar("T")

FAMILIES: Final = ("beside", "beside_ids", "beside_bodies")

PIECE: Final = 8 * 1024 * 1024
"""Bytes that are moved with one write, at most."""
PIECE_ENTRIES: Final = 500
"""Entries of these: some 15 ms, in which nothing else is done."""

BEHIND_ALL: Final = b"\xff" * 64
"""A key that is greater than all others, in every family."""


class Beside:
    """The branch in a master's store.  Used by the thread that writes the store."""

    def __init__(
        self,
        families: Mapping[str, Rdict],
        handles: Mapping[str, ColumnFamily],
        write: Callable[[WriteBatch], None],
    ) -> None:
        """Go on with what was being read, and end an adoption that was interrupted.

        Args:
            families: of the whole store.
            handles: of the same.
            write: writes a batch, and syncs it.

        """
        self.families: Final = families
        self._handles, self._write = handles, write
        self._reading = Reading()
        value: bytes | None = families["meta"].get(b"adopted")
        self._adopted = None if value is None else int(INDEX.unpack(value)[0])
        """Index up to which what stands here is the own log; None: nothing is."""
        self._moved = 0
        """Index up to which that is in its place."""
        self.settle()
        ids = cast("Iterator[tuple[bytes, bytes]]", families["beside_ids"].items())
        self._reading.ids = {name: ID.unpack(value)[0] for name, value in ids}

    # --- reading beside ---------------------------------------------------------------------------

    def begin(self, fork: Point, view: bytes, own: Point) -> None:
        """Read another log from now on; what was read before is forgotten.

        Args:
            fork: the last entry that both logs have.
            view: id of the view that is being joined.
            own: the end of the own log.

        """
        self.settle()
        batch = WriteBatch(raw_mode=True)
        self._clear(batch)
        said = [view.hex(), *((point.index, point.chain.hex()) for point in (fork, own))]
        batch.put(b"branch", json.dumps(said).encode(), self._handles["meta"])
        self._write(batch)

    def drop(self) -> None:
        """Forget what was read, unless it is the own log by now."""
        if self._adopted is not None:
            return
        batch = WriteBatch(raw_mode=True)
        self._clear(batch)
        self._write(batch)

    def _clear(self, batch: WriteBatch) -> None:
        for name in FAMILIES:
            batch.delete_range(b"", BEHIND_ALL, self._handles[name])
        batch.delete(b"branch", self._handles["meta"])
        self._end_reading()

    def _end_reading(self) -> None:
        self._reading.is_live = False
        self._reading = Reading()

    def add(self, entries: Sequence[LoggedEntry]) -> None:
        """More of it, as their agreed topic says it, in one synced write.

        Raises:
            StateError: an entry does not follow the one before.

        """
        branch = self.branch()
        assert branch is not None, "a branch is begun before entries are added"
        last, batch = branch.last, WriteBatch(raw_mode=True)
        log, ids, bodies = (self._handles[name] for name in FAMILIES)
        for entry in entries:
            if entry.index != last.index + 1 or entry.previous != last.chain:
                message = (
                    f"entry {entry.index} on {entry.previous.hex()[:16]} of another data centre does not follow"
                    f" entry {last.index} with {last.chain.hex()[:16]}; it was not taken"
                )
                raise StateError(message)
            last, payload = Point(entry.index, entry.chain), payload_of(entry)
            pair = Pair(entry.timestamp, *payload.transaction.key)
            batch.put(INDEX.pack(entry.index), LOGGED.pack(entry.chain, *pair), log)
            batch.put(entry.id, ID.pack(entry.index, body_hash(entry.body, entry.options)), ids)
            batch.put(b"".join(pair.key), codec.pack_payload(payload), bodies)
        self._write(batch)
        self._reading.ids.update((entry.id, entry.index) for entry in entries)

    def branch(self) -> StoredBranch | None:
        """The branch as far as it was read; None: none is."""
        value: bytes | None = self.families["meta"].get(b"branch")
        if value is None:
            return None
        view, *points = json.loads(value)
        fork, own = (Point(index, bytes.fromhex(chain)) for index, chain in points)
        index = newest(self.families["beside"])
        found = logged_at(self.families["beside"], index)
        last = fork if found is None else Point(index, found[0])
        return StoredBranch(self, self._reading, Began(bytes.fromhex(view), fork, own), last)

    # --- adopting ---------------------------------------------------------------------------------

    def adopt(self, batch: WriteBatch, adopted: Adopted) -> None:
        """Put into a batch: the log is the branch up to there.  `adopted` is to follow it.

        Payloads of own entries that are cut go; those that wait again are to be put behind this.
        """
        branch, kept = adopted.branch, adopted.kept
        assert isinstance(branch, StoredBranch)
        assert branch.is_live, "what was read beside is still what is read"
        log, ids, payloads, rejected, meta = (
            self._handles[name] for name in ("log", "ids", "payloads", "rejected", "meta")
        )
        for point, pair in logged_from(self.families["log"], kept + 1):
            batch.delete(INDEX.pack(point.index), log)
            batch.delete(pair.id, ids)
            batch.delete(b"".join(pair.key), payloads)
        batch.delete_range(INDEX.pack(kept + 1), BEHIND_ALL, rejected)
        batch.delete(b"branch", meta)
        batch.put(b"adopted", INDEX.pack(adopted.last.index), meta)

    def adopted(self, last: int) -> None:
        """The batch of `adopt` is written: up to there, what stands here is the own log."""
        self._adopted, self._moved = last, 0
        self._end_reading()

    def settle(self) -> None:
        """Bring all that was adopted to its place."""
        while self._adopted is not None:
            self.settle_some()

    def settle_some(self) -> None:
        """Bring a piece of what was adopted to its place; with the last one nothing stands here any more.

        Who dies in between does it again.
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

    def _move(self, batch: WriteBatch, point: Point, pair: Pair) -> None:
        log, ids, payloads = (self._handles[name] for name in ("log", "ids", "payloads"))
        key = b"".join(pair.key)
        body: bytes | None = self.families["beside_bodies"].get(key)
        batch.put(INDEX.pack(point.index), LOGGED.pack(point.chain, *pair), log)
        batch.put(pair.id, cast("bytes", self.families["beside_ids"].get(pair.id)), ids)
        if body is not None:  # else nobody needs it any more
            batch.put(key, body, payloads)

    def _read_up_to(self, index: int, *, behind: int) -> Iterator[tuple[Point, Pair]]:
        return up_to(logged_from(self.families["beside"], behind + 1), index)

    def release(self, batch: WriteBatch, keys: Iterable[bytes]) -> None:
        """Put into a batch: these payloads are not needed, wherever they are."""
        places = [self._handles["payloads"]]
        if self._adopted is not None:
            places.append(self._handles["beside_bodies"])
        for key in keys:
            for place in places:
                batch.delete(key, place)

    @property
    def is_moving(self) -> bool:
        """Whether a part of the own log stands here."""
        return self._adopted is not None

    # --- the own log, of which a part may stand here ------------------------------------------------

    def entry(self, index: int) -> tuple[bytes, Pair] | None:
        """Chain hash and pair of the own entry at an index."""
        return self._either(
            lambda: logged_at(self.families["log"], index),
            lambda last: logged_at(self.families["beside"], index) if index <= last else None,
        )

    def logged(self, transaction_id: bytes) -> tuple[int, bytes] | None:
        """Index of a synchronised transaction, and the hash of its body."""

        def beside(last: int) -> tuple[int, bytes] | None:
            found = logged_id(self.families["beside_ids"], transaction_id)
            return found if found is not None and found[0] <= last else None

        return self._either(lambda: logged_id(self.families["ids"], transaction_id), beside)

    def payload(self, key: bytes) -> bytes | None:
        """A payload that waits, or whose entry is not published yet."""
        return self._either(
            lambda: self.families["payloads"].get(key), lambda _: self.families["beside_bodies"].get(key)
        )

    def _either(self, there: Callable[[], T | None], here: Callable[[int], T | None]) -> T | None:
        """In its place, or still here; or in its place since that was looked at."""
        if (found := there()) is not None or (last := self._adopted) is None:
            return found
        return found if (found := here(last)) is not None else there()


def payload_of(entry: LoggedEntry) -> Payload:
    """The payload of an entry.  Where its client was, an agreed topic does not tell, and nobody asks again."""
    return Payload(
        transaction=Transaction(id=entry.id, digest=entry.digest, kind=entry.kind, options=entry.options),
        origin=entry.origin,
        origin_dc="",
        created=entry.created,
        media_type=entry.media_type,
        body=entry.body,
        traceparent=entry.traceparent,
    )
