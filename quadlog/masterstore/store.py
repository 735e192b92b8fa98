"""The durable state of a master, in RocksDB.

    meta        counter, sequence, incarnation, standing, limbo, cut, reached, effects, floor, duty, seed; positions
                in topics (``at:`` + topic), the topics' ids in Kafka (``is:`` + topic), and
                the last record read of each (``of:`` + topic); other masters' incarnations (``in:`` + node)
    queue       pair -> nothing                        the incoming queue
    payloads    id + digest -> payload                 payloads that wait, that the agreed topic does not have yet,
                                                       or that may have to wait again
    log         index -> chain + pair                  the synchronised queue, without bodies
    ids         id -> index + hash of the body         kept for ever
    rejected    index -> reason
    ended       id -> index that it had                transactions that ended with a branch, kept for ever

The entries that were read of another side's log are stored separately: see `quadlog.masterstore.staged_log`.  How a new
store receives the log: see `quadlog.masterstore.bootstrap_log`.
"""

from __future__ import annotations

import re
import secrets
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from rocksdict import AccessType, ColumnFamily, Options, Rdict, WriteBatch

from quadlog import codec
from quadlog.anchors import Anchor
from quadlog.clock import wall
from quadlog.core.agreement.limbo import marks_of
from quadlog.core.membership.incarnations import CHANCE_BYTES, new_incarnation
from quadlog.core.messages import POST_LIMIT, RecoveredState
from quadlog.core.model import HASH_SIZE, START, LogPosition, Pair
from quadlog.core.records import Cut, Reached, Seed
from quadlog.damage import refuse_damage
from quadlog.errors import SetupError
from quadlog.failpoints import Failpoint, visit
from quadlog.masterstore import staged_log
from quadlog.masterstore.bootstrap_log import BootstrapLog
from quadlog.masterstore.hard_state import DUTY, pack_standing, unpack_standing
from quadlog.masterstore.rows import ID, INDEX, LOGGED, PAIR, Row, logged_from, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from quadlog.core.messages import Adopted, Save
    from quadlog.core.model import HardState, Payload
    from quadlog.core.records import Handover

FAMILIES: Final = ("meta", "queue", "payloads", "log", "ids", "rejected", "ended", *staged_log.FAMILIES)

NOWHERE: Final = Reached()
"""No record of the agreed topic was processed."""

_EFFECTS: Final = struct.Struct(">QQQ")
_REACHED: Final = struct.Struct(f">QQQQ{HASH_SIZE}s")


class Payloads(Protocol):
    """Lookup of payloads by their key."""

    def __getitem__(self, key: tuple[bytes, bytes], /) -> Payload:
        """Return the payload with this id and digest."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """State derived from the topics up to now.

    Saved in one batch with its consequences, so that a restart misses nothing.
    """

    positions: Mapping[str, int]
    """Offset, by topic, from which a restart must continue to read."""
    effects: tuple[int, int, int]
    """Index and attempt of the last effect received, and epoch of the newest rewind."""
    rejected: Mapping[int, str]
    """Reasons of the rejections received, by index."""
    back: int | None = None
    """Index after which saved rejections are void; None: all count."""
    seed: Seed | None = None
    """The seed of the log, if one was received."""
    duty: tuple[Handover, Handover] | None = None
    """The newest handover as agreed, and the newest one in the effects received; None: as saved before."""
    topics: Mapping[str, str] = field(default_factory=dict[str, str])
    """Topic ids that were not saved before; the positions are in these topics."""
    anchors: Mapping[str, Anchor | None] = field(default_factory=dict[str, "Anchor | None"])
    """The last record that was read of each topic, where it differs from the saved one; None: there is none now."""
    heard: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Incarnations of other masters, where they differ from the saved ones."""
    floor: int = 0
    """Epoch of the view that moved the home away from this data centre; 0: none did."""
    reached: Reached = NOWHERE
    """How far the agreed topic was followed, and up to which index it then holds the log: a cut goes back to there."""


class MasterStore:
    """The durable state of a master.  Written by one thread; read by any."""

    def __init__(self, path: Path, *, before: Callable[[], bytes | None] = lambda: None) -> None:
        """Open or create the store in `path`.

        Args:
            path: directory of the store.
            before: function that is called if the store is new; returns the incarnation of this master that its own
                topics contain, if any: then an earlier disk was lost.

        Raises:
            SetupError: another process holds the store, or it cannot be created.
            StoreDamaged: the files of the store are damaged.

        """
        options = Options(raw_mode=True)
        options.enable_statistics()
        options.create_if_missing(True)  # noqa: FBT003 - RocksDB's own names and setters
        options.create_missing_column_families(True)  # noqa: FBT003
        try:
            path.mkdir(parents=True, exist_ok=True)
            families = {name: Options(raw_mode=True) for name in FAMILIES}
            self._db = Rdict(str(path), options, families, access_type=AccessType.read_write())
        except Exception as error:
            refuse_damage(error, path)
            raise SetupError(
                f"{path} cannot be opened: {error}. Is another master running on it? Stop it, or set data-dir"
            ) from error
        self._options = options
        self._families: dict[str, Rdict] = {name: self._db.get_column_family(name) for name in FAMILIES}
        self._handles: dict[str, ColumnFamily] = {
            name: self._db.get_column_family_handle(name) for name in FAMILIES
        }
        self.rounds = 0
        """Number of rounds saved since the start."""
        self.incarnation: Final = self._incarnation(before)
        self._limbo = self._number(b"limbo")
        self.beside: Final = staged_log.StagedLog(self._families, self._handles, self._write)
        """The joined log: entries of a stronger side's log."""
        self.digests: Final = self.beside
        """Digests of the log's entries, by id."""
        self.bootstrap_log: Final = BootstrapLog(self._families, self._handles, self._write)
        """The log, as fetched by a master that starts without one."""

    @property
    def sequence(self) -> int:
        """Sequence number of the last post that may have been sent: a post is saved before it is sent."""
        return self._number(b"sequence")

    def close(self) -> None:
        """Close the database, which releases its directory."""
        self._handles.clear()  # each handle would keep the database open
        for family in self._families.values():
            family.close()
        self._db.close()

    def _incarnation(self, before: Callable[[], bytes | None]) -> bytes:
        known: bytes | None = self._families["meta"].get(b"incarnation")
        if known is None:
            lost = before()
            known = new_incarnation(lost, wall(), secrets.token_bytes(CHANCE_BYTES))
            batch = WriteBatch(raw_mode=True)
            batch.put(b"incarnation", known, self._handles["meta"])
            if lost is not None:
                batch.put(b"blank", b"", self._handles["meta"])
            self._write(batch)
        return known

    def _write(self, batch: WriteBatch) -> None:
        """Write and sync a batch, in two steps: `write` with `sync` set would block all other threads meanwhile."""
        self._db.write(batch)
        self._db.flush_wal(True)  # noqa: FBT003 - RocksDB's own names

    # --- writing: one synced batch per round ------------------------------------------------------

    def save(
        self,
        save: Save,
        *,
        payloads: Payloads,
        taken: Taken,
        unneeded: Iterable[tuple[bytes, bytes]],
    ) -> None:
        """Make one round durable: when this returns, it is synced.

        Args:
            save: the changes that the agreement requests to be saved.
            payloads: payloads, at least those that `save` acquired or appended.
            taken: state derived from the topics up to now.
            unneeded: keys of payloads that are not needed: their entries are in the agreed topic and cannot be cut any
                more, or no master will request them.

        """
        batch = WriteBatch(raw_mode=True)
        self._put_agreement(batch, save, taken)
        self._put_taken(batch, taken, kept=None if save.adopted is None else save.adopted.kept)
        queue, stored, log, ids = (self._handles[name] for name in ("queue", "payloads", "log", "ids"))
        for transaction in save.acquired:
            batch.put(b"".join(transaction.key), codec.pack_payload(payloads[transaction.key]), stored)
        for pair in save.enqueued:
            batch.put(PAIR.pack(*pair), b"", queue)
        for pair in save.dequeued:
            batch.delete(PAIR.pack(*pair), queue)
        for entry in save.entries:
            pair = entry.pair
            batch.put(INDEX.pack(entry.index), LOGGED.pack(entry.chain, *pair), log)
            batch.put(pair.id, ID.pack(entry.index, payloads[pair.key].body_hash), ids)
        self.beside.release(batch, map(b"".join, unneeded))
        self._write(batch)
        if save.adopted is not None:
            visit(Failpoint.ADOPTED)
            self.beside.adopted(save.adopted.last.index)
        else:
            self.beside.move_chunk()
        self.rounds += 1

    def _put_agreement(self, batch: WriteBatch, save: Save, taken: Taken) -> None:
        """Add this master's standing to a batch and, if it gives way, the other log."""
        meta = self._handles["meta"]
        batch.put(b"counter", INDEX.pack(save.counter), meta)
        batch.put(b"sequence", INDEX.pack(save.sequence), meta)
        if save.limbo != self._limbo:
            batch.put(b"limbo", INDEX.pack(save.limbo), meta)
            self._limbo = save.limbo
        if save.standing is not None:
            batch.put(b"standing", pack_standing(save.standing), meta)
        if save.adopted is not None:
            batch.put(b"cut", codec.encode(_cut_of(save, save.adopted, taken.reached.held)), meta)
            for name, index in save.adopted.ended.items():
                batch.put(name, INDEX.pack(index), self._handles["ended"])
            self.beside.adopt(batch, save.adopted)

    def _put_taken(self, batch: WriteBatch, taken: Taken, *, kept: int | None = None) -> None:
        """Add `taken` to a batch, without rejections of entries after `kept`, which the batch cuts."""
        meta, rejected = self._handles["meta"], self._handles["rejected"]
        batch.put(b"effects", _EFFECTS.pack(*taken.effects), meta)
        batch.put(b"reached", _packed_reached(taken.reached), meta)
        if taken.floor:
            batch.put(b"floor", INDEX.pack(taken.floor), meta)
        if taken.duty is not None:
            batch.put(b"duty", DUTY.dump_json(taken.duty), meta)
        if taken.seed is not None:
            batch.put(b"seed", codec.encode(taken.seed), meta)
        self._put_topics(batch, taken)
        if taken.back is not None:
            batch.delete_range(INDEX.pack(taken.back + 1), staged_log.BEHIND_ALL, rejected)
        for index, reason in taken.rejected.items():
            if kept is None or index <= kept:
                batch.put(INDEX.pack(index), reason.encode(), rejected)

    def _put_topics(self, batch: WriteBatch, taken: Taken) -> None:
        """Add the positions in topics, the ids and anchors of topics, and other masters' incarnations to a batch."""
        meta = self._handles["meta"]
        for topic, offset in taken.positions.items():
            batch.put(b"at:" + topic.encode(), INDEX.pack(offset), meta)
        for topic, identity in taken.topics.items():
            batch.put(b"is:" + topic.encode(), identity.encode(), meta)
        for name, incarnation in taken.heard.items():
            batch.put(b"in:" + name.encode(), incarnation, meta)
        for topic, anchor in taken.anchors.items():
            key = b"of:" + topic.encode()
            if anchor is None:
                batch.delete(key, meta)
            else:
                batch.put(key, INDEX.pack(anchor.offset) + anchor.digest, meta)

    @property
    def synced_writes(self) -> int:
        """Number of times that RocksDB has synced its log since the start, as counted by RocksDB."""
        statistics = self._options.get_statistics() or ""
        found = re.search(r"^rocksdb\.wal\.synced COUNT : (\d+)$", statistics, re.MULTILINE)
        assert found is not None, "RocksDB counts its syncs"
        return int(found[1])

    @property
    def is_new(self) -> bool:
        """True if nothing was saved yet, apart from a log that was fetched."""
        return self._families["meta"].get(b"reached") is None

    def go_on(self, taken: Taken) -> None:
        """Save `taken` after the log was fetched: the records that the topics no longer have count as processed."""
        batch = WriteBatch(raw_mode=True)
        self._put_taken(batch, taken)
        self._write(batch)

    # --- reading ------------------------------------------------------------------------------------

    def durable(self) -> RecoveredState:
        """Return the state from which the agreement continues.  Only for the thread that writes, like `kept`."""
        self.beside.move_all()
        tail = list(self._tail())
        queue = cast("Iterator[bytes]", self._families["queue"].keys())
        logged = {pair.id: pair.digest for _, pair in tail}
        acquired = [p.transaction for p in self.payloads()]
        return RecoveredState(
            counter=self._number(b"counter"),
            sequence=self._number(b"sequence"),
            last=tail[-1][0] if tail else START,
            queue=tuple(Pair(*PAIR.unpack(key)) for key in queue),
            acquired=[t for t in acquired if (logged.get(t.id) or self.digests.get(t.id)) != t.digest],
            standing=self._standing(),
            blank=self._families["meta"].get(b"blank") is not None,
            tail=tail,
            # A log that was fetched says nothing about the limbo: what the tail has is enough to propose something.
            marks=marks_of(logged_from(self._families["log"], self._limbo) if self._limbo else tail),
        )

    def floor(self) -> int:
        """Return the epoch of the view that last moved the home away from this data centre; 0 if none did."""
        return self._number(b"floor")

    def _standing(self) -> HardState | None:
        value: bytes | None = self._families["meta"].get(b"standing")
        return None if value is None else unpack_standing(value)

    def _number(self, key: bytes) -> int:
        value = cast("Any", self._families["meta"].get(key))
        return 0 if value is None else int(INDEX.unpack(value)[0])

    def _tail(self) -> Iterator[tuple[LogPosition, Pair]]:
        log = self._families["log"]
        return logged_from(log, max(1, newest(log) - POST_LIMIT + 1))

    def logged(self, transaction_id: bytes) -> tuple[int, bytes] | None:
        """Return the index of a synchronised transaction, and the hash of its body."""
        return self.beside.logged(transaction_id)

    def ended(self, transaction_id: bytes) -> int | None:
        """Return the index that a transaction had on a branch with which it ended; None: it did not end so."""
        value: bytes | None = self._families["ended"].get(transaction_id)
        return None if value is None else int(INDEX.unpack(value)[0])

    def index_of(self, transaction_id: bytes) -> int | None:
        """Return the index at which a transaction was agreed, also on a branch with which it ended; None: at none."""
        known = self.logged(transaction_id)
        return self.ended(transaction_id) if known is None else known[0]

    def entry(self, index: int) -> tuple[bytes, Pair] | None:
        """Return the chain hash and the pair of the entry at an index."""
        return self.beside.entry(index)

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash of the entry at an index; None if there is none.  Callable from any thread."""
        entry = self.entry(index)
        return None if entry is None else entry[0]

    @property
    def last(self) -> LogPosition:
        """The end of the log; valid while no part of it is stored in `beside` (`StagedLog.is_moving`)."""
        return self.bootstrap_log.last

    def rows(self, after: int, until: int) -> Iterator[Row]:
        """Yield the rows of the entries after `after` up to `until`; fewer if the log ends before."""
        for index in range(after + 1, until + 1):
            entry = self.entry(index)
            logged = None if entry is None else self.logged(entry[1].id)
            if entry is None or logged is None:
                return
            yield Row(LogPosition(index, entry[0]), entry[1], logged[1], self.rejection(index))

    def payload(self, key: tuple[bytes, bytes]) -> Payload | None:
        """Return a payload that waits, or whose entry is not published yet."""
        value = self.beside.payload(b"".join(key))
        return None if value is None else codec.unpack_payload(value)

    def payloads(self) -> Iterator[Payload]:
        """Yield all stored payloads."""
        values = cast("Iterator[bytes]", self._families["payloads"].values())
        return map(codec.unpack_payload, values)

    def kept(self) -> list[tuple[int, tuple[bytes, bytes]]]:
        """Return the indexes and keys of entries whose payload is stored, in order."""
        self.beside.move_all()
        found: list[tuple[int, tuple[bytes, bytes]]] = []
        for key in cast("Iterator[bytes]", self._families["payloads"].keys()):
            transaction_id, digest = key[:16], key[16:]
            if logged := self.logged(transaction_id):
                found.append((logged[0], (transaction_id, digest)))
        return sorted(found)

    def position(self, topic: str) -> int | None:
        """Return the offset up to which a topic was processed; None if it was not saved."""
        value: bytes | None = self._families["meta"].get(b"at:" + topic.encode())
        return None if value is None else int(INDEX.unpack(value)[0])

    def topic_id(self, topic: str) -> str | None:
        """Return the id of the topic that the saved position refers to; None if it was not saved."""
        value: bytes | None = self._families["meta"].get(b"is:" + topic.encode())
        return None if value is None else value.decode()

    def anchor(self, topic: str) -> Anchor | None:
        """Return the last record that was read of a topic; None if it was not saved."""
        value: bytes | None = self._families["meta"].get(b"of:" + topic.encode())
        if value is None:
            return None
        return Anchor(offset=INDEX.unpack(value[: INDEX.size])[0], digest=value[INDEX.size :])

    def heard(self, node: str) -> bytes | None:
        """Return the last incarnation received of another master; None if it was not saved."""
        value: bytes | None = self._families["meta"].get(b"in:" + node.encode())
        return value

    def effects(self) -> tuple[int, int, int]:
        """Return index and attempt of the last effect received when they were saved, and the newest rewind's epoch."""
        value: bytes | None = self._families["meta"].get(b"effects")
        return (0, 0, 0) if value is None else _EFFECTS.unpack(value)

    def duty(self) -> tuple[Handover, Handover] | None:
        """Return the newest handover as agreed, and the newest one in the effects; None before anything was saved."""
        value: bytes | None = self._families["meta"].get(b"duty")
        return None if value is None else DUTY.validate_json(value)

    def last_cut(self) -> Cut | None:
        """Return the last cut of the log, as written to the agreed topic; None if the log was never cut."""
        value: bytes | None = self._families["meta"].get(b"cut")
        said = None if value is None else codec.decode(value)
        return said if isinstance(said, Cut) else None

    def reached(self) -> Reached | None:
        """Return how far the agreed topic was followed; None if nothing was saved."""
        value: bytes | None = self._families["meta"].get(b"reached")
        if value is None:
            return None
        offset, held, epoch, index, chain = _REACHED.unpack(value)
        return Reached(offset, LogPosition(index, chain), epoch, held)

    def seed(self) -> Seed | None:
        """Return the seed of the log; None if none was received."""
        value: bytes | None = self._families["meta"].get(b"seed")
        said = None if value is None else codec.decode(value)
        return said if isinstance(said, Seed) else None

    def rejected_for(self, reason: str) -> list[int]:
        """Return the indexes of the entries that were not applied for a reason, in order."""
        items = cast("Iterator[tuple[bytes, bytes]]", self._families["rejected"].items())
        return [int(INDEX.unpack(key)[0]) for key, value in items if value == reason.encode()]

    def rejection(self, index: int) -> str | None:
        """Return why the entry at an index was rejected; None if it was not."""
        value: bytes | None = self._families["rejected"].get(INDEX.pack(index))
        return None if value is None else value.decode()


def _cut_of(save: Save, adopted: Adopted, held: int) -> Cut:
    """Return the cut that is written to the agreed topic for an adoption."""
    assert save.standing is not None, "a view is installed with every adoption"
    view, chain = save.standing.view, adopted.joined_log.chain_at(held)
    assert chain is not None, "the topic holds no more than there is"
    return Cut(epoch=view.epoch, lineage=view.id, index=held, chain=chain)


def _packed_reached(reached: Reached) -> bytes:
    end = reached.end
    return _REACHED.pack(reached.offset, reached.held, reached.epoch, end.index, end.chain)
