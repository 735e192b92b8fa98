"""`quadlog compact`: from its options to its last line."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from consumers.replay import Compaction, Range, Source
from consumers.survey import Topic
from quadlog.broker import beginning_of, end_of, ranges
from quadlog.errors import SparkFailed
from quadlog.seed.progress import Phases
from quadlog.spark import SparkSettings, session

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from pyspark import SparkContext

    from quadlog.bundle import Manifest
    from quadlog.topics import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be compacted, and how."""

    kafka: str
    topics: Topics
    target: Path
    range: Range
    spark: SparkSettings


@contextmanager
def source(kafka: str, name: str) -> Generator[Source]:
    """A topic as far as it goes now."""
    end, _ = end_of(kafka, name, count=0)
    topic = Topic(kafka=kafka, name=name, beginning=beginning_of(kafka, name), end=end)
    with ranges(kafka, name) as between:
        yield Source(topic=topic, between=between)


def run_compact(wanted: Wanted, say: Callable[[str], None]) -> Manifest:
    """Make one bundle."""
    phases = Phases()
    kafka, began = wanted.kafka, time.monotonic()
    with (
        session(wanted.spark, phases.say) as spark,
        source(kafka, wanted.topics.effects) as effects,
        source(kafka, wanted.topics.agreed) as agreed,  # behind it: each effect has its entry there
    ):
        start_s = time.monotonic() - began

        @contextmanager
        def phase(name: str) -> Generator[None]:
            tasks = _Tasks(spark.sparkContext)
            with phases.phase(name, 1.0, tasks.look):
                yield

        try:
            manifest = Compaction(spark, effects, agreed, phase).write(wanted.range, wanted.target)
        except (PySparkException, Py4JError) as error:
            raise SparkFailed(f"a job of Spark failed, and there is no bundle: {error}") from error
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
