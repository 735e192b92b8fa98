"""Masters of the weather on real stores: each remembers what the weather's disk does, no more and no less."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from quadlog.core.approval import implied_by, implied_payload
from quadlog.core.messages import Adopted
from quadlog.core.model import START, Payload, first_view
from quadlog.core.records import Cut, LoggedEntry, Reached
from quadlog.master.log.retained_payloads import RetainedPayloads
from quadlog.master.payloads.bodies import Bodies
from quadlog.masterstore.store import MasterStore, Taken
from tests.support.agreement.cluster import CrashError, Disk, Member
from tests.support.agreement.weather import Weather
from tests.support.agreement.world import World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.messages import AgreementLimits, LoggedDigests, RecoveredState, Save
    from quadlog.core.model import Transaction
    from quadlog.masterstore.joined_log import StagedJoinedLog
    from tests.support.agreement.cluster import Beside, Logged

ROOM = 3000
"""Bytes of payloads in memory: two or three, so that most are read from the store."""
THOROUGH = 20
"""All is compared with every so many saves."""
VIEW = first_view({"m1": "dc1"})


def payload_of(transaction: Transaction) -> Payload:
    """What a client gave with it."""
    if (implied := implied_payload(transaction.key)) is not None:
        return implied
    return Payload(
        transaction=transaction,
        origin="m1",
        origin_dc="",
        created=7,
        media_type="text",
        body=transaction.digest * 3,
    )


def said(log: Sequence[Logged], after: int, index: int) -> list[LoggedEntry]:
    """Entries as an agreed topic says them, from one index to another."""
    previous = (log[after - 1].point if after else START).chain
    entries: list[LoggedEntry] = []
    for entry in log[after:index]:
        payload = payload_of(entry.transaction)
        entries.append(
            LoggedEntry(
                index=entry.point.index,
                kind=entry.transaction.kind,
                id=entry.pair.id,
                timestamp=entry.pair.timestamp,
                digest=entry.pair.digest,
                options=entry.transaction.options,
                previous=previous,
                chain=entry.point.chain,
                epoch=VIEW.epoch,
                lineage=VIEW.id,
                origin=payload.origin,
                created=payload.created,
                media_type=payload.media_type,
                body=payload.body,
            )
        )
        previous = entry.point.chain
    return entries


class StoredDisk(Disk):
    """What was saved, twice: in memory, and in RocksDB."""

    def __init__(self, path: Path, covered: Counter[str]) -> None:
        """Nothing was saved."""
        super().__init__()
        self._path, self.covered = path, covered
        self.settled: Callable[[], int] = lambda: 0
        """Up to which index nothing is cut any more, as the agreement says."""
        self.published: Callable[[], int] = lambda: 0
        """Count of entries in the agreed topic."""
        self.store: MasterStore | None = None
        self.mirror: Beside | None = None
        """What was read beside, in memory."""
        self.held = 0
        """Index up to which the agreed topic has the log."""
        self.released = 0
        """Index up to which the payloads of entries are gone."""
        self._saves, self._dies = 0, False
        self._chance = random.Random(path.name)

    def open(self) -> MasterStore:
        """Begin a process."""
        if self.store is not None:
            self.covered["half moved"] += self.store.beside.is_moving
            self.store.close()
            self.covered["restarts"] += 1
        self.store = MasterStore(self._path)
        self.bodies = Bodies(self.store, room=ROOM)
        self.retained = RetainedPayloads(self.store.kept())
        self.held = len(self.log)
        return self.store

    def durable(self) -> RecoveredState:
        """As the store tells it; checked."""
        self.compare()
        assert self.store is not None
        return self.store.durable()

    @property
    def logged(self) -> LoggedDigests:
        """Digests of all that is synchronised."""
        assert self.store is not None
        return self.store.digests

    def save(self, save: Save) -> None:
        """One batch."""
        assert self.store is not None
        settled, published = self.settled(), self.published()
        self.retained.add((entry.point.index, entry.pair.key) for entry in self.log[self.held : published])
        self.held = published
        unpublished = {entry.pair.key for entry in save.entries}
        unneeded = [key for key in save.released if key not in unpublished]
        if save.adopted is not None:
            self._give_way(save.adopted, save)
        else:
            unneeded += self.retained.release_up_to(settled)
            self.released = max(self.released, min(settled, published))
            super().save(save)
        self.store.save(
            save,
            payloads=self.bodies,
            taken=Taken(
                positions={},
                effects=(0, 0, 0),
                rejected={},
                reached=Reached(held=0 if save.adopted is None else save.adopted.kept),
            ),
            unneeded=unneeded,
        )
        if self._dies:
            self.covered["half adopted"] += 1
            self._dies = False
            raise CrashError
        self.bodies.saved()
        for key in save.released:
            self.bodies.drop(key)
        self._saves += 1
        self._look_up()
        if self._saves % THOROUGH == 0:
            self.compare()
        if save.adopted is not None:
            self._check_cut(save.adopted, save)

    def _give_way(self, adopted: Adopted, save: Save) -> None:
        """In memory; and once in a while the process dies before anything is in its place."""
        assert self.mirror is not None
        assert self.store is not None
        assert adopted.kept >= self.released, "an entry is cut whose payload is gone"
        self.covered["cut"] += adopted.kept < len(self.log)
        self.covered["extended"] += adopted.kept == len(self.log)
        self.covered["adopted entries"] += adopted.last.index - adopted.kept
        self.covered["submitted anew"] += len(save.acquired)
        self.retained.truncate(adopted.kept)
        self.held = adopted.kept
        super().save(replace(save, adopted=Adopted(self.mirror, adopted.last, adopted.ended)))
        self._dies = self._chance.random() < 0.3

    def _check_cut(self, adopted: Adopted, save: Save) -> None:
        assert self.store is not None
        assert save.standing is not None
        view, kept = save.standing.view, adopted.kept
        chain = (self.log[kept - 1].point if kept else START).chain
        assert self.store.last_cut() == Cut(epoch=view.epoch, lineage=view.id, index=kept, chain=chain)

    def compare(self) -> None:
        """The store remembers what the memory does, no more and no less; all that was adopted is in its place then."""
        store = self.store
        assert store is not None
        self._look_up()
        stored, known = store.durable(), super().durable()
        assert (stored.counter, stored.sequence, stored.standing) == (
            known.counter,
            known.sequence,
            known.standing,
        )
        assert (stored.last, list(stored.tail)) == (known.last, list(known.tail))
        assert sorted(stored.queue) == sorted(known.queue)
        assert {t.key: t for t in stored.acquired} == {t.key: t for t in known.acquired}
        assert set(store._families["ids"].keys()) == self.ids
        waiting = {p.transaction.key: p for p in store.payloads() if implied_by(p.transaction.key) is None}
        assert waiting.keys() == {
            *self.acquired,
            *(e.pair.key for e in self.log[self.released :] if implied_by(e.pair.key) is None),
        }
        assert all(payload == payload_of(payload.transaction) for payload in waiting.values())

    def _look_up(self) -> None:
        """Whatever is looked up is found, also where it is on its way to its place."""
        store = self.store
        assert store is not None
        for entry in self.log:
            index, payload = entry.point.index, payload_of(entry.transaction)
            assert store.entry(index) == (entry.point.chain, entry.pair)
            assert store.logged(entry.pair.id) == (index, payload.body_hash)
            if implied_by(entry.pair.key) is not None:
                continue  # nobody needs its payload
            is_there = store.payload(entry.pair.key) == payload
            assert is_there is (index > self.released or entry.pair.key in self.acquired)
        assert store.entry(len(self.log) + 1) is None
        for transaction in self.acquired.values():
            assert store.payload(transaction.key) == payload_of(transaction)


class StoredMember(Member):
    """One master with a real store."""

    root: ClassVar[Path]
    covered: ClassVar[Counter[str]]
    disk: StoredDisk

    def _disk(self) -> Disk:
        return StoredDisk(self.root / f"{self.name}.{self.losses}", self.covered)

    def _core(self) -> Agreement:
        self.disk.open()
        core = super()._core()
        self.disk.settled = lambda: core.settled
        self.disk.published = lambda: 0 if core.is_blank else len(self.published)
        return core

    def lose_disk(self, at: float) -> None:
        """Begin with another directory."""
        assert self.disk.store is not None
        self.disk.store.close()
        self.covered["lost disks"] += 1
        super().lose_disk(at)

    def submit(self, transaction: Transaction, at: float) -> None:
        """A client gave it, and its payload is durable here."""
        self._keep_body(transaction)
        super().submit(transaction, at)

    def acquire(self, transaction: Transaction, at: float) -> None:
        """Its payload was mirrored to here."""
        self._keep_body(transaction)
        super().acquire(transaction, at)

    def _keep_body(self, transaction: Transaction) -> None:
        """As a node does: what the agreement is given for the first time."""
        core, bodies, key = self.core, self.disk.bodies, transaction.key
        if key not in bodies and core.needs_payload(key):
            bodies.add(payload_of(transaction))

    def restart(self, at: float) -> None:
        """After a crash: from the store, then from the own data centre's Kafka."""
        super().restart(at)
        for transaction in self.core._local_state.changes.acquired:
            self.disk.bodies.add(payload_of(transaction))

    def _read(self, joined_log: Beside) -> StagedJoinedLog:
        """Keep it in the store: as more of the same, if it is that."""
        beside, store = self.core.standing.joining, self.disk.store
        assert beside is not None
        assert store is not None
        known = store.beside.joined_log()
        is_more = (
            known is not None
            and (known.view, known.own, known.fork) == (beside.id, joined_log.own, joined_log.fork)
            and joined_log.chain_at(known.last.index) == known.last.chain
        )
        self.disk.covered["read on" if is_more else "begun"] += 1
        if known is None or not is_more:
            store.beside.begin(joined_log.fork, beside.id, joined_log.own)
            after = joined_log.fork.index
        else:
            after = known.last.index
        store.beside.add(said(joined_log.entries(0, joined_log.last.index), after, joined_log.last.index))
        stored = store.beside.joined_log()
        assert stored is not None
        self.disk.mirror = joined_log
        self._compare(stored, joined_log)
        return stored

    def _compare(self, stored: StagedJoinedLog, joined_log: Beside) -> None:
        """Both say the same."""
        assert (stored.own, stored.fork, stored.last) == (joined_log.own, joined_log.fork, joined_log.last)
        end = joined_log.last.index
        for index in {0, 1, stored.fork.index, stored.fork.index + 1, end // 2, end, end + 1}:
            assert stored.chain_at(index) == joined_log.chain_at(index)
            for length in (1, 5, 5000):
                assert list(stored.tail(index, length)) == list(joined_log.tail(index, length))
            digests = stored.digests(index)
            both = {entry.pair.id for entry in (*joined_log.entries(0, end), *self.disk.log)}
            assert {name: digests.get(name) for name in both if name in digests} == joined_log.digests(index)
            if min(index, stored.fork.index) >= self.disk.released:  # nobody gives way to less
                assert list(stored.given_way(index)) == list(joined_log.given_way(index))


class StoredWeather(Weather):
    """Less of it: every save is compared."""

    def run(self) -> None:
        """Bad weather, then clear."""
        try:
            for _ in range(self.random.randint(2, 6)):
                self.change()
                for _ in range(self.random.randint(50, 500)):
                    self.step()
            self._clear()
            for member in self.world.members.values():
                assert isinstance(member.disk, StoredDisk)
                member.disk.compare()
        finally:
            self.close()

    def close(self) -> None:
        """Release all directories."""
        for member in self.world.members.values():
            assert isinstance(member, StoredMember)
            if member.disk.store is not None:
                member.disk.store.close()


def weather(seed: int, root: Path, covered: Counter[str], limits: AgreementLimits) -> StoredWeather:
    """One run, in a directory of its own."""

    class Here(StoredMember):
        pass

    class There(World):
        member_of = Here

    class Bad(StoredWeather):
        world_of = There

    Here.root, Here.covered = root / str(seed), covered
    return Bad(seed, limits=limits)
