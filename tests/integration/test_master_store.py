"""The durable half of a master: what was saved is there, also after kill -9."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quadlog import codec
from quadlog.core.messages import POST_LIMIT, Save
from quadlog.core.model import (
    GENESIS,
    START,
    Entry,
    LogPosition,
    Pair,
    Payload,
    chain_hash,
)
from quadlog.core.records import Handover, Reached
from quadlog.errors import SetupError
from quadlog.masterstore.store import MasterStore, Taken
from tests.support.masters.master_stores import entries_of, opened, pair_of, payload_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def save(
    store: MasterStore,
    number: int,
    *,
    acquired: Sequence[Payload] = (),
    enqueued: Sequence[Pair] = (),
    dequeued: Sequence[Pair] = (),
    entries: Sequence[Entry] = (),
    payloads: Sequence[Payload] = (),
    unneeded: Sequence[tuple[bytes, bytes]] = (),
    positions: Mapping[str, int] | None = None,
    rejected: Mapping[int, str] | None = None,
) -> None:
    """One round."""
    store.save(
        Save(
            counter=number << 40,
            sequence=number,
            acquired=tuple(payload.transaction for payload in acquired),
            enqueued=tuple(enqueued),
            dequeued=tuple(dequeued),
            entries=tuple(entries),
            released=(),
        ),
        payloads={payload.transaction.key: payload for payload in (*acquired, *payloads)},
        taken=Taken(positions=positions or {}, effects=(number, 2, 0), rejected=rejected or {}),
        unneeded=unneeded,
    )


def test_a_new_store_knows_nothing_but_who_it_is(tmp_path: Path) -> None:
    with opened(tmp_path / "a" / "b") as store:
        durable = store.durable()
        assert (durable.counter, durable.sequence, durable.last) == (0, 0, START)
        assert [*durable.queue, *durable.acquired, *durable.tail] == []
        assert store.position("t") is None
        assert store.effects() == (0, 0, 0)
        incarnation = store.incarnation
    with opened(tmp_path / "a" / "b") as store:
        assert store.incarnation == incarnation
    with opened(tmp_path / "c") as other:
        assert other.incarnation != incarnation


def test_what_is_saved_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    one, two, three = (payload_of(number) for number in (1, 2, 3))
    [entry] = entries_of([one])
    waiting = [pair_of(two, 300), pair_of(three, 70_000), pair_of(three, 256)]
    with opened(tmp_path) as store:
        save(
            store,
            1,
            acquired=[one, two],
            enqueued=[entry.pair, *waiting],
            positions={"main.dc1.payloads": 7, "ü": 0},
        )
        save(
            store,
            2,
            dequeued=[entry.pair],
            entries=[entry],
            payloads=[one],
            positions={"main.dc1.payloads": 2**40},
            rejected={1: "because"},
        )
        assert (store.rounds, store.synced_writes) == (2, 3), "one sync a round, one for the incarnation"
    with opened(tmp_path) as store:
        durable = store.durable()
        assert (durable.counter, durable.sequence) == (2 << 40, 2)
        assert durable.last == entry.point
        assert list(durable.tail) == [(entry.point, entry.pair)]
        # In the order of timestamps, as numbers.
        assert list(durable.queue) == sorted(waiting)
        # The first one's payload is still there, for the agreed topic, but waits for nothing.
        assert list(durable.acquired) == [two.transaction]
        assert store.payload(one.transaction.key) == one
        assert one.transaction.id in store.digests
        assert two.transaction.id not in store.digests
        assert store.logged(one.transaction.id) == (1, one.body_hash)
        assert store.logged(two.transaction.id) is None
        assert store.entry(1) == (entry.chain, entry.pair)
        assert store.entry(2) is None
        assert store.position("main.dc1.payloads") == 2**40
        assert store.position("ü") == 0
        assert store.effects() == (2, 2, 0)
        assert store.rejection(1) == "because"
        assert store.rejection(2) is None


def test_who_evaluates_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    agreed, heard = (Handover(index=n, term=bytes([n]) * 32, dc=f"dc{n}", start=10 * n) for n in (2, 1))
    nothing = Save(counter=0, sequence=0, acquired=(), enqueued=(), dequeued=(), entries=(), released=())
    with opened(tmp_path) as store:
        assert store.duty() is None
        taken = Taken(positions={}, effects=(1, 2, 0), rejected={}, duty=(agreed, heard))
        store.save(nothing, payloads={}, taken=taken, unneeded=())
    with opened(tmp_path) as store:
        assert store.duty() == (agreed, heard)


def test_a_round_is_one_sync_however_much_is_in_it(tmp_path: Path) -> None:
    payloads = [payload_of(number) for number in range(500)]
    with opened(tmp_path) as store:
        for number in range(10):
            before = store.synced_writes
            ours = payloads[number * 50 : (number + 1) * 50]
            save(store, number, acquired=ours, enqueued=[pair_of(one, number) for one in ours])
            assert store.synced_writes == before + 1


def test_payloads_go_when_nobody_needs_them(tmp_path: Path) -> None:
    one, two = payload_of(1), payload_of(2)
    with opened(tmp_path) as store:
        save(store, 1, acquired=[one, two])
        save(store, 2, unneeded=[one.transaction.key])
        assert list(store.payloads()) == [two]
    with opened(tmp_path) as store:
        assert list(store.payloads()) == [two]
        assert store.payload(one.transaction.key) is None


def test_two_bodies_of_one_id_are_two_payloads(tmp_path: Path) -> None:
    first, second = payload_of(1, b"a"), payload_of(1, b"b")
    with opened(tmp_path) as store:
        save(store, 1, acquired=[first, second], enqueued=[pair_of(first, 1), pair_of(second, 1)])
        assert store.payload(first.transaction.key) == first
        assert store.payload(second.transaction.key) == second
        assert sorted(store.durable().queue) == sorted([pair_of(first, 1), pair_of(second, 1)])


def test_a_large_payload_is_whole(tmp_path: Path) -> None:
    large = payload_of(1, bytes(range(256)) * (codec.CHUNK // 100))
    assert len(large.body) > 2 * codec.CHUNK
    with opened(tmp_path) as store:
        save(store, 1, acquired=[large])
    with opened(tmp_path) as store:
        assert list(store.payloads()) == [large]


def test_the_tail_reaches_back_as_far_as_a_post(tmp_path: Path) -> None:
    """Across 255 and 65535, where keys that are not big-endian would be out of order."""
    payloads = [payload_of(number) for number in range(1, POST_LIMIT + 301)]
    log = entries_of(payloads)
    with opened(tmp_path) as store:
        save(store, 1, entries=log, payloads=payloads)
        tail = store.durable().tail
        assert len(tail) == POST_LIMIT
        assert tail[-1] == (log[-1].point, log[-1].pair)
        assert [point.index for point, _ in tail] == list(range(301, POST_LIMIT + 301))
        assert store.durable().last == log[-1].point


def test_a_directory_is_one_masters(tmp_path: Path) -> None:
    with opened(tmp_path / "rocksdb") as store:
        save(store, 1)
        program = (
            "import sys, pathlib, quadlog.masterstore.store as s; s.MasterStore(pathlib.Path(sys.argv[1]))"
        )
        command = [sys.executable, "-c", program, str(tmp_path / "rocksdb")]
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert other.returncode == 1
        assert "SetupError" in other.stderr
        assert "Is another master running on it?" in other.stderr
        assert str(tmp_path / "rocksdb") in other.stderr
        with pytest.raises(SetupError, match="cannot be opened"):
            MasterStore(tmp_path / "rocksdb")
        save(store, 2)


def test_a_path_that_cannot_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here already")
    with pytest.raises(SetupError, match="cannot be opened"):
        MasterStore(tmp_path / "file" / "rocksdb")


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from quadlog.masterstore.store import MasterStore
from tests.support.masters.master_stores import entries_of, pair_of, payload_of
from tests.integration.test_master_store import save

store = MasterStore(Path({path!r}))
durable = store.durable()
number, last = durable.sequence, durable.last
while True:
    number += 1
    payload = payload_of(number)
    [entry] = entries_of([payload], after=last)
    save(store, number, acquired=[payload_of(10**9 + number)], enqueued=[pair_of(payload_of(10**9 + number), number)],
         entries=[entry], payloads=[payload], positions={{"t": number}})
    last = entry.point
    print(number, flush=True)
"""


def test_nothing_that_was_saved_is_missing_after_kill_9(tmp_path: Path) -> None:
    """Again and again, at whatever moment: what `save` returned from is there, and nothing is torn."""
    path, root = tmp_path / "rocksdb", str(Path(__file__).parents[2])
    program = WRITER.format(path=str(path), root=root)
    told = 0
    for wanted in (1, 40, 7, 150, 3):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for count, line in enumerate(writer.stdout, start=1):
                told = int(line)
                if count == wanted:
                    break
            writer.kill()
            told = max([told, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        with opened(path) as store:
            durable = store.durable()
            saved = durable.sequence
            assert saved >= told, "save returned, and it is gone"
            assert saved <= told + 1, "one save at a time"
            # All of a round or nothing of it.
            assert durable.counter == saved << 40
            assert store.position("t") == saved
            assert durable.last.index == saved
            assert [pair.timestamp for pair in durable.queue] == list(range(1, saved + 1))
            assert len(durable.acquired) == saved
            assert [point.index for point, _ in durable.tail] == list(range(1, saved + 1))
            for (before, _), (point, pair) in pairwise([(LogPosition(0, GENESIS), None), *durable.tail]):
                transaction = payload_of(point.index).transaction
                assert pair == pair_of(payload_of(point.index), point.index)
                assert point.chain == chain_hash(before.chain, transaction, point.index)
    assert told > 150


def test_a_new_disk_beside_old_topics_is_blank_until_it_is_let_in(tmp_path: Path) -> None:
    """Its incarnation is later than the one that its topic knows; a restart in between does not make it forget."""
    lost = b"\x01" + bytes(15)
    store = MasterStore(tmp_path / "lost", before=lambda: lost)
    assert store.incarnation > lost
    assert store.durable().blank
    incarnation = store.incarnation
    store.close()
    again = MasterStore(tmp_path / "lost")
    assert (again.incarnation, again.durable().blank) == (incarnation, True)
    again.close()
    first = MasterStore(tmp_path / "first")
    assert not first.durable().blank
    first.close()


def test_how_far_the_agreed_topic_was_followed_is_remembered(tmp_path: Path) -> None:
    """With the round that it was followed in: what a start takes for said is in the topic."""
    nothing = Save(counter=0, sequence=0, acquired=(), enqueued=(), dequeued=(), entries=(), released=())
    reached = Reached(offset=17, end=LogPosition(9, b"\x09" * 32), epoch=4, held=7)
    with opened(tmp_path) as store:
        assert store.reached() is None, "all of the topic is read"
        taken = Taken(positions={}, effects=(0, 0, 0), rejected={}, reached=reached)
        store.save(nothing, payloads={}, taken=taken, unneeded=())
    with opened(tmp_path) as store:
        assert store.reached() == reached


def test_which_topic_a_position_is_in_is_remembered_with_it(tmp_path: Path) -> None:
    """In one round: offsets mean nothing in a topic that was made anew."""
    nothing = Save(counter=0, sequence=0, acquired=(), enqueued=(), dequeued=(), entries=(), released=())
    with opened(tmp_path) as store:
        assert store.topic_id("main.dc2.payloads") is None
        for position, topics in (
            (7, {"main.dc2.payloads": "first"}),
            (9, {}),
            (0, {"main.dc2.payloads": "second"}),
        ):
            positions = {"main.dc2.payloads": position}
            taken = Taken(positions=positions, effects=(0, 0, 0), rejected={}, topics=topics)
            store.save(nothing, payloads={}, taken=taken, unneeded=())
            found = store.topic_id("main.dc2.payloads"), store.position("main.dc2.payloads")
            assert found == ("second" if position == 0 else "first", position)
    with opened(tmp_path) as store:
        assert store.topic_id("main.dc2.payloads") == "second"
