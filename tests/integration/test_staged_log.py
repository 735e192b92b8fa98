"""The log of a stronger side, as a master's store keeps it beside the own one: a branch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rocksdict import AccessType, Options, Rdict

from quadlog.core.model import GENESIS, START, TransactionKind
from quadlog.core.synchronous import COMMIT_MODE, CommitMode, marked
from quadlog.errors import StateError
from quadlog.master.log.log_publisher import logged_entry
from tests.support.masters.master_stores import entries_of, opened, payload_of
from tests.support.workers.branches import JOINED, Logs

if TYPE_CHECKING:
    from pathlib import Path


def test_a_branch_is_the_own_log_up_to_the_fork_and_theirs_from_there_on(tmp_path: Path, logs: Logs) -> None:
    with opened(tmp_path) as store:
        logs.saved(store)
        assert store.beside.joined_log() is None
        logs.begin(store, entries=1)
        store.beside.add(logs.said[1:])
    with opened(tmp_path) as store:
        branch = store.beside.joined_log()
        assert branch is not None
        assert (branch.view, branch.fork, branch.own) == (JOINED.id, logs.fork, logs.entries[-1].point)
        assert branch.last == logs.others[-1].point
        assert [branch.chain_at(index) for index in range(8)] == [
            GENESIS, *(entry.chain for entry in logs.others), None,
        ]  # fmt: skip
        told = [(entry.point, entry.pair) for entry in logs.others]
        for index in range(8):
            for length in (1, 2, 4, 100):
                assert list(branch.tail(index, length)) == told[max(0, index - length) : index][-length:]
            known = {payload.transaction.id for payload in logs.theirs[:index]}
            everything = (*logs.own, *logs.theirs)
            ids = branch.digests(index)
            assert {p.transaction.id for p in everything if p.transaction.id in ids} == known


def test_own_entries_that_give_way_are_told_with_all_that_they_are(tmp_path: Path, logs: Logs) -> None:
    """Of what kind, with which options: behind the fork, or behind an earlier end of theirs."""
    config = replace(logs.own[4].transaction, kind=TransactionKind.CONFIG, options={"control": "none"})
    logs.own[4] = replace(logs.own[4], transaction=config)
    logs.payloads[config.key] = logs.own[4]
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        for index in range(7):
            assert list(branch.given_way(index)) == [
                (entry.pair, payload.transaction)
                for entry, payload in zip(logs.entries, logs.own, strict=True)
                if entry.index > min(index, 3)
            ]


def test_who_has_lost_a_payload_does_not_give_way(tmp_path: Path, logs: Logs) -> None:
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.save(store, unneeded=[logs.own[3].transaction.key])
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        with pytest.raises(StateError, match="entry 4 is to give way to another log"):
            branch.given_way(6)


@pytest.mark.parametrize("again", ["begin", "drop"])
def test_a_branch_that_is_read_no_more_stands_beside_another_log(
    tmp_path: Path, logs: Logs, again: str
) -> None:
    """So nobody gives way to what is not there any more."""
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        if again == "begin":
            store.beside.begin(START, bytes(32), logs.entries[-1].point)
            new = store.beside.joined_log()
            assert new is not None
            assert (new.fork, new.last, new.own) == (START, START, logs.entries[-1].point)
            assert new.chain_at(4) is None
            assert payload_of(14).transaction.id not in new.digests(9)
        else:
            store.beside.drop()
            assert store.beside.joined_log() is None
        assert branch.own != logs.entries[-1].point
        assert branch.chain_at(5) is None


def test_what_does_not_follow_is_not_taken(tmp_path: Path, logs: Logs) -> None:
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store, entries=1)
        for wrong in (logs.said[2], logs.said[0], replace(logs.said[1], previous=bytes(32))):
            with pytest.raises(StateError, match="does not follow"):
                store.beside.add([wrong])
        branch = store.beside.joined_log()
        assert branch is not None
        assert branch.last == logs.others[3].point


def test_a_branch_of_a_hundred_thousand_entries(tmp_path: Path) -> None:
    """Nothing of it is in memory: what it answers is read."""
    with opened(tmp_path) as store:
        store.beside.begin(START, JOINED.id, START)
        last = START
        for begin in range(1, 100_000, 5000):
            payloads = [payload_of(number) for number in range(begin, begin + 5000)]
            log = entries_of(payloads, after=last)
            store.beside.add([logged_entry(e, p) for e, p in zip(log, payloads, strict=True)])
            last = log[-1].point
        branch = store.beside.joined_log()
        assert branch is not None
        assert branch.last == last
        assert branch.chain_at(100_000) == last.chain
        ids = branch.digests(50_000)
        assert payload_of(50_000).transaction.id in ids
        assert payload_of(50_001).transaction.id not in ids
        assert [point.index for point, _ in branch.tail(70_000, 3)] == [69_998, 69_999, 70_000]


def test_a_directory_of_an_earlier_version_opens(tmp_path: Path) -> None:
    """It has no families for what is read beside."""
    families = {n: Options(raw_mode=True) for n in ("meta", "queue", "payloads", "log", "ids", "rejected")}
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003
    options.create_missing_column_families(True)  # noqa: FBT003
    earlier = Rdict(str(tmp_path), options, families, access_type=AccessType.read_write())
    earlier.get_column_family("meta")[b"incarnation"] = b"i" * 16
    earlier.close()
    with opened(tmp_path) as store:
        assert store.incarnation == b"i" * 16
        assert store.beside.joined_log() is None
        assert store.last_cut() is None
        Logs().saved(store)


def test_what_the_other_side_gave_up_is_not_in_the_branch(tmp_path: Path, logs: Logs) -> None:
    """Also after a restart; what was told of it before is no branch any more."""
    last = logs.theirs[5]
    synchronous = replace(
        last.transaction, digest=marked(last.transaction.digest, {COMMIT_MODE: CommitMode.SYNC})
    )
    logs.theirs[5] = replace(last, transaction=synchronous)
    logs.payloads[synchronous.key], logs.others = logs.theirs[5], entries_of(logs.theirs)
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store)
        before = store.beside.joined_log()
        assert before is not None
        assert (before.last.index, len(before.marks(6))) == (6, 1)
        store.beside.truncate(5)
        assert (before.is_live, before.chain_at(5)) == (False, None)
        kept = store.beside.joined_log()
        assert kept is not None
        assert (kept.marks(6), last.transaction.id in kept.digests(6)) == ([], False)
    with opened(tmp_path) as store:
        branch = store.beside.joined_log()
        assert branch is not None
        assert branch.last == logs.others[4].point
        assert [branch.chain_at(index) for index in range(4, 8)] == [
            *(entry.chain for entry in logs.others[3:5]), None, None,
        ]  # fmt: skip
        gone = [payload.transaction.id for payload in logs.theirs[5:]]
        assert not [one for one in gone if one in branch.digests(7)]
        store.beside.add(logs.said[2:])
        again = store.beside.joined_log()
        assert again is not None
        assert again.last == logs.others[-1].point
        assert [one for one in gone if one in again.digests(7)] == gone


def test_a_payload_whose_id_is_agreed_with_another_one_is_still_acquired(tmp_path: Path, logs: Logs) -> None:
    twin = payload_of(4, b"INSERT DATA { <urn:s> <urn:p> 'another' }")
    logs.payloads[twin.transaction.key] = twin
    with opened(tmp_path) as store:
        logs.save(store, acquired=[*logs.own, twin], entries=logs.entries)
    with opened(tmp_path) as store:
        assert list(store.durable().acquired) == [twin.transaction]
        assert store.digests.get(twin.transaction.id) == logs.own[3].transaction.digest
        logs.save(store, unneeded=[twin.transaction.key])
        assert list(store.durable().acquired) == []


def test_the_digests_of_a_branch_are_those_of_its_entries(tmp_path: Path, logs: Logs) -> None:
    twin = payload_of(4, b"INSERT DATA { <urn:s> <urn:p> 'another' }")
    logs.theirs[3] = twin
    logs.others = entries_of(logs.theirs)
    logs.payloads[twin.transaction.key] = twin
    with opened(tmp_path) as store:
        logs.saved(store)
        logs.begin(store)
        branch = store.beside.joined_log()
        assert branch is not None
        for index in range(7):
            digests = branch.digests(index)
            found = [digests.get(payload.transaction.id) for payload in logs.theirs]
            assert found == [
                payload.transaction.digest if number <= index else None
                for number, payload in enumerate(logs.theirs, start=1)
            ]
