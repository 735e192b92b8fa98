"""`quadlog diff`: the quads that only one of two workers holds."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from quadlog.broker import last_records
from quadlog.codec.envelope import text_id
from quadlog.compare.dumps import dumps_at_one_index, url_of
from quadlog.compare.history import touches
from quadlog.compare.runs import Runs, differences

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchSource:
    """Effects topic to search for the entry that last touched a quad."""

    kafka: str
    topic: str
    look_back: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Options of a comparison."""

    one: str
    other: str
    master: str | None
    effects: TouchSource | None
    wait_s: float
    shown: int


def diff(question: DiffOptions, say: Callable[[str], None]) -> int:
    """Report which quads differ, and return their number.

    Both dumps are read concurrently, since a worker does not wait long for a reader.  Their lines are sorted on disk.
    """
    urls = [url_of(worker, question.master) for worker in (question.one, question.other)]
    with tempfile.TemporaryDirectory(prefix="quadlog-diff-") as place:
        sides = [Runs(Path(place), name) for name in ("one", "other")]
        with dumps_at_one_index(urls[0], urls[1], question.wait_s) as dumps, ThreadPoolExecutor(2) as pool:
            read = [pool.submit(side.add, dump.lines) for side, dump in zip(sides, dumps, strict=True)]
            for ended in read:
                ended.result()
            here, there = ((dump.claim.index, dump.claim.chain) for dump in dumps)
        found = differences(sides[0], sides[1])
        shown = [(side, line.decode()) for side, line in islice(found, question.shown)]
        total = len(shown) + sum(1 for _ in found)
    tell = _teller(question.effects, {line for _, line in shown})
    for side, line in shown:
        say(f"only at {(question.one, question.other)[side]}: {line}\n  {tell(line)}")
    if total > len(shown):
        say(f"and {total - len(shown)} more")
    where = f"at index {here[0]}"
    if here != there:
        where += f" and {there[0]}, of which one is of a branch"
    say(f"{question.one} and {question.other} {where}: {total or 'no'} quads differ")
    return total


def _teller(effects: TouchSource | None, lines: set[str]) -> Callable[[str], str]:
    """Return a function that describes the last entry that touched a line."""
    if effects is None or not lines:
        return lambda _: "last touched by an entry that --kafka would find"
    found = touches(last_records(effects.kafka, effects.topic, count=effects.look_back), lines)

    def tell(line: str) -> str:
        if touch := found.get(line):
            return f"last {touch.did} by entry {touch.index} ({text_id(touch.id)})"
        return f"no effect among the last {effects.look_back} records of {effects.topic} names it"

    return tell
