"""`quadlog archive`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadlog.broker import beginning_of, end_of, ranges
from quadlog.broker.places import Places, index_of_effect, index_of_entry
from quadlog.errors import SetupError
from quadlog.progress import Phases
from quadlog.replay.archiving import archive
from quadlog.replay.compact import stretches_of
from quadlog.replay.spark import SparkSettings, session, shown, told
from quadlog.replay.survey import Surveyor, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from quadlog.ports import Record
    from quadlog.replay.stretches import Stretches
    from quadlog.topics import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """Options of the command."""

    kafka: str
    topics: Topics
    directory: Path
    until: int | None
    """Index of the last entry to archive; None: the newest one."""
    spark: SparkSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Records of one topic to archive."""

    topic: Topic
    stretches: Stretches
    subject: str


def run_archive(wanted: ArchiveOptions, say: Callable[[str], None]) -> None:
    """Archive the records of both topics that are not archived yet, up to an entry.

    Raises:
        SetupError: a topic does not exist, or the directory cannot be made.

    """
    try:
        wanted.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"{wanted.directory} cannot be an archive: {error.strerror}") from error
    parts = [
        _part(wanted, wanted.topics.agreed, "quadlog.Entry", index_of_entry),
        _part(wanted, wanted.topics.effects, "quadlog.Effect", index_of_effect),
    ]
    for part in parts:
        if part.topic.beginning >= part.topic.end:
            say(f"{part.topic.name}: nothing new up to there")
    if due := [part for part in parts if part.topic.beginning < part.topic.end]:
        _archive(due, wanted, say)


def _archive(parts: Sequence[_Part], wanted: ArchiveOptions, say: Callable[[str], None]) -> None:
    phases = Phases()
    with session(wanted.spark, phases.write) as spark, told("what is whole stays in the archive"):
        surveyor = Surveyor(spark)
        for part in parts:
            with shown(phases, spark, part.topic.name):
                stretch = archive(surveyor, part.topic, part.stretches, part.subject)
            say(
                f"{stretch.topic}: {stretch.records} records, offsets {stretch.start} to {stretch.end - 1}, entries"
                f" {stretch.first or '-'} to {stretch.last or '-'}, proven"
            )


def _part(wanted: ArchiveOptions, name: str, subject: str, index_of: Callable[[Record], int | None]) -> _Part:
    stretches = stretches_of(wanted.directory, wanted.kafka, name)
    end, _ = end_of(wanted.kafka, name, count=0)
    beginning = max(beginning_of(wanted.kafka, name), stretches.end)
    if wanted.until is not None and beginning < end:
        with ranges(wanted.kafka, name) as between:
            end = Places(between, index_of, beginning).behind(wanted.until, end)
    topic = Topic(kafka=wanted.kafka, name=name, beginning=beginning, end=end)
    return _Part(topic=topic, stretches=stretches, subject=subject)
