"""RocksDB stops here: what a master must remember.

    meta        counter, sequence, incarnation, standing, effects, duty, seed; positions in topics (``at:`` + topic)
    queue       pair -> nothing                        the incoming queue
    payloads    id + digest -> payload                 what waits, and what the agreed topic has not got yet
    log         index -> chain + pair                  the synchronised queue, without bodies
    ids         id -> index + hash of the body         for ever
    rejected    index -> reason

Numbers are big-endian: RocksDB iterates keys as bytes.
"""

from __future__ import annotations

import json
import re
import secrets
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from rocksdict import AccessType, ColumnFamily, Options, Rdict, WriteBatch

from quadlog import codec
from quadlog.core.messages import POST_LIMIT, Durable
from quadlog.core.model import START, Handover, Pair, Point, Seed
from quadlog.errors import SetupError
from quadlog.standing import pack_standing, unpack_standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from quadlog.core.messages import Save
    from quadlog.core.model import Payload, Standing

FAMILIES: Final = ("meta", "queue", "payloads", "log", "ids", "rejected")

_INDEX: Final = struct.Struct(">Q")
_PAIR: Final = struct.Struct(">Q16s32s")
_LOGGED: Final = struct.Struct(">32sQ16s32s")
_ID: Final = struct.Struct(">Q16s")
_EFFECTS: Final = struct.Struct(">QQ")


class Payloads(Protocol):
    """Where payloads are found by their key."""

    def __getitem__(self, key: tuple[bytes, bytes], /) -> Payload:
        """The payload of this id and digest."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What was heard up to now.  In the same batch as what came of it: a restart misses nothing."""

    positions: Mapping[str, int]
    """Topic to the offset where a restart has to read on."""
    effects: tuple[int, int]
    """Index and attempt of the last effect heard."""
    rejected: Mapping[int, str]
    """Index to reason, of rejections heard."""
    seed: Seed | None = None
    """What the log begins with, if it was heard."""
    duty: tuple[Handover, Handover] | None = None
    """Who is to evaluate, as agreed, and as the effects heard tell; None: as saved before."""


class MasterStore:
    """The durable half of a master.  Written by one thread; read by any."""

    def __init__(self, path: Path) -> None:
        """Open or make the store in `path`.

        Raises:
            SetupError: another process holds it, or it cannot be made.

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
            message = (
                f"{path} cannot be opened: {error}. Is another master running on it? Stop it, or set data-dir"
            )
            raise SetupError(message) from error
        self._options = options
        self._families: dict[str, Rdict] = {name: self._db.get_column_family(name) for name in FAMILIES}
        self._handles: dict[str, ColumnFamily] = {
            name: self._db.get_column_family_handle(name) for name in FAMILIES
        }
        self.rounds = 0
        """Saved since the start."""
        self.incarnation: Final = self._incarnation()

    def close(self) -> None:
        """Release the directory."""
        self._handles.clear()  # each one would hold the database open
        for family in self._families.values():
            family.close()
        self._db.close()

    def _incarnation(self) -> bytes:
        known: bytes | None = self._families["meta"].get(b"incarnation")
        if known is None:
            known = secrets.token_bytes(16)
            batch = WriteBatch(raw_mode=True)
            batch.put(b"incarnation", known, self._handles["meta"])
            self._write(batch)
        return known

    def _write(self, batch: WriteBatch) -> None:
        """Write, and sync.  In two steps: `write` with `sync` set keeps all other threads from running meanwhile."""
        self._db.write(batch)
        self._db.flush_wal(True)  # noqa: FBT003 - RocksDB's own names

    # --- writing: one synced batch a round --------------------------------------------------------

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
            save: what the agreement asks for.
            payloads: at least those that `save` acquired or appended.
            taken: what was heard up to now.
            unneeded: keys of payloads whose entries the agreed topic has, or that nobody will ask for.

        """
        batch = WriteBatch(raw_mode=True)
        meta, queue, stored, log, ids, rejected = (self._handles[name] for name in FAMILIES)
        self._put_agreement(batch, save)
        batch.put(b"effects", _EFFECTS.pack(*taken.effects), meta)
        if taken.duty is not None:
            batch.put(b"duty", _packed(taken.duty), meta)
        if taken.seed is not None:
            batch.put(b"seed", codec.encode_seed(taken.seed), meta)
        for topic, offset in taken.positions.items():
            batch.put(b"at:" + topic.encode(), _INDEX.pack(offset), meta)
        for index, reason in taken.rejected.items():
            batch.put(_INDEX.pack(index), reason.encode(), rejected)
        for transaction in save.acquired:
            batch.put(b"".join(transaction.key), codec.pack_payload(payloads[transaction.key]), stored)
        for pair in save.enqueued:
            batch.put(_PAIR.pack(*pair), b"", queue)
        for pair in save.dequeued:
            batch.delete(_PAIR.pack(*pair), queue)
        for entry in save.entries:
            pair = entry.pair
            batch.put(_INDEX.pack(entry.index), _LOGGED.pack(entry.chain, *pair), log)
            batch.put(pair.id, _ID.pack(entry.index, payloads[pair.key].body_hash), ids)
        for key in unneeded:
            batch.delete(b"".join(key), stored)
        self._write(batch)
        self.rounds += 1

    def _put_agreement(self, batch: WriteBatch, save: Save) -> None:
        meta = self._handles["meta"]
        batch.put(b"counter", _INDEX.pack(save.counter), meta)
        batch.put(b"sequence", _INDEX.pack(save.sequence), meta)
        if save.standing is not None:
            batch.put(b"standing", pack_standing(save.standing), meta)

    @property
    def synced_writes(self) -> int:
        """How often RocksDB synced its log since the start, by its own count."""
        statistics = self._options.get_statistics() or ""
        found = re.search(r"^rocksdb\.wal\.synced COUNT : (\d+)$", statistics, re.MULTILINE)
        assert found is not None, "RocksDB counts its syncs"
        return int(found[1])

    # --- reading ------------------------------------------------------------------------------------

    def durable(self) -> Durable:
        """What the agreement goes on from."""
        tail = list(self._tail())
        queue = cast("Iterator[bytes]", self._families["queue"].keys())
        logged = {pair.id for _, pair in tail}
        acquired = [p.transaction for p in self.payloads() if p.transaction.id not in logged]
        return Durable(
            counter=self._number(b"counter"),
            sequence=self._number(b"sequence"),
            last=tail[-1][0] if tail else START,
            queue=tuple(Pair(*_PAIR.unpack(key)) for key in queue),
            acquired=[t for t in acquired if t.id not in self],
            standing=self._standing(),
            tail=tail,
        )

    def _standing(self) -> Standing | None:
        value: bytes | None = self._families["meta"].get(b"standing")
        return None if value is None else unpack_standing(value)

    def _number(self, key: bytes) -> int:
        value = cast("Any", self._families["meta"].get(key))
        return 0 if value is None else int(_INDEX.unpack(value)[0])

    def _tail(self) -> Iterator[tuple[Point, Pair]]:
        log = self._families["log"]
        newest = cast("Any", next(iter(log.keys(backwards=True)), None))
        if newest is None:
            return
        first = max(1, _INDEX.unpack(newest)[0] - POST_LIMIT + 1)
        items = cast("Iterator[tuple[bytes, bytes]]", log.items(from_key=_INDEX.pack(first)))
        for key, value in items:
            chain, *pair = _LOGGED.unpack(value)
            yield Point(_INDEX.unpack(key)[0], chain), Pair(*pair)

    def __contains__(self, transaction_id: object) -> bool:
        """Is a transaction of this id synchronised?"""
        return isinstance(transaction_id, bytes) and self._families["ids"].get(transaction_id) is not None

    def logged(self, transaction_id: bytes) -> tuple[int, bytes] | None:
        """Index of a synchronised transaction, and the hash of its body."""
        value = cast("Any", self._families["ids"].get(transaction_id))
        return None if value is None else _ID.unpack(value)

    def entry(self, index: int) -> tuple[bytes, Pair] | None:
        """Chain hash and pair of the entry at an index."""
        value: bytes | None = self._families["log"].get(_INDEX.pack(index))
        if value is None:
            return None
        chain, *pair = _LOGGED.unpack(value)
        return chain, Pair(*pair)

    def payload(self, key: tuple[bytes, bytes]) -> Payload | None:
        """A payload that waits, or whose entry is not published yet."""
        value: bytes | None = self._families["payloads"].get(b"".join(key))
        return None if value is None else codec.unpack_payload(value)

    def payloads(self) -> Iterator[Payload]:
        """All of them."""
        values = cast("Iterator[bytes]", self._families["payloads"].values())
        return map(codec.unpack_payload, values)

    def position(self, topic: str) -> int | None:
        """Up to which offset a topic was taken in."""
        value: bytes | None = self._families["meta"].get(b"at:" + topic.encode())
        return None if value is None else int(_INDEX.unpack(value)[0])

    def effects(self) -> tuple[int, int]:
        """Index and attempt of the last effect that was heard when it was saved last."""
        value = cast("Any", self._families["meta"].get(b"effects"))
        return (0, 0) if value is None else _EFFECTS.unpack(value)

    def duty(self) -> tuple[Handover, Handover] | None:
        """Who is to evaluate: as agreed, and as the effects heard tell; None before anything was saved."""
        value: bytes | None = self._families["meta"].get(b"duty")
        return None if value is None else _unpacked(value)

    def seed(self) -> Seed | None:
        """What the log begins with; None: it was not heard of."""
        value: bytes | None = self._families["meta"].get(b"seed")
        said = None if value is None else codec.decode(value)
        return said if isinstance(said, Seed) else None

    def rejection(self, index: int) -> str | None:
        """Why the entry at an index was rejected, if it was."""
        value: bytes | None = self._families["rejected"].get(_INDEX.pack(index))
        return None if value is None else value.decode()


def _packed(duties: Iterable[Handover]) -> bytes:
    return json.dumps([(duty.index, duty.term.hex(), duty.dc, duty.start) for duty in duties]).encode()


def _unpacked(value: bytes) -> tuple[Handover, Handover]:
    agreed, heard = (
        Handover(index=index, term=bytes.fromhex(term), dc=dc, start=start[0] if start else 0)
        for index, term, dc, *start in json.loads(value)  # earlier versions did not know where a term begins
    )
    return agreed, heard
