"""Where entries stand in a topic that is to be shortened, found in topics of all sorts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from quadlog.broker import places
from quadlog.broker.places import Places
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Iterator


def topic_of(rng: random.Random, entries: int) -> list[Record]:
    """Entries in one to three records each, with others between them, from some offset on."""
    said: list[int | None] = []
    for index in range(1, entries + 1):
        said += [index] * rng.choice([1, 1, 1, 2, 3])
        said += [None] * rng.choice([0, 0, 0, 1, rng.randrange(200)])
    first = rng.randrange(3) * 50
    return [
        Record("t", first + at, b"", b"" if index is None else str(index).encode(), [])
        for at, index in enumerate(said)
    ]


def index_of(record: Record) -> int | None:
    return int(record.value) if record.value else None


@pytest.mark.parametrize("seed", range(30))
def test_the_place_behind_an_entry(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a greater one is before it, and nothing but of smaller ones stands between."""
    rng = random.Random(seed)
    monkeypatch.setattr(places, "STEP", rng.choice([1, 4, 64]))
    records = topic_of(rng, rng.choice([1, 5, 200]))
    first, end = records[0].offset, records[-1].offset + 1
    read = 0

    def between(start: int, until: int) -> Iterator[Record]:
        nonlocal read
        for record in records[start - first : until - first]:
            read += 1
            yield record

    found_in = Places(between, index_of, first)
    last = int(next(record.value for record in reversed(records) if record.value))
    for index in {0, 1, last, last + 5, *(rng.randrange(last + 1) for _ in range(20))}:
        found = found_in.behind(index, end)
        own = [record.offset for record in records if record.value and int(record.value) <= index]
        assert found == (own[-1] + 1 if own else first), index
    for offset in (first, end, *(rng.randrange(first, end) for _ in range(20))):
        before = [int(record.value) for record in records if record.value and record.offset < offset]
        assert found_in.last_before(offset) == (before[-1] if before else 0)
    if len(records) > 2000:
        read = 0
        found_in.behind(last // 2, end)
        assert read < len(records) / 2
