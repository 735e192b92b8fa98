"""Compaction: reduce a range of effects to one change, with PySpark.

    1. survey    Spark reads the topic without the lines, and finds runs: records that follow from each other.
    2. lineage   The effects consumer decides which runs count, and reads the records between them (`lineage.py`).
    3. entries   The same for the agreed topic: where a worker continues to read it, and which entries configure.
    4. compact   Spark reads the records that count, keeps the first and last change of each line, writes files.
    5. prove     The files are read as stored on disk: signature before + sum of the files = signature after.

Spark processes all data that grows with the topic, and spills it to its disks if necessary.  This process holds one
row for each thousand records of step 1.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from quadlog import codec
from quadlog.core.effects import control
from quadlog.core.effects.signature import empty_graph_line
from quadlog.errors import StateError, UserError
from quadlog.quadstore.applied import Applied, InAgreed
from quadlog.replay import survey
from quadlog.replay.agreed_lineage import AgreedLineage
from quadlog.replay.bundle import BundleManifest, LastWord
from quadlog.replay.lineage import Lineage
from quadlog.replay.proof import count
from quadlog.replay.survey import ALL, Surveyor, decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import Column, SparkSession

    from quadlog.core.records import LoggedEntry
    from quadlog.replay.lineage import Between, Span
    from quadlog.replay.survey import Topic

    Phase = Callable[[str], AbstractContextManager[None]]
    """Context that shows the progress of a named phase."""

FILE: Final = 200_000
"""Effect records of one task, which holds all their lines in memory and writes a file for each word."""

_LISTS: Final = ("deleted", "inserted", "filled", "dropped", "emptied")
"""Lists of an effect, in its order: first of quads, then of graphs, with removals first."""
_BODY: Final = frozenset({"index", *_LISTS})
_VERDICT: Final = frozenset({"index", "outcome", "reason"})
_GRAPH: Final = empty_graph_line("")

# Change of a line, either of a quad or of an empty graph.  A dropped graph had quads, so it had no line of an empty
# graph.  Within one effect the greater value is the later change.
GONE, NEVER, THERE = range(3)
MOMENTS: Final = 4
"""Greater than `THERE`: index * 4 + change is a moment in the log."""
_WORD_OF: Final = {
    "deleted": GONE,
    "inserted": THERE,
    "filled": GONE,
    "dropped": NEVER,
    "emptied": THERE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySource:
    """A topic, and how this process reads ranges of its records without Spark."""

    topic: Topic
    between: Between


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedRange:
    """Range of effects to compact."""

    applied: Applied = field(default_factory=Applied)
    """State from which the topic is followed."""
    after: int | None = None
    """Index after which the range begins; None: the index of the state."""
    until: int | None = None
    """Index of the last effect; None: the newest one."""


class BundleDraft:
    """Files that are written but not proven yet.  Spark is no longer needed and may have ended."""

    def __init__(self, target: Path, manifest: BundleManifest) -> None:
        """Remove leftovers of an earlier run.  `manifest` is complete except for its files."""
        self._target, self._manifest = target, manifest
        self.making: Final = target.with_name(f"{target.name}.making")
        self.paths: Final[list[tuple[Path, LastWord]]] = []
        shutil.rmtree(self.making, ignore_errors=True)

    @contextmanager
    def kept_if_whole(self) -> Generator[None]:
        """Remove all files on any error."""
        try:
            yield
        except BaseException:
            shutil.rmtree(self.making, ignore_errors=True)
            raise

    def proven(self) -> BundleManifest:
        """Read the files as stored on disk, and move the bundle to its target.

        Raises:
            StateError: the effects do not lead to the state that they claim.

        """
        with self.kept_if_whole():
            manifest = replace(self._manifest, files=tuple(count(self.paths)))
            manifest.check()
            manifest.write(self.making)
            self.making.rename(self._target)
        return manifest


class Compaction:
    """One compaction, up to the unproven files."""

    def __init__(
        self, spark: SparkSession, effects: ReplaySource, agreed: ReplaySource, phase: Phase
    ) -> None:
        """Start without reading anything.  The end of `agreed` was read after that of `effects`."""
        self._spark, self._effects, self._agreed, self._phase = spark, effects, agreed, phase
        self._topic = effects.topic
        self._surveyor = Surveyor(spark)

    def write(self, wanted: CompactedRange, target: Path) -> BundleDraft:
        """Write the files.  They do not appear at the target before they are proven.

        Raises:
            UserError: the range does not exist, or the target directory already exists.
            StateError: effects are missing.

        """
        if target.exists():
            raise UserError(f"{target} is there already: remove it, or name another directory")
        lineage = self.follow(wanted.applied)
        after, until = self._bounds(wanted, lineage)
        spans = lineage.spans(after, until)
        before = lineage.state_at(after)
        newest = lineage.newest() if until == lineage.index else lineage.state_at(until)
        before, newest, configuring = self._entries(wanted.applied, before, newest)
        controls = control.changes_of((entry, lineage.effect_at(entry.index)) for entry in configuring)
        manifest = BundleManifest(
            topic=self._topic.name,
            before=before,
            after=newest,
            controls=tuple(controls),
            effects=until - after,
            records=sum(span.end - span.start for span in spans),
            seed=lineage.seed.signature.hex() if lineage.seed else "",
            files=(),
        )
        draft = BundleDraft(target, manifest)
        with draft.kept_if_whole(), self._phase("compact"):
            draft.paths.extend(self._files(spans, draft.making))
        return draft

    def follow(self, applied: Applied) -> Lineage:
        """Find which effects of the topic count, and at which offsets they are stored.

        Headers are read only after the first rewind, where the epoch of a record matters: reading them takes as long
        as everything else.
        """
        topic = self._topic
        lineage = Lineage(topic.name, applied, self._effects.between)
        lineage.offset = max(applied.effects_offset, topic.beginning)
        is_whole = False
        while not is_whole:
            with self._phase("survey"):
                runs = self._surveyor.effects(topic, lineage.offset, knows_epochs=lineage.is_rewound)
            with self._phase("lineage"):
                try:
                    is_whole = lineage.follow(runs, topic.end, knows_epochs=lineage.is_rewound)
                except StateError as error:
                    raise (
                        self._lacks(lineage) if topic.beginning > applied.effects_offset else error
                    ) from None
        return lineage

    def _lacks(self, lineage: Lineage) -> StateError:
        name, beginning = self._topic.name, self._topic.beginning
        return StateError(
            f"{name} lacks effect {lineage.index + 1}, or what says whose effects count; it begins at offset"
            f" {beginning}, and {lineage.gaps} effects stand there that need it: compact from a state that is newer,"
            " give the archive that has what is before, or copy a store instead"
        )

    def _entries(
        self, applied: Applied, after: Applied, until: Applied
    ) -> tuple[Applied, Applied, list[LoggedEntry]]:
        """Add the place in the agreed topic to both states; also return the entries between them that configure."""
        topic = self._agreed.topic
        # A store that has gone back may have read entries of the range before its place: begin at the start.
        place = applied.in_agreed if applied.heard is None else InAgreed()
        points = [until.point] if after.index == applied.index else [after.point, until.point]
        with self._phase("entries"):
            start = max(place.offset, topic.beginning)
            lineage = AgreedLineage(topic.name, place._replace(offset=start), self._agreed.between)
            places = lineage.follow(self._surveyor.entries(topic, start), topic.end, points)
        if len(places) > 1:
            after = _hearing_on(after, places[0])
        configuring = lineage.configuring(after.index, until.index)
        return after, _hearing_on(until, places[-1]), configuring

    def _bounds(self, wanted: CompactedRange, lineage: Lineage) -> tuple[int, int]:
        first = wanted.applied.index
        after = first if wanted.after is None else wanted.after
        until = lineage.index if wanted.until is None else wanted.until
        name, beginning = self._topic.name, self._topic.beginning
        is_short = until > lineage.index or lineage.index == first
        if is_short and (lineage.gaps or beginning > wanted.applied.effects_offset):
            raise self._lacks(lineage)
        if until > lineage.index:
            raise UserError(f"{name} goes up to effect {lineage.index} now: there is no {until}")
        if not first <= after < until:
            raise UserError(
                f"no effects between {after} and {until}: the state that is given is that after {first}, and {name}"
                f" goes up to {lineage.index}"
            )
        return after, until

    # --- compact ------------------------------------------------------------------------------------

    def _files(self, spans: Sequence[Span], making: Path) -> list[tuple[Path, LastWord]]:
        """Write the files of all words."""
        said = self.changes(spans)
        records = sum(span.end - span.start for span in spans)
        tasks = self._surveyor.tasks_for(records, FILE)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
        # A task has one open file for each word, so Spark need not sort the rows by word.
        self._spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(len(LastWord)))
        words = said.groupBy("line").agg(f.min("moment").alias("first"), f.max("moment").alias("last"))
        net = words.select(_word().alias("word"), "line").filter("word is not null")
        is_graph = f.col("word").isin([word.value for word in LastWord if word.is_of_graphs])
        text = f.when(is_graph, f.substring("line", len(_GRAPH) + 1, ALL)).otherwise(f.col("line"))
        written = making / "written"
        net.select("word", text.alias("value")).write.partitionBy("word").options(
            compression="gzip", lineSep="\n"
        ).text(str(written))
        return _named(written, making)

    def changes(self, spans: Sequence[Span]) -> DataFrame:
        """Return each line that these records change, with the moment: index * `MOMENTS` + change.

        An empty graph is a line, too.
        """
        alone, groups = (
            [span for span in spans if span.group < 0],
            [span for span in spans if span.group >= 0],
        )
        parts = [self._said(alone)] if alone else []
        parts += [self._said_in_groups(groups)] if groups else []
        return reduce(DataFrame.union, parts)

    def outcomes(self, spans: Sequence[Span]) -> DataFrame:
        """Return index, outcome and reason of the effects in these records; a row for each chunk."""
        return (
            self._live(spans).select(decoded("quadlog.Effect", _VERDICT).alias("effect")).select("effect.*")
        )

    def size_of(self, spans: Sequence[Span]) -> int:
        """Return the number of bytes of these records' values."""
        row = self._live(spans).select(f.sum(f.length("value")).alias("size")).first() if spans else None
        return 0 if row is None else row["size"] or 0

    def _said(self, spans: Sequence[Span]) -> DataFrame:
        """Return each changed line with the moment of its change."""
        lists = self._live(spans).select(decoded("quadlog.Effect", _BODY).alias("effect")).select("effect.*")
        whole = reduce(f.concat, [f.col(name) for name in _LISTS[1:]], f.col(_LISTS[0]))
        ends = [reduce(add, [f.size(name) for name in _LISTS[: n + 1]]) for n in range(len(_LISTS))]
        # Two steps: with one, Spark copies the lists to each of their lines.  Effects without lines get a row, too:
        # otherwise Spark filters them out first, and decodes each record once more for that.
        sizes = [end.alias(f"end_{n}") for n, end in enumerate(ends)]
        each = lists.select("index", *sizes, whole.alias("lines"))
        each = each.select("index", *(f"end_{n}" for n in range(len(sizes))), f.posexplode_outer("lines"))
        word = f.lit(_WORD_OF[_LISTS[-1]])
        for n, name in reversed(list(enumerate(_LISTS[:-1]))):
            word = f.when(f.col("pos") < f.col(f"end_{n}"), _WORD_OF[name]).otherwise(word)
        quads = _LISTS.index("inserted")
        line = f.when(f.col("pos") < f.col(f"end_{quads}"), f.col("col")).otherwise(
            f.concat(f.lit(_GRAPH), "col")
        )
        moment = (f.col("index") * MOMENTS + word).alias("moment")
        return each.filter("col is not null").select(line.alias("line"), moment)

    def _said_in_groups(self, spans: Sequence[Span]) -> DataFrame:
        """Do the same as `_said` for chunks whose lines continue in each other."""
        kind = ArrayType(StructType([StructField("line", StringType()), StructField("word", IntegerType())]))
        joined: Any = f.udf(_joined, kind)
        chunks = self._live(spans).groupBy("group").agg(f.collect_list("value").alias("values"))
        index = decoded("quadlog.Effect", _BODY, f.expr("values[0]"))["index"]
        each = chunks.select(index.alias("index"), f.explode(joined("values")).alias("said"))
        return each.select("said.line", (f.col("index") * MOMENTS + f.col("said.word")).alias("moment"))

    def _live(self, spans: Sequence[Span]) -> DataFrame:
        """Return the records of these spans."""
        rows = [
            (place, max(span.start, place * survey.RUN), min(span.end, (place + 1) * survey.RUN), span.group)
            for span in spans
            for place in range(span.start // survey.RUN, (span.end - 1) // survey.RUN + 1)
        ]
        # As JSON: to create a table from a list, Spark starts Python workers.
        kind = "array<struct<place: long, first: long, behind: long, `group`: long>>"
        said = [dict(zip(("place", "first", "behind", "group"), row, strict=True)) for row in rows]
        table = self._spark.range(1).select(
            f.explode(f.from_json(f.lit(json.dumps(said)), kind)).alias("one")
        )
        places = table.select("one.*")
        records = self._surveyor.records(self._topic, spans[0].start, max(span.end for span in spans)).select(
            "offset", "value", f.expr(f"offset div {survey.RUN}").alias("place")
        )
        return records.join(f.broadcast(places), "place").filter("offset >= first and offset < behind")


def _hearing_on(applied: Applied, place: InAgreed) -> Applied:
    """Return the same state, with the place from which a worker continues to read the agreed topic."""
    heard = None if place.last == applied.point else place.last
    return replace(applied, agreed_offset=place.offset, epoch=place.epoch, heard=heard)


def _word() -> Column:
    """Return the net word of the first and the last change of a line; null if no file needs the line."""
    was, last = f.col("first") % MOMENTS == GONE, f.col("last") % MOMENTS
    is_there, is_graph = last == THERE, f.col("line").startswith(_GRAPH)
    return (
        f.when(is_graph & is_there, f.when(~was, LastWord.EMPTIED.value))
        .when(is_graph, f.when(was, LastWord.FILLED.value).otherwise(LastWord.DROPPED.value))
        .when(is_there, f.when(was, LastWord.KEPT.value).otherwise(LastWord.INSERTED.value))
        .otherwise(f.when(was, LastWord.DELETED.value))
    )


def _joined(values: Iterable[bytes]) -> list[tuple[str, int]]:
    """Return each line and its change, of chunks, in any order, whose lines continue in each other."""
    effect = codec.joined_chunks(map(bytes, values))
    return [
        (f"{_GRAPH}{line}" if name in {"filled", "dropped", "emptied"} else line, _WORD_OF[name])
        for name in _LISTS
        for line in getattr(effect, name)
    ]


def _named(written: Path, making: Path) -> list[tuple[Path, LastWord]]:
    """Rename Spark's files; drop `kept` unless a graph was filled or dropped."""
    has = {word for word in LastWord if (written / f"word={word}").is_dir()}
    if not has & {LastWord.FILLED, LastWord.DROPPED}:
        has.discard(LastWord.KEPT)
    paths: list[tuple[Path, LastWord]] = []
    for word in sorted(has):
        for number, part in enumerate(sorted((written / f"word={word}").glob("part-*"))):
            path = making / f"{word}-{number:05}.gz"
            part.rename(path)
            paths.append((path, word))
    shutil.rmtree(written)
    return paths
