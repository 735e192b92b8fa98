"""What is archived, read record by record: how often Spark is asked, and what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quadlog.ports import Record
from quadlog.replay import archiving as archive
from quadlog.replay.survey import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.replay.lineage import Between


class Archived:
    """In the place of a surveyor: offsets 0 to 99, but for 50."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def records(self, _: Topic, start: int, end: int, *, headers: bool) -> Archived:
        assert headers
        self.asked.append((start, end))
        return self

    def orderBy(self, _: str) -> Archived:  # noqa: N802 - PySpark's
        return self

    def collect(self) -> list[dict[str, Any]]:
        start, end = self.asked[-1]
        return [
            {"offset": n, "key": b"", "value": bytes(10), "headers": []}
            for n in range(start, min(end, 100))
            if n != 50
        ]


def in_kafka(start: int, end: int) -> Iterator[Record]:
    return iter([Record("t", n, b"", b"k", []) for n in range(start, end)])


@pytest.fixture
def archived() -> Archived:
    return Archived()


@pytest.fixture
def read(archived: Archived, monkeypatch: pytest.MonkeyPatch) -> Between:
    monkeypatch.setattr(archive, "_WINDOW", 16)
    monkeypatch.setattr(Topic, "in_kafka", 100)
    return archive.reader(archived, Topic(kafka="k", name="t", beginning=0, end=120), in_kafka)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "end"), [(0, 120), (3, 4), (15, 17), (49, 52), (90, 100), (99, 101), (100, 110)]
)
def test_all_of_a_range_and_nothing_else(read: Between, start: int, end: int) -> None:
    assert [one.offset for one in read(start, end)] == [n for n in range(start, end) if n != 50]
    assert [one.offset for one in read(start, end)] == [n for n in range(start, end) if n != 50]


def test_neighbours_are_one_job(archived: Archived, read: Between) -> None:
    assert [one.offset for n in range(20, 40) for one in read(n, n + 1)] == [*range(20, 40)]
    assert archived.asked == [(16, 32), (32, 48)]


def test_what_is_large_is_not_kept(
    archived: Archived, read: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_KEPT", 159)
    for n in (20, 21):
        assert [one.offset for one in read(n, n + 1)] == [n]
    assert archived.asked == [(16, 32), (16, 32)]
    assert [one.offset for n in (97, 98) for one in read(n, n + 1)] == [97, 98]
    assert archived.asked[2:] == [(96, 100)], "this window is smaller"
