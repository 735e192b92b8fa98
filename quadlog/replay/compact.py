"""`quadlog compact`."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadlog.broker import Admin, beginning_of, end_of, ranges
from quadlog.errors import SetupError
from quadlog.progress import Phases
from quadlog.replay.archiving import reader
from quadlog.replay.replay import CompactedRange, Compaction, ReplaySource
from quadlog.replay.spark import SparkSettings, session, shown, told
from quadlog.replay.stretches import Stretches
from quadlog.replay.survey import Surveyor, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from quadlog.replay.bundle import BundleManifest
    from quadlog.topics import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """Options of the command."""

    kafka: str
    topics: Topics
    target: Path
    range: CompactedRange
    spark: SparkSettings
    archive: Path | None = None
    """Directory with records that the topics no longer have."""


@contextmanager
def source(surveyor: Surveyor, kafka: str, name: str, archive: Path | None = None) -> Generator[ReplaySource]:
    """Open a topic up to its present end, including its archived records.

    Raises:
        SetupError: the topic does not exist.

    """
    end, _ = end_of(kafka, name, count=0)
    beginning = beginning_of(kafka, name)
    archived = stretches_of(archive, kafka, name).before(beginning) if archive is not None else []
    start = archived[0].start if archived else beginning
    topic = Topic(kafka=kafka, name=name, beginning=start, end=end, archived=tuple(archived))
    with ranges(kafka, name) as between:
        yield ReplaySource(topic=topic, between=reader(surveyor, topic, between))


def stretches_of(archive: Path, kafka: str, name: str) -> Stretches:
    """Return the archived stretches of a topic.

    Raises:
        SetupError: the topic does not exist.

    """
    identity = Admin(kafka).ids([name]).get(name)
    if identity is None:
        raise SetupError(f"there is no topic {name} at {kafka}")
    return Stretches(archive, name, identity)


def run_compact(wanted: CompactOptions, say: Callable[[str], None]) -> BundleManifest:
    """Make one bundle."""
    phases = Phases()
    kafka, began = wanted.kafka, time.monotonic()
    with session(wanted.spark, phases.write) as spark, told("there is no bundle"):
        surveyor = Surveyor(spark)
        with (
            source(surveyor, kafka, wanted.topics.effects, wanted.archive) as effects,
            source(surveyor, kafka, wanted.topics.agreed, wanted.archive) as agreed,
        ):  # agreed after effects, so that it contains the entry of each effect
            start_s = time.monotonic() - began
            compaction = Compaction(spark, effects, agreed, lambda name: shown(phases, spark, name))
            draft = compaction.write(wanted.range, wanted.target)
    # After the session: Java has released its memory, which the counting processes need.
    with phases.phase("prove", 1, lambda: (0, 0)):
        manifest = draft.proven()
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
