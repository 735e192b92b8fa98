"""Where entries stand in a topic that is to be shortened, found in topics of all sorts; and Kafka's part of it."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from consumers import places
from consumers.places import Places
from quadlog.broker import Admin, beginning_of, offset_at, records_between
from quadlog.core.limits import Needs
from quadlog.core.model import Held, Point
from quadlog.core.records import Reached
from quadlog.errors import Unavailable
from quadlog.master.trimming import Stock, stock_of
from quadlog.ports import Record
from quadlog.topics import Topics

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


def scene() -> dict[str, Any]:
    """Two masters in one view, both with its handover, and a worker."""
    posts = {
        name: SimpleNamespace(
            said=SimpleNamespace(node=name, effects=Held(b"term", index), base=Point(900, b""))
        )
        for name, index in (("m1", 950), ("m2", 920))
    }
    return {
        "agreement": SimpleNamespace(
            view=SimpleNamespace(members=("m1", "m2"), epoch=3),
            standing=SimpleNamespace(ballot=None),
            members=posts,
            peers=(SimpleNamespace(node="m1"), SimpleNamespace(node="m2")),
            last=Point(1000, b""),
            settled=900,
        ),
        "decided": SimpleNamespace(fork=None, held=Held(b"term", 950)),
        "crew": SimpleNamespace(
            all=lambda: [SimpleNamespace(beat=SimpleNamespace(worker="w", applied=Point(940, b"")))],
            goes_back=lambda _: False,
        ),
        "store": SimpleNamespace(
            reached=lambda: Reached(1003, Point(1000, b""), 1, 1000), position=lambda _: 955
        ),
        "topics": Topics("main", "dc1"),
    }


def test_what_there_is() -> None:
    found = stock_of(**scene())
    assert found == Stock(
        last=1000,
        needs=Needs({"w": 940}, {"m1": 950, "m2": 920, "what may be cut": 900}),
        effects_offset=955,
        agreed_offset=1003,
    )


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("agreement", "standing", SimpleNamespace(ballot=SimpleNamespace(epoch=4))),
        ("agreement", "peers", (SimpleNamespace(node="m1"), SimpleNamespace(node="m3"))),
        ("agreement", "members", {"m1": scene()["agreement"].members["m1"]}),
        ("agreement", "members", scene()["agreement"].members | {"m2": SimpleNamespace(said=None)}),
        ("decided", "fork", 0),
        ("decided", "held", Held(b"of another view", 950)),
        ("crew", "goes_back", lambda _: True),
        ("store", "reached", lambda: None),
        ("store", "position", lambda _: None),
    ],
)
def test_nothing_goes_while_somebody_may_need_it(part: str, name: str, value: Any) -> None:  # noqa: ANN401
    parts = scene()
    setattr(parts[part], name, value)
    assert stock_of(**parts) is None


def test_records_go_up_to_an_offset(kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    for made in admin.create_topics([NewTopic("trimmed", 1, 1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(10):
        producer.produce("trimmed", value=str(number).encode(), timestamp=1_000_000 + number)
    producer.flush()
    assert [offset_at(kafka, "trimmed", 1_000_000 + number) for number in (-5, 0, 4, 9)] == [0, 0, 4, 9]
    assert offset_at(kafka, "trimmed", round(time.time() * 1000)) == 10
    Admin(kafka).delete_before({"trimmed": 4})
    assert beginning_of(kafka, "trimmed") == 4
    assert [record.value for record in records_between(kafka, "trimmed", 0, 10)] == [
        b"4",
        b"5",
        b"6",
        b"7",
        b"8",
        b"9",
    ]
    with pytest.raises(Unavailable, match="of trimmed before offset 11 could not be deleted"):
        Admin(kafka).delete_before({"trimmed": 11})
    assert beginning_of(kafka, "trimmed") == 4
