"""What an audit finds, and what it passes over."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import consumers.audit
from consumers.audit import PATIENCE_MS, Auditor
from quadlog import codec
from quadlog.codec.envelope import EPOCH
from quadlog.core.effects.signature import after, as_bytes
from quadlog.core.model import (
    GENESIS,
    LogPosition,
    Transaction,
    TransactionKind,
    chain_hash,
    effects_chain,
    hash_of,
)
from quadlog.core.records import (
    Cut,
    Effect,
    Fence,
    Heartbeat,
    LoggedEntry,
    Outcome,
    Rewind,
    Seed,
    Violation,
    ViolationKind,
)
from quadlog.core.synchronous import COMMIT_MODE, CommitMode, decision_on
from quadlog.ports import Record
from tests.support.whole_log import FENCE, TERM, VIEW, beat, effect, effects_of, entry, log_of

if TYPE_CHECKING:
    from collections.abc import Iterable

DCS = ("dc1", "dc2")
OTHER_VIEW, OTHER_TERM = hash_of(b"other view"), hash_of(b"other term")

Said = LoggedEntry | Cut | Effect | Fence | Rewind | Seed | Heartbeat


class Reader:
    """Writes records to topics and lets an auditor read them at once; a second passes with each."""

    def __init__(self) -> None:
        self.auditor, self.now = Auditor("main", DCS), 0.0
        self._ends: dict[str, int] = {}

    def says(self, dc: str, *said: Said, epoch: int = 1) -> list[Violation]:
        found = list[Violation]()
        for one in said:
            match one:
                case LoggedEntry():
                    what, values = "agreed", codec.encode_entry(one)
                case Cut():
                    what, values = "agreed", [codec.encode(one)]
                case Effect():
                    what, values = "effects", codec.encode_effect(one)
                case Fence() | Rewind() | Seed():
                    what, values = "effects", [codec.encode(one)]
                case Heartbeat():
                    what, values = "status", [codec.encode(one)]
            for value in values:
                found += self.reads(f"main.{dc}.{what}", value, epoch)
        return found

    def reads(self, topic: str, value: bytes, epoch: int = 1) -> list[Violation]:
        offset = self._ends.get(topic, 0)
        self._ends[topic] = offset + 1
        record = Record(topic, offset, b"", value, [(EPOCH, b"%d" % epoch)] if "effects" in topic else [])
        found = self.auditor.on_record(record, self.now)
        self.now += 1000
        return found

    def begin_at(self, topic: str, offset: int) -> None:
        """The topic was shortened."""
        self._ends[topic] = offset

    def overdue(self) -> list[Violation]:
        """What is, when nothing else comes."""
        self.now += PATIENCE_MS + 1
        return self.auditor.on_time(self.now)


@pytest.fixture
def reader() -> Reader:
    return Reader()


def kinds(found: Iterable[Violation]) -> list[tuple[ViolationKind, str, int]]:
    return [(one.kind, one.dc, one.index) for one in found]


def test_a_healthy_cluster_violates_nothing(reader: Reader) -> None:
    log = log_of(5)
    effects = effects_of(log)
    for dc in DCS:
        assert not reader.says(dc, *log[:3], *log[1:], FENCE, *effects[:2], *effects[1:])
        assert not reader.says(dc, *(beat(one, worker=f"{dc}-w1") for one in effects))
    assert not reader.overdue()


def test_what_arrives_late_is_no_violation(reader: Reader) -> None:
    log = log_of(3)
    effects = effects_of(log)
    assert not reader.says("dc2", beat(effects[2], worker="dc2-w1"))
    assert not reader.says("dc2", FENCE, *effects)
    assert not reader.says("dc1", *log)
    assert not reader.overdue()


@pytest.mark.parametrize(
    "change", [{"body": b"DROP ALL"}, {"timestamp": 7}, {"options": {"a": "b"}}, {"created": 9}]
)
def test_an_entry_with_another_content(reader: Reader, change: dict[str, object]) -> None:
    log = log_of(3)
    forged = replace(log[2], **change)  # type: ignore[arg-type]
    found = reader.says("dc2", *log[:2], forged)
    assert {one.kind for one in found} == {ViolationKind.FORGED_ENTRY}
    assert (found[0].topic, found[0].offset, found[0].index) == ("main.dc2.agreed", 2, 3)


def test_an_entry_that_only_one_data_centre_has(reader: Reader) -> None:
    log = log_of(3)
    assert not reader.says("dc1", *log)
    assert kinds(reader.says("dc2", *log[:2], entry(log[1], "another one"))) == [
        (ViolationKind.TWO_ENTRIES, "dc2", 3)
    ]


def test_decisions_and_synchronous_transactions_have_digests_of_their_own(reader: Reader) -> None:
    first = entry(None, options={COMMIT_MODE: CommitMode.SYNC})
    transaction = decision_on(TransactionKind.COMMIT, LogPosition(1, first.chain)).transaction
    decision = replace(
        entry(first, kind=TransactionKind.COMMIT),
        id=transaction.id,
        digest=transaction.digest,
        options=transaction.options,
        chain=chain_hash(first.chain, transaction, 2),
    )
    assert not reader.says("dc1", first, decision)
    other = replace(transaction, id=bytes(16))
    forged = replace(decision, id=other.id, chain=chain_hash(first.chain, other, 2))
    found = reader.says("dc2", first, forged)
    assert [one.explanation for one in found if one.kind is ViolationKind.FORGED_ENTRY] == [
        "it is not the transaction that its digest states"
    ]


def test_a_move_of_the_duty_has_its_options_in_its_body(reader: Reader) -> None:
    plain, options = entry(None), {"dc": "dc2"}
    move = replace(plain, kind=TransactionKind.EVALUATOR, options=options)
    transaction = Transaction(id=move.id, digest=move.digest, kind=move.kind, options=options)
    assert not reader.says("dc1", replace(move, chain=chain_hash(GENESIS, transaction, move.timestamp)))


def test_a_missing_entry_and_one_that_comes_later(reader: Reader) -> None:
    log = log_of(6)
    assert not reader.says("dc1", *log[:2], log[3])
    assert not reader.says("dc1", log[2], log[3])
    assert not reader.overdue()
    assert not reader.says("dc1", log[5])
    assert kinds(reader.overdue()) == [(ViolationKind.MISSING_ENTRY, "dc1", 5)]
    assert not reader.says("dc1", entry(log[5]))
    assert not reader.overdue(), "each once"


def test_both_sides_of_a_split_are_in_order(reader: Reader) -> None:
    log = log_of(2)
    mine = log_of(3, log[1], text="mine", view=VIEW)
    theirs = log_of(5, log[1], text="theirs", view=OTHER_VIEW, epoch=2)
    effects = effects_of(log)
    my_effects, their_effects = (
        effects_of(mine, effects[-1]),
        effects_of(theirs, effects[-1], term=OTHER_TERM),
    )
    assert not reader.says("dc1", *log, *mine, FENCE, *effects, *my_effects)
    assert not reader.says("dc2", *log, FENCE, *effects)
    assert not reader.says("dc2", *theirs)
    rewind = Rewind(epoch=2, index=2, term=OTHER_TERM, attempt=1, cut=2)
    assert not reader.says("dc2", rewind, *their_effects, epoch=2)
    assert not reader.says("dc1", Cut(epoch=2, lineage=OTHER_VIEW, index=2, chain=log[1].chain), *theirs)
    assert not reader.says("dc1", rewind, *their_effects, epoch=2)
    assert not reader.says("dc1", beat(my_effects[-1]), beat(their_effects[-1], worker="dc2-w1"))
    assert not reader.overdue()


@pytest.mark.parametrize(
    "change",
    [
        {"inserted": ("<urn:other> <urn:p> <urn:o> .",)},
        {"quads": 9},
        {"chain": bytes(32)},
        {"signature_after": hash_of(b"other")},
    ],
)
def test_a_changed_effect(reader: Reader, change: dict[str, object]) -> None:
    log = log_of(3)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    found = reader.says("dc2", FENCE, *effects[:2], replace(effects[2], **change))  # type: ignore[arg-type]
    assert {one.kind for one in found} == {ViolationKind.FORGED_EFFECT, ViolationKind.TWO_EFFECTS}
    assert {(one.dc, one.index) for one in found} == {("dc2", 3)}


def test_an_effect_that_is_whole_and_another_one(reader: Reader) -> None:
    log = log_of(3)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    other = effect(log[2], effects[1], "<urn:other> <urn:p> <urn:o> .")
    assert kinds(reader.says("dc2", FENCE, *effects[:2], other)) == [(ViolationKind.TWO_EFFECTS, "dc2", 3)]


def test_an_effect_of_no_entry(reader: Reader) -> None:
    log = log_of(2)
    assert not reader.says("dc1", *log, FENCE, *effects_of([*log, entry(log[1], "nobody agreed on this")]))
    assert kinds(reader.overdue()) == [(ViolationKind.WITHOUT_ENTRY, "dc1", 3)]


def test_a_missing_effect(reader: Reader) -> None:
    log = log_of(4)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects[:2], effects[3])
    assert kinds(reader.overdue()) == [(ViolationKind.MISSING_EFFECT, "dc1", 3)]
    following = entry(log[3])
    assert not reader.says("dc1", following, effect(following, effects[3]))
    assert not reader.overdue(), "each once"


def test_a_rewind_behind_the_newest_effect(reader: Reader) -> None:
    log = log_of(2)
    rewind = Rewind(epoch=2, index=4, term=TERM, attempt=1, cut=2)
    found = reader.says("dc1", *log, FENCE, *effects_of(log), rewind, epoch=2)
    assert kinds(found) == [(ViolationKind.MISSING_EFFECT, "dc1", 4)]


def test_after_a_rewind_that_names_too_much_the_next_effect_counts(reader: Reader) -> None:
    log = log_of(5)
    effects = effects_of(log, term=OTHER_TERM)
    rewind = Rewind(epoch=2, index=4, term=OTHER_TERM, attempt=1, cut=2)
    assert not reader.says("dc1", *log, FENCE, *effects_of(log[:2]))
    assert reader.says("dc1", rewind, epoch=2)
    assert not reader.says("dc1", effects[4], epoch=2)
    assert not reader.says("dc1", beat(effects[4]))
    assert not reader.overdue()


def branches() -> tuple[list[LoggedEntry], list[Effect], list[LoggedEntry], list[Effect], Rewind]:
    """Entries and effects of a side that gives way behind 2, those of the other side, and the rewind."""
    log = log_of(2)
    mine, theirs = log_of(3, log[1], text="mine"), log_of(4, log[1], text="theirs", view=OTHER_VIEW, epoch=2)
    effects = effects_of([*log, *mine])
    rewind = Rewind(epoch=2, index=2, term=OTHER_TERM, attempt=1, cut=2)
    return [*log, *mine], effects, theirs, effects_of(theirs, effects[1], term=OTHER_TERM), rewind


def test_an_effect_behind_a_rewind_continues_the_state_there(reader: Reader) -> None:
    log, effects, theirs, _, rewind = branches()
    assert not reader.says("dc1", *log, FENCE, *effects)
    assert not reader.says("dc2", *log[:2], *theirs)
    assert not reader.says("dc1", rewind, effect(theirs[0], effects[4], term=OTHER_TERM), epoch=2)
    assert kinds(reader.overdue()) == [(ViolationKind.MISSING_EFFECT, "dc1", 3)]


def test_behind_a_gap_nothing_of_a_branch_is_continued(reader: Reader) -> None:
    log, effects, theirs, their_effects, rewind = branches()
    assert not reader.says("dc1", *log, FENCE, *effects)
    assert not reader.says("dc2", *log[:2], *theirs)
    assert not reader.says("dc1", rewind, their_effects[1], epoch=2)
    assert kinds(reader.overdue()) == [(ViolationKind.MISSING_EFFECT, "dc1", 3)]
    assert not reader.says("dc1", *their_effects[2:], epoch=2)
    assert not reader.overdue()


def test_the_effect_of_a_forged_entry_has_none(reader: Reader) -> None:
    log = log_of(2)
    forged = replace(log[1], body=b"DROP ALL")
    assert kinds(reader.says("dc1", log[0], forged)) == [(ViolationKind.FORGED_ENTRY, "dc1", 2)]
    assert not reader.says("dc1", FENCE, *effects_of(log))
    assert kinds(reader.overdue()) == [(ViolationKind.WITHOUT_ENTRY, "dc1", 2)]


def test_a_worker_with_another_signature(reader: Reader) -> None:
    log = log_of(2)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    assert not reader.says("dc1", beat(effects[1], signature=hash_of(b"wrong")))
    assert kinds(reader.overdue()) == [(ViolationKind.WRONG_STATE, "dc1", 2)]
    assert not reader.says("dc1", beat(effects[1]))
    assert not reader.overdue()


def test_one_wrong_heartbeat_among_right_ones(reader: Reader) -> None:
    log = log_of(2)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    assert not reader.says("dc1", beat(effects[0], signature=hash_of(b"wrong")), *[beat(effects[1])] * 8)
    assert kinds(reader.auditor.on_time(reader.now)) == [(ViolationKind.WRONG_STATE, "dc1", 1)]


def test_one_wrong_heartbeat_while_the_effect_of_another_one_is_late(reader: Reader) -> None:
    log = log_of(3)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects[:2], beat(effects[2]))
    assert not reader.says("dc1", beat(effects[1], signature=hash_of(b"wrong")), effects[2])
    assert kinds(reader.overdue()) == [(ViolationKind.WRONG_STATE, "dc1", 2)]


def test_a_worker_that_stays_wrong_is_reported_once(reader: Reader) -> None:
    log = log_of(9)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    found = list[Violation]()
    for one in effects:
        found += reader.says("dc1", beat(one, signature=hash_of(b"wrong")))
        found += reader.auditor.on_time(reader.now)
    assert kinds(found) == [(ViolationKind.WRONG_STATE, "dc1", 1)]


def test_a_wrong_signature_is_reported_while_further_heartbeats_come(reader: Reader) -> None:
    log = log_of(2)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    wrong = beat(effects[1], signature=hash_of(b"wrong"))
    assert not reader.says("dc1", *[wrong] * 8)
    assert kinds(reader.auditor.on_time(reader.now)) == [(ViolationKind.WRONG_STATE, "dc1", 2)]


def test_a_worker_that_is_wrong_again_is_reported_again(reader: Reader) -> None:
    log = log_of(2)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    for _ in range(2):
        assert not reader.says("dc1", beat(effects[1], signature=hash_of(b"wrong")))
        assert not reader.auditor.on_time(reader.now), "it may be explained yet"
        assert kinds(reader.overdue()) == [(ViolationKind.WRONG_STATE, "dc1", 2)]
        assert not reader.says("dc1", beat(effects[1]))


def test_what_is_older_than_all_that_is_remembered_is_not_compared(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers.audit, "WINDOW", 3)
    log = log_of(9)
    effects = effects_of(log)
    assert not reader.says("dc1", *log, FENCE, *effects)
    assert not reader.says("dc1", beat(effects[3], signature=hash_of(b"wrong")))
    assert not reader.overdue()
    assert not reader.says("dc1", beat(effects[7], signature=hash_of(b"wrong")))
    assert kinds(reader.overdue()) == [(ViolationKind.WRONG_STATE, "dc1", 8)]


def test_before_the_first_entry_the_seed_is_the_state(reader: Reader) -> None:
    seed = Seed(signature=hash_of(b"seed"), quads=7, digest=bytes(32), at=0, by="m1", sources=("a.nq",))
    start = replace(effects_of(log_of(1))[0], index=0, entry_chain=GENESIS)
    assert not reader.says("dc1", seed, beat(start, signature=seed.signature))
    assert not reader.overdue()
    assert not reader.says("dc1", beat(start, signature=hash_of(b"wrong")))
    assert kinds(reader.overdue()) == [(ViolationKind.WRONG_STATE, "dc1", 0)]


def test_a_seed_is_a_beginning(reader: Reader) -> None:
    seed = Seed(signature=hash_of(b"seed"), quads=7, digest=bytes(32), at=0, by="m1", sources=("a.nq",))
    [one] = log_of(1)
    state = Effect(
        index=0, id=bytes(16), entry_chain=GENESIS, term=TERM, attempt=0, outcome=Outcome.APPLIED, quads=7,
        signature_before=bytes(32), signature_after=seed.signature, chain=GENESIS,
    )  # fmt: skip
    first = effect(one, state)
    assert not reader.says("dc1", one, seed, FENCE, first)
    assert not reader.says("dc1", beat(state), beat(first), beat(state, signature=bytes(32), worker="dc1-w2"))
    assert not reader.overdue()


def test_topics_that_were_shortened(reader: Reader) -> None:
    log = log_of(6)
    effects = effects_of(log)
    for topic, offset in (("main.dc1.agreed", 3), ("main.dc1.effects", 3)):
        reader.begin_at(topic, offset)
    assert not reader.says("dc1", *log[3:], FENCE, *effects[2:], beat(effects[0]), beat(effects[4]))
    assert not reader.overdue()
    assert {one.kind for one in reader.says("dc1", entry(log[4], "other"))} == {ViolationKind.TWO_ENTRIES}


def test_a_foreign_record(reader: Reader) -> None:
    for topic in ("agreed", "effects", "status"):
        assert kinds(reader.reads(f"main.dc1.{topic}", b"hello")) == [
            (ViolationKind.FOREIGN_RECORD, "dc1", 0)
        ]
    assert kinds(reader.reads("main.dc1.agreed", codec.encode(FENCE))) == [
        (ViolationKind.FOREIGN_RECORD, "dc1", 0)
    ]


def test_large_values_come_in_chunks(reader: Reader) -> None:
    large = entry(None, "x" * (2 * codec.CHUNK))
    lines = tuple(f"<urn:{number}> <urn:p> <urn:{'o' * 1000}> ." for number in range(1200))
    one = replace(effect(large, None), inserted=lines, quads=len(lines))
    then = as_bytes(after(0, one))
    one = replace(one, signature_after=then, chain=effects_chain(GENESIS, large.chain, one.outcome, then))
    assert len(codec.encode_effect(one)) > 1
    for dc in DCS:
        assert not reader.says(dc, large, FENCE, one, beat(one, worker=f"{dc}-w1"))
    assert not reader.overdue()


def test_another_reader_continues_with_its_state(reader: Reader) -> None:
    log = log_of(4)
    effects = effects_of(log)
    assert not reader.says("dc1", *log[:2], FENCE, *effects[:3])
    reader.auditor = pickle.loads(pickle.dumps(reader.auditor))  # noqa: S301 - our own
    assert not reader.says("dc1", log[2], effects[3], beat(effects[3]), beat(effects[3], signature=bytes(32)))
    assert not reader.says("dc2", *log[:2], log_of(6)[5])
    reader.now = -1e9
    reader.auditor.resume(reader.now)
    assert not reader.auditor.on_time(reader.now)
    assert kinds(reader.overdue()) == [
        (ViolationKind.MISSING_ENTRY, "dc2", 3),
        (ViolationKind.WITHOUT_ENTRY, "dc1", 4),
        (ViolationKind.WRONG_STATE, "dc1", 4),
    ]
