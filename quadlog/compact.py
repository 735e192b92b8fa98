"""`quadlog compact`: from its options to its last line."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consumers.replay import Compaction, Range, Topic
from quadlog.broker import beginning_of, end_of, ranges
from quadlog.seed.progress import Phases
from quadlog.spark import SparkSettings, session

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from pyspark import SparkContext

    from quadlog.bundle import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be compacted, and how."""

    kafka: str
    topic: str
    target: Path
    range: Range
    spark: SparkSettings


def run_compact(wanted: Wanted, say: Callable[[str], None]) -> Manifest:
    """Make one bundle."""
    phases = Phases()
    end, _ = end_of(wanted.kafka, wanted.topic, count=0)
    topic = Topic(
        kafka=wanted.kafka, name=wanted.topic, beginning=beginning_of(wanted.kafka, wanted.topic), end=end
    )
    began = time.monotonic()
    with session(wanted.spark, phases.say) as spark, ranges(wanted.kafka, wanted.topic) as between:
        start_s = time.monotonic() - began

        @contextmanager
        def phase(name: str) -> Generator[None]:
            tasks = _Tasks(spark.sparkContext)
            with phases.phase(name, 1.0, tasks.look):
                yield

        manifest = Compaction(spark, topic, between, phase).write(wanted.range, wanted.target)
    took = sum(phases.seconds.values())
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in phases.seconds.items())
    lines = ", ".join(
        f"{lines} {word}"
        for word in dict.fromkeys(f.word for f in manifest.files)
        if (lines := manifest.lines(word))
    )
    say(
        f"{wanted.target}: effects {manifest.before.index + 1} to {manifest.after.index}: {lines or 'no change'}"
    )
    say(f"signature {manifest.after.signature:064x}, proven")
    say(f"{manifest.effects / took:,.0f} effects/s (start of Spark {start_s:.1f} s, {parts})")
    return manifest


class _Tasks:
    """How many of the tasks are done that Spark knows of since."""

    def __init__(self, context: SparkContext) -> None:
        self._tracker = context.statusTracker()
        self._stages: dict[int, tuple[int, int]] = {}

    def look(self) -> tuple[float, int]:
        """The share that is done; of quads nothing is known."""
        for stage in self._tracker.getActiveStageIds():
            if info := self._tracker.getStageInfo(stage):
                self._stages[stage] = info.numCompletedTasks, info.numTasks
        done, known = (
            (sum(column) for column in zip(*self._stages.values(), strict=True)) if self._stages else (0, 1)
        )
        return done / known, 0
