"""A master takes the branch that its store keeps for its log: at once or not at all, and nothing of its own is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from quadlog.core.messages import Adopted
from quadlog.core.model import GENESIS, HardState, Pair
from quadlog.core.records import Cut
from quadlog.masterstore.store import MasterStore, Taken
from tests.support.masters.master_stores import entries_of, opened, pair_of
from tests.support.workers.branches import JOINED, Logs

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.masterstore.joined_log import StagedJoinedLog


def adopt(logs: Logs, store: MasterStore, last: int = 6, held: int = 0) -> Adopted:
    """Give way to their log up to an index: 4 waits again, and so does what only they have behind it, if it is here."""
    logs.saved(store)
    logs.begin(store)
    branch = store.beside.joined_log()
    assert branch is not None
    adopted = Adopted(branch, logs.others[last - 1].point)
    again = [entry for entry in logs.entries if entry.pair.id not in branch.digests(last)]
    logs.save(
        store,
        adopted=adopted,
        acquired=[logs.payloads[entry.pair.key] for entry in again],
        enqueued=[Pair(100, *entry.pair.key) for entry in again],
        held=held,
    )
    return adopted


def check_adopted(logs: Logs, store: MasterStore, last: int = 6) -> None:
    """The log is theirs up to an index, with all payloads that may be asked for."""
    log = logs.others[:last]
    durable = store.durable()
    assert list(durable.tail) == [(entry.point, entry.pair) for entry in log]
    assert durable.standing == HardState(view=JOINED, promise=4)
    again = [payload for payload in logs.own if payload.transaction.id not in store.digests]
    assert sorted(t.id for t in durable.acquired) == sorted(p.transaction.id for p in again)
    assert sorted(pair.key for pair in durable.queue) == sorted(p.transaction.key for p in again)
    for entry in log:
        payload = logs.payloads[entry.pair.key]
        assert store.logged(entry.pair.id) == (entry.index, payload.body_hash)
    for entry in log[3:]:  # what was read beside does not tell where its client was
        stored, payload = store.payload(entry.pair.key), logs.payloads[entry.pair.key]
        assert stored == replace(payload, origin_dc="")
    assert store.beside.joined_log() is None
    assert not any(list(store._families[name].keys()) for name in ("beside", "beside_ids", "beside_bodies"))


@pytest.mark.parametrize("last", [6, 5, 4, 3, 2])
def test_who_gives_way_has_their_log_and_what_only_it_had_waits(
    tmp_path: Path, logs: Logs, last: int
) -> None:
    """Also where they have less of it than was read, or less than both have."""
    with opened(tmp_path) as store:
        adopted = adopt(logs, store, last)
        assert [p.transaction.id in store.digests for p in logs.theirs] == [n < last for n in range(6)]
        check_adopted(logs, store, last)
        ids = adopted.joined_log.digests(last)
        assert [p.transaction.id in ids for p in logs.theirs] == [n < last for n in range(6)]
    with opened(tmp_path) as store:
        check_adopted(logs, store, last)


def test_a_control_entry_that_is_cut_leaves_nothing(tmp_path: Path, logs: Logs) -> None:
    """It does not wait again, so its payload is of no use; a restart must not take it for acquired."""
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        logs.save(store, adopted=Adopted(branch, branch.last))
        assert store.payload(logs.own[3].transaction.key) is None
        assert list(store.durable().acquired) == []


def test_what_is_agreed_with_the_other_log_stands_behind_it(tmp_path: Path, logs: Logs) -> None:
    """One round may give way, and go on."""
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        [entry] = entries_of([logs.own[3]], after=branch.last)
        logs.save(store, adopted=Adopted(branch, branch.last), acquired=[logs.own[3]], entries=[entry])
        assert store.durable().last == entry.point
        assert store.logged(entry.pair.id) == (7, logs.own[3].body_hash)
        assert store.payload(entry.pair.key) == logs.own[3]


def test_a_payload_that_waited_and_is_in_their_log_stays(tmp_path: Path, logs: Logs) -> None:
    """The agreement releases it, as nothing waits for it any more; but it is to be published here."""
    waiting = logs.theirs[3]
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.save(store, acquired=[waiting], enqueued=[pair_of(waiting, 99)])
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        logs.save(store, adopted=Adopted(branch, branch.last), unneeded=[waiting.transaction.key])
        assert store.payload(waiting.transaction.key) == replace(waiting, origin_dc="")


def test_rejections_of_what_is_cut_are_forgotten(tmp_path: Path, logs: Logs) -> None:
    """Those that were saved, and those that come with the round that cuts."""
    with opened(tmp_path) as store:
        early = Taken(
            positions={}, effects=(4, 1, 0), rejected={2: "no", 3: "nor this", 4: "not this either"}
        )
        logs.save(store, taken=early)
        logs.saved(store)
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        late = Taken(positions={}, effects=(5, 1, 0), rejected={1: "never", 5: "of the branch that is cut"})
        logs.save(store, adopted=Adopted(branch, branch.last), taken=late)
        assert [store.rejection(i) for i in range(1, 7)] == ["never", "no", "nor this", None, None, None]


@pytest.mark.parametrize("held", [0, 2, 3, 5])
def test_the_agreed_topic_is_cut_behind_what_it_holds(tmp_path: Path, logs: Logs, held: int) -> None:
    """Less than both logs have, or more, if another master of the data centre has said it."""
    with opened(tmp_path) as store:
        assert store.last_cut() is None
        adopt(logs, store, held=held)
    with opened(tmp_path) as store:
        chain = logs.others[held - 1].chain if held else GENESIS
        assert store.last_cut() == Cut(epoch=4, lineage=JOINED.id, index=held, chain=chain)


class PowerFailure(Exception):
    """The process ends here."""


def give_way(logs: Logs, store: MasterStore, branch: StagedJoinedLog) -> None:
    """Up to where all of it is in its place."""
    logs.save(
        store,
        adopted=Adopted(branch, branch.last),
        acquired=[logs.own[3]],
        enqueued=[Pair(100, *logs.own[3].transaction.key)],
    )
    store.beside.move_all()


@pytest.mark.parametrize("writes", range(4))
def test_who_dies_while_it_gives_way_has_done_so_or_not(
    tmp_path: Path, logs: Logs, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """What was adopted is moved in pieces behind the batch that counts: a restart ends that."""
    monkeypatch.setattr("quadlog.masterstore.staged_log.PIECE", 1)
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        left, write = writes, store._write

        def fail(batch: object) -> None:
            nonlocal left
            if left == 0:
                raise PowerFailure
            left -= 1
            write(batch)  # type: ignore[arg-type]

        store._write = store.beside._write = fail  # type: ignore[method-assign]
        with pytest.raises(PowerFailure):
            give_way(logs, store, branch)
    with opened(tmp_path) as store:
        if writes:
            check_adopted(logs, store)
        else:
            assert store.durable().last == logs.entries[-1].point
            again = store.beside.joined_log()
            assert again is not None
            assert again.last == branch.last


def looked_up(logs: Logs, store: MasterStore) -> list[tuple[int, bytes, bool]]:
    """Of each entry of their log index and chain as looked up, and whether its payload is there, by what is public."""
    found: list[tuple[int, bytes, bool]] = []
    for entry in logs.others:
        logged, at = store.logged(entry.pair.id), store.entry(entry.index)
        assert logged is not None
        assert at is not None
        assert entry.pair.id in store.digests
        found.append((logged[0], at[0], store.payload(entry.pair.key) is not None))
    return found


def is_moving(store: MasterStore) -> bool:
    """Whether what was adopted is not all in its place."""
    return store.beside.is_moving


def test_what_is_on_its_way_to_its_place_is_found(
    tmp_path: Path, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece a round; what nobody needs any more meanwhile does not come back with a later piece."""
    monkeypatch.setattr("quadlog.masterstore.staged_log.PIECE_ENTRIES", 1)
    known = [(entry.index, entry.chain) for entry in logs.others]
    with opened(tmp_path) as store:
        adopted = adopt(logs, store)
        assert looked_up(logs, store) == [(*point, True) for point in known]
        ids = adopted.joined_log.digests(5)
        assert [payload.transaction.id in ids for payload in logs.theirs] == [True] * 5 + [False]
        assert logs.own[3].transaction.id not in store.digests, "of the branch that was cut"
        store.beside.drop()
        logs.save(store, unneeded=[logs.theirs[5].transaction.key])
        assert is_moving(store)
        there = [True] * 5 + [False]
        assert looked_up(logs, store) == [
            (*point, is_there) for point, is_there in zip(known, there, strict=True)
        ]
        store.beside.begin(logs.fork, JOINED.id, logs.others[-1].point)
        assert not is_moving(store)
        assert looked_up(logs, store) == [
            (*point, is_there) for point, is_there in zip(known, there, strict=True)
        ]
