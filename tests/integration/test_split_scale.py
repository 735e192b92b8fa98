"""A long split: planted numbers, seconds, memory, and how these grow.  `TEST_SPLIT_UPDATES`: updates of each side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from quadlog.core.model import View
from tests.support.split_logs import MAJORITY, MINORITY, SideLog, SplitTopics, quad

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.soak

UPDATES: Final = int(os.environ.get("TEST_SPLIT_UPDATES", "100000"))
SECONDS: Final = 180
MEMORY_MB: Final = 1500
TWICE: Final = 400
"""Updates that the weakest of three sides has with the side before it."""
DISPUTED, EMPTY, DIFFERS, DUPLICATE, REJECTED = 1_000, 500, 300, 200, 100


class Made(NamedTuple):
    """What one run of the command took."""

    report: dict[str, Any]
    seconds: float
    memory_mb: float


def insert(subject: str) -> str:
    return f'INSERT DATA {{ <{subject}> <urn:p> "1" }}'


def write(topics: SplitTopics, updates: int, *, lags: bool = False) -> tuple[SideLog, SideLog]:
    """Two sides with so many updates each, of which the numbers above are planted in the weaker one.

    Returns what both have, and the weaker one.  `lags`: dc2 has only half of what dc1 has, and nothing of its own.
    """
    base = SideLog()
    base.agree(
        "the quads in dispute",
        inserted=[quad(f"urn:d{number}") for number in range(DISPUTED)],
    )
    base.agree("what a WHERE finds", inserted=[quad(f"urn:x{number}") for number in range(DIFFERS)])
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    for number in range(DISPUTED):
        ours.agree(f'DELETE DATA {{ <urn:d{number}> <urn:p> "1" }}', deleted=[quad(f"urn:d{number}")])
        theirs.agree(insert(f"urn:d{number}"))
    for number in range(EMPTY):
        ours.agree(insert(f"urn:e{number}"), inserted=[quad(f"urn:e{number}")])
        theirs.agree(insert(f"urn:e{number}") + " # too", inserted=[quad(f"urn:e{number}")])
    for number in range(DIFFERS):
        ours.agree(f'INSERT DATA {{ <urn:x{number}> <urn:p> "2" }}', inserted=[quad(f"urn:x{number}", 2)])
        theirs.agree(
            f"INSERT {{ <urn:y{number}> <urn:q> ?o }} WHERE {{ <urn:x{number}> <urn:p> ?o }}",
            inserted=[quad(f"urn:y{number}", 1, "urn:q")],
        )
    for number in range(DUPLICATE):
        for side in (ours, theirs):
            side.agree(insert(f"urn:same{number}"), inserted=[quad(f"urn:same{number}")])
    for number in range(REJECTED):
        theirs.agree(f"INSERT DATA {{ {number}", reason="a syntax error")
    for name, side in (("a", ours), ("b", theirs)):
        for number in range(updates - (len(side.entries) - len(base.entries))):
            side.agree(insert(f"urn:{name}{number}"), inserted=[quad(f"urn:{name}{number}")])
    half = len(ours.entries) // 2
    topics.write("dc1", ours.entries, ours.effects)
    topics.write(
        "dc2", ours.entries[:half] if lags else ours.entries, ours.effects[:half] if lags else ours.effects
    )
    topics.write("dc3", theirs.entries, theirs.effects)
    for dc, view, last, epoch in (
        ("dc1", MAJORITY, ours.last, 2),
        ("dc2", MAJORITY, ours.last, 2),
        ("dc3", MINORITY, theirs.last, 1),
    ):
        topics.post(dc, view, last, epoch=epoch)
    return base, theirs


def write_another(
    topics: SplitTopics, dc: str, base: SideLog, other: SideLog, updates: int
) -> dict[str, int]:
    """A third side, the weakest one; return how many of its updates are in each class."""
    view = View(epoch=2, members=(f"{dc}-m1",), parent=base.view.id)
    side = base.fork(view)
    known = [entry.body.decode() for entry in other.entries[-TWICE:]]
    for text in known:
        side.agree(text, inserted=[text.removeprefix("INSERT DATA { ").removesuffix(" }") + " ."])
    for number in range(DISPUTED):  # the side before has brought it back
        side.agree(f'DELETE DATA {{ <urn:d{number}> <urn:p> "1" }}  ', deleted=[quad(f"urn:d{number}")])
    for number in range(updates - TWICE - DISPUTED):
        side.agree(insert(f"urn:c{number}"), inserted=[quad(f"urn:c{number}")])
    topics.write(dc, side.entries, side.effects)
    topics.post(dc, view, side.last, epoch=0)
    return {"commutes": updates - TWICE, "duplicate": TWICE}


def made(topics: SplitTopics, directory: Path) -> Made:
    """Run the command, and watch the memory of all its processes."""
    given = [word for dc, kafka in topics.kafkas.items() for word in ("--kafka", f"{dc}={kafka}")]
    began = time.monotonic()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "quadlog",
            "split",
            "preview",
            str(directory),
            *given,
            "--repository",
            topics.repository,
        ],
        stdout=subprocess.DEVNULL,
    )
    greatest = 0.0
    ended = threading.Event()

    def watch() -> None:
        nonlocal greatest
        while not ended.wait(0.5):
            greatest = max(greatest, sum(_own_mb(pid) for pid in _family(process.pid)))

    thread = threading.Thread(target=watch)
    thread.start()
    code = process.wait()
    ended.set()
    thread.join()
    assert code == 0
    return Made(json.loads((directory / "report.json").read_text()), time.monotonic() - began, greatest)


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _own_mb(pid: int) -> float:
    """Proportional size of a process."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    [line] = [line for line in text.splitlines() if line.startswith("Pss:")]
    return int(line.split()[1]) / 1024


def planted(updates: int) -> dict[str, int]:
    known = {
        "opposite": DISPUTED,
        "empty": EMPTY,
        "differs": DIFFERS,
        "duplicate": DUPLICATE,
        "rejected": REJECTED,
    }
    return dict(sorted({**known, "commutes": updates - sum(known.values())}.items()))


@pytest.fixture
def topics(kafka: str) -> Iterator[SplitTopics]:
    made = SplitTopics(kafka)
    yield made
    made.close()


@pytest.mark.long("a hundred thousand updates on each side")
def test_the_planted_numbers_in_time_and_memory(topics: SplitTopics, tmp_path: Path) -> None:
    write(topics, UPDATES)
    found = made(topics, tmp_path / "p")
    print(f"{UPDATES} updates a side: {found.seconds:.0f} s, {found.memory_mb:.0f} MB")
    [branch] = found.report["branches"]
    assert branch["classes"] == planted(UPDATES)
    assert branch["disputed"] == DISPUTED
    assert found.seconds < SECONDS
    assert found.memory_mb < MEMORY_MB


@pytest.mark.long("three previews of thousands of updates")
def test_twice_the_updates_take_about_twice_the_time(kafka: str, tmp_path: Path) -> None:
    seconds = list[float]()
    for updates in (UPDATES // 2, UPDATES):
        topics = SplitTopics(kafka)
        write(topics, updates)
        seconds.append(made(topics, tmp_path / f"{updates}").seconds)
        topics.close()
    print(f"{UPDATES // 2} and {UPDATES} updates: {seconds[0]:.0f} and {seconds[1]:.0f} s")
    assert seconds[1] < 2.3 * seconds[0]


@pytest.mark.long("ten thousand updates on each side")
def test_three_sides_and_one_that_lags(kafka: str, tmp_path: Path) -> None:
    updates = UPDATES // 10
    topics = SplitTopics(kafka, ("dc1", "dc2", "dc3", "dc4"))
    base, theirs = write(topics, updates, lags=True)
    expected = write_another(topics, "dc4", base, theirs, updates)
    found = made(topics, tmp_path / "p")
    topics.close()
    print(f"three sides of {updates} updates: {found.seconds:.0f} s, {found.memory_mb:.0f} MB")
    assert [one["dc"] for one in found.report["behind"]] == ["dc2"]
    assert [side["dcs"] for side in found.report["sides"]] == [["dc1"], ["dc3"], ["dc4"]]
    assert [branch["classes"] for branch in found.report["branches"]] == [planted(updates), expected]
    assert found.seconds < SECONDS
    assert found.memory_mb < MEMORY_MB


@pytest.mark.long("ten thousand updates on each side")
def test_of_three_data_centres_one_lags(topics: SplitTopics, tmp_path: Path) -> None:
    write(topics, UPDATES // 10, lags=True)
    report = made(topics, tmp_path / "p").report
    assert [one["dc"] for one in report["behind"]] == ["dc2"]
    assert report["branches"][0]["classes"] == planted(UPDATES // 10)
