"""Which records count, for the plain reader of splits: one test for each rule of the documents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.codec import CHUNK
from quadlog.core.effects.lines import ChangeLines
from quadlog.core.model import GENESIS, START, LogPosition, hash_of
from quadlog.core.records import Cut, Effect, Fence, Handover, LoggedEntry, Rewind, Seed
from quadlog.ports import Record
from tests.support.plain_histories import Path, Unknown, position, read_agreed, read_effects
from tests.support.whole_log import FENCE, TERM, change, effects_of, entry, log_of, records_of

OTHER = hash_of(b"other view")
FOREIGN = Record("", 0, b"", b"no record of quadlog's", [])


def cut(epoch: int, to: LoggedEntry) -> Cut:
    return Cut(epoch=epoch, lineage=OTHER, index=to.index, chain=to.chain)


def texts(entries: tuple[LoggedEntry, ...]) -> list[str]:
    return [one.body.decode() for one in entries]


# Entries


def test_entries_count_once_and_without_a_gap() -> None:
    log = log_of(5)
    found = read_agreed([*records_of(*log[:2], log[3], *log[1:4]), FOREIGN, *records_of(log[2], log[4])])
    assert found.now == Path(START, tuple(log))
    assert found.now.last == LogPosition(5, log[4].chain)


def test_an_entry_has_to_follow_the_last_one() -> None:
    log = log_of(3)
    other = entry(entry(log[0], "other 2"), "other 3")
    assert read_agreed(records_of(*log[:2], other, log[2])).now.entries == tuple(log)


def test_an_entry_in_chunks() -> None:
    log = log_of(1)
    large = entry(log[0], "x" * (2 * CHUNK + 1))
    first, *rest = records_of(large)
    assert read_agreed([*records_of(*log), first, *records_of(*log), first, *rest]).now.entries == (
        log[0],
        large,
    )


def test_a_topic_that_was_trimmed() -> None:
    log = log_of(5)
    found = read_agreed(records_of(*log[2:]))
    assert found.now == Path(position(log[1]), tuple(log[2:]))
    assert position(log[1]) in found.now
    assert START in found.now
    assert position(log[0]) not in found.now


def test_a_cut() -> None:
    log = log_of(4)
    other = log_of(2, entry(log[1], "other"), epoch=3)
    third = entry(log[1], "other", epoch=3)
    found = read_agreed(records_of(*log, cut(3, log[1]), third, *other))
    assert found.now.entries == (*log[:2], third, *other)
    [ended] = found.ended
    assert (ended.path.entries, ended.next) == (tuple(log), found.now)


def test_entries_of_earlier_views_are_void_after_a_cut() -> None:
    log = log_of(4)
    found = read_agreed(records_of(*log, cut(3, log[1]), *log[2:], entry(log[1], "other", epoch=3)))
    assert texts(found.now.entries) == ["entry 1", "entry 2", "other"]


def test_the_second_cut_of_an_epoch_and_earlier_ones_do_not_count() -> None:
    log = log_of(4)
    other = entry(log[1], "other", epoch=3)
    found = read_agreed(
        records_of(*log, cut(3, log[1]), other, cut(3, log[1]), cut(2, log[0]), entry(other, "next", epoch=3))
    )
    assert texts(found.now.entries) == ["entry 1", "entry 2", "other", "next"]
    assert len(found.ended) == 1


def test_cuts_of_several_splits() -> None:
    log = log_of(3)
    one = entry(log[1], "one", epoch=3)
    two = entry(one, "two", epoch=3)
    three = entry(one, "three", epoch=5)
    found = read_agreed(records_of(*log, cut(3, log[1]), one, two, cut(5, one), three))
    assert [texts(ended.path.entries)[2:] for ended in found.ended] == [["entry 3"], ["one", "two"]]
    assert [texts(ended.next.entries)[2:] for ended in found.ended] == [["one", "two"], ["one", "three"]]
    assert texts(found.now.entries)[2:] == ["one", "three"]


@pytest.mark.parametrize("to", [0, 1])
def test_a_cut_to_what_a_trimmed_topic_does_not_have(to: int) -> None:
    log = log_of(4)
    place = log[0] if to else replace(log[0], index=0, chain=GENESIS)
    again = [replace(one, epoch=3) for one in log[to:]]
    found = read_agreed(records_of(*log[2:], cut(3, place), *again))
    assert found.now == Path(position(place), tuple(again))


def test_a_cut_to_an_entry_that_the_topic_never_had() -> None:
    log = log_of(4)
    place = entry(log[0], "elsewhere")
    again = entry(place, "next", epoch=3)
    assert read_agreed(records_of(*log, cut(3, place), again)).now == Path(position(place), (again,))


def test_the_least_epoch_of_an_entry() -> None:
    log = log_of(3)
    found = read_agreed(records_of(*log, cut(3, log[1]), replace(log[2], epoch=4)))
    assert found.epochs == dict.fromkeys((one.chain for one in log), 1)
    assert found.now.entries[2].epoch == 4


def test_the_fork_of_two_paths() -> None:
    log = log_of(4)
    one, two = Path(START, (*log[:3], entry(log[2], "one"))), Path(START, tuple(log))
    assert one.fork(two) == two.fork(one) == position(log[2])
    assert Path(position(log[2]), one.entries[3:]).fork(two) == position(log[2])
    assert two.fork(Path(position(log[2]), one.entries[3:])) == position(log[2])
    assert Path(START, (entry(None, "else"),)).fork(two) == START
    assert Path().fork(two) == START
    with pytest.raises(Unknown, match="trimmed"):
        Path(position(log[0]), (entry(log[0], "two"),)).fork(Path(position(log[1]), tuple(log[2:])))


# Effects


LOG = log_of(6)
EFFECTS = effects_of(LOG)
LATER = Fence(term=TERM, attempt=2, worker="w2")


def counting(*records: list[Record]) -> list[Effect]:
    found = read_effects([one for some in records for one in some])
    assert set(found.now) <= set(found.ever)
    return list(found.now.values())


def of_attempt(attempt: int, effects: list[Effect], term: bytes = TERM) -> list[Effect]:
    return [replace(one, attempt=attempt, term=term) for one in effects]


def test_effects_count_once_and_on_their_state() -> None:
    assert (
        counting([*records_of(FENCE, *EFFECTS[:3], *EFFECTS[1:5]), FOREIGN], records_of(EFFECTS[5]))
        == EFFECTS
    )
    other = change(LOG[2], EFFECTS[0], ChangeLines())
    assert counting(records_of(FENCE, *EFFECTS[:2], other, *EFFECTS[3:])) == EFFECTS[:2]
    assert counting(records_of(FENCE, *EFFECTS[:2], *EFFECTS[4:])) == EFFECTS[:2]


def test_an_effect_in_chunks() -> None:
    quads = tuple(f'<urn:{number}> <urn:p> "{"x" * 1000}" .' for number in range(CHUNK // 500))
    large = change(LOG[1], EFFECTS[0], ChangeLines(inserted=quads))
    first, *rest = records_of(large)
    assert rest
    assert counting(records_of(FENCE, EFFECTS[0]), [first, first, *rest]) == [EFFECTS[0], large]
    assert counting(records_of(FENCE, EFFECTS[0]), [first], records_of(LATER), rest) == [EFFECTS[0]]


def test_effects_of_older_attempts_are_void_after_a_fence() -> None:
    again = of_attempt(2, EFFECTS[2:])
    assert counting(records_of(FENCE, *EFFECTS[:2], LATER, EFFECTS[2], FENCE, EFFECTS[2], *again)) == [
        *EFFECTS[:2],
        *again,
    ]


def test_effects_of_other_terms_are_void_after_a_handover() -> None:
    handover = Handover(index=0, term=OTHER, dc="dc2", epoch=2)
    again = of_attempt(1, EFFECTS[2:], OTHER)
    late = replace(LATER, attempt=9)
    found = counting(
        records_of(
            FENCE, LATER, *of_attempt(2, EFFECTS[:2]), handover, *of_attempt(2, EFFECTS[2:]), late, *again
        )
    )
    assert found == [*of_attempt(2, EFFECTS[:2]), *again]


def test_attempts_are_counted_in_each_term() -> None:
    handover, fence = Handover(index=0, term=OTHER, dc="dc2", epoch=2), replace(FENCE, term=OTHER)
    last = of_attempt(2, EFFECTS[2:], OTHER)
    found = counting(
        records_of(
            FENCE,
            LATER,
            *of_attempt(2, EFFECTS[:2]),
            handover,
            fence,
            replace(LATER, term=OTHER),
            handover,  # twice: the attempt stays
            *of_attempt(1, EFFECTS[2:], OTHER),
            *last,
        )
    )
    assert found == [*of_attempt(2, EFFECTS[:2]), *last]


def test_an_older_handover_does_not_count() -> None:
    newer, older = (Handover(index=index, term=hash_of(b"%d" % index), dc="dc2") for index in (7, 0))
    again = of_attempt(1, EFFECTS[2:], newer.term)
    assert counting(records_of(FENCE, *EFFECTS[:2], newer, older, *again)) == [*EFFECTS[:2], *again]


def rewind(epoch: int, index: int, term: bytes = TERM, attempt: int = 1) -> Rewind:
    return Rewind(epoch=epoch, index=index, term=term, attempt=attempt, cut=epoch)


def test_a_rewind() -> None:
    again = effects_of([entry(LOG[1], "other")], EFFECTS[1], term=OTHER)
    records = [
        *records_of(FENCE, *EFFECTS[:4]),
        *records_of(EFFECTS[4], epoch=1),
        *records_of(rewind(3, 2, OTHER), *again, epoch=3),
    ]
    found = read_effects(records)
    assert list(found.now.values()) == [*EFFECTS[:2], *again]
    assert list(found.ever.values()) == [*EFFECTS[:5], *again]


def test_records_of_earlier_views_are_void_after_a_rewind() -> None:
    found = counting(
        records_of(FENCE, *EFFECTS[:4], epoch=2),
        records_of(rewind(3, 2), epoch=3),
        records_of(EFFECTS[2], LATER, Handover(index=9, term=OTHER, dc="dc2"), rewind(2, 1), epoch=2),
        records_of(EFFECTS[2]),
        records_of(EFFECTS[2], epoch=3),
    )
    assert found == EFFECTS[:3]
    assert (
        counting(
            records_of(FENCE, *EFFECTS[:4], epoch=2),
            records_of(rewind(3, 2), epoch=3),
            records_of(EFFECTS[2]),
        )
        == EFFECTS[:2]
    )


def test_the_second_rewind_of_an_epoch_does_not_count() -> None:
    found = counting(
        records_of(FENCE, *EFFECTS[:4], epoch=1),
        records_of(rewind(3, 2), EFFECTS[2], rewind(3, 2), EFFECTS[3], epoch=3),
    )
    assert found == EFFECTS[:4]


def test_the_last_header_says_the_epoch_of_a_copy() -> None:
    copies = [
        replace(one, headers=[*one.headers, ("epoch", b"3")]) for one in records_of(EFFECTS[2], epoch=1)
    ]
    found = counting(records_of(FENCE, *EFFECTS[:4]), records_of(rewind(3, 2), epoch=3), copies)
    assert found == EFFECTS[:3]


def test_after_a_rewind_term_and_attempt_are_those_that_it_names() -> None:
    newer = Handover(index=7, term=hash_of(b"branch"), dc="dc3", epoch=2)
    older = Handover(index=0, term=OTHER, dc="dc1", epoch=2)
    moved = of_attempt(1, EFFECTS[4:], OTHER)
    found = counting(
        records_of(FENCE, *EFFECTS[:2], newer, epoch=2),
        records_of(rewind(3, 2, TERM, 2), EFFECTS[2], *of_attempt(2, EFFECTS[2:4]), older, *moved, epoch=3),
    )
    assert found == [*EFFECTS[:2], *of_attempt(2, EFFECTS[2:4]), *moved]


def test_a_seed() -> None:
    seed = Seed(signature=b"\x01" * 32, quads=1, digest=GENESIS, at=0, by="m1", sources=())
    first = replace(EFFECTS[0], signature_before=seed.signature)
    found = read_effects(records_of(seed, FENCE, EFFECTS[0], first))
    assert found.has_seed
    assert list(found.now.values()) == [first]
    assert not read_effects(records_of(FENCE, EFFECTS[0], seed)).has_seed
    moved = Handover(index=7, term=OTHER, dc="dc2", epoch=1)
    assert not read_effects(records_of(moved, seed)).has_seed
    assert read_effects(records_of(replace(moved, index=0), seed)).has_seed


def test_after_a_rewind_to_the_beginning_the_seed_is_written_again() -> None:
    seed = Seed(signature=b"\x01" * 32, quads=1, digest=GENESIS, at=0, by="m1", sources=())
    again = replace(seed, signature=b"\x02" * 32)
    first, other = (replace(EFFECTS[0], signature_before=one.signature) for one in (seed, again))
    found = counting(
        records_of(seed, FENCE, first, epoch=1), records_of(rewind(3, 0), again, first, other, epoch=3)
    )
    assert found == [other]
