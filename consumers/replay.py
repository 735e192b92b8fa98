"""Compaction: a range of effects as one change, by PySpark.

    1. survey    Spark reads the topic without the lines, and finds runs: records that follow from each other.
    2. lineage   The consumer of effects says which runs count, and hears what stands between them (`lineage.py`).
    3. compact   Spark reads the records that count, keeps the first and the last word on each line, writes files.
    4. prove     The files are read as they stand on disk: signature before + what they say = signature after.

Everything that grows with the topic is in Spark's hands, and on its disks where it is much; here there is a line for
each thousand records of step 1.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

import schemas
from consumers.effects import Run
from consumers.lineage import Lineage
from quadlog import codec
from quadlog.applied import Applied
from quadlog.bundle import Manifest, Word, counted
from quadlog.core.signature import empty_graph_line
from quadlog.envelope import EPOCH
from quadlog.errors import StateError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import Column, Row, SparkSession

    from consumers.lineage import Between, Span
    from quadlog.bundle import File

    Phase = Callable[[str], AbstractContextManager[None]]
    """Shows how far something is that goes on meanwhile."""

RUN: Final = 1024
"""Records that are one run at most.  A fence makes so many be heard one by one, and each run is a line in memory."""
TASK: Final = 100_000
"""Records that one task reads: a second of work."""
FETCH: Final = 2 * 1024 * 1024
"""Bytes that Kafka's client fetches at once.  Spark asks for the ends of the topic after each fetch: less takes longer,
and more fills the heap of a small session."""
FILE: Final = 200_000
"""Records of effects for one file of each word: a task has all their lines in memory."""

_SCHEMAS: Final = schemas.versions("quadlog.Effect")
_HEADER: Final = 5
_ALL: Final = 1 << 30
"""Length of what is behind a prefix."""
_HEAD: Final = frozenset(
    {"index", "term", "attempt", "signature_before", "signature_after", "chunk", "chunks"}
)
_LISTS: Final = ("deleted", "inserted", "filled", "dropped", "emptied")
"""As an effect has them: first what goes, then what comes."""
_BODY: Final = frozenset({"index", *_LISTS})
_GRAPH: Final = empty_graph_line("")

# What happened to a line: a quad's, or the one that stands for an empty graph.  A graph that is dropped had quads, so
# there was no such line.  In one effect the greater one is the later one.
_GONE, _NEVER, _THERE = range(3)
_WORDS: Final = 4
"""Above `_THERE`: index * 4 + word is a moment in the log."""
_WORD_OF: Final = {
    "deleted": _GONE,
    "inserted": _THERE,
    "filled": _GONE,
    "dropped": _NEVER,
    "emptied": _THERE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """An effects topic, as far as it goes now."""

    kafka: str
    name: str
    beginning: int
    end: int
    """Offset behind its last record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What is to be compacted."""

    applied: Applied = field(default_factory=Applied)
    """A state from which on the topic is followed."""
    after: int | None = None
    """Index behind which the range begins; None: that of the state."""
    until: int | None = None
    """Index of its last effect; None: the newest one."""


class Compaction:
    """One run of it."""

    def __init__(self, spark: SparkSession, topic: Topic, between: Between, phase: Phase) -> None:
        """Nothing is read yet.

        Args:
            spark: a session.
            topic: is read as far as it went when it was looked at.
            between: reads records of it, for this process alone.
            phase: shows the progress.

        """
        self._spark, self._topic, self._between, self._phase = spark, topic, between, phase
        self._tasks = 2 * spark.sparkContext.defaultParallelism
        """At the least: two for each core."""

    def write(self, wanted: Range, target: Path) -> Manifest:
        """Make the bundle; the directory is there when it is whole and proven, and not before.

        Raises:
            UserError: there is no such range, or the directory is there already.
            StateError: effects are missing, or do not lead to the state that they say.

        """
        if target.exists():
            raise UserError(f"{target} is there already: remove it, or name another directory")
        lineage = self.follow(wanted.applied)
        after, until = self._bounds(wanted, lineage)
        spans = lineage.spans(after, until)
        making = target.with_name(f"{target.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        try:
            with self._phase("compact"):
                paths = self._files(spans, making)
            with self._phase("prove"):
                files = self._counted(paths)
            manifest = Manifest(
                topic=self._topic.name,
                before=lineage.state_at(after),
                after=lineage.newest() if until == lineage.index else lineage.state_at(until),
                effects=until - after,
                records=sum(span.end - span.start for span in spans),
                seed=lineage.seed.signature.hex() if lineage.seed else "",
                files=tuple(files),
            )
            manifest.check()
            manifest.write(making)
            making.rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
        return manifest

    def follow(self, applied: Applied) -> Lineage:
        """Which effects of the topic count, and where they stand.

        Behind the first rewind it matters of which epoch a record is, and only then are headers read: they take as
        long as all else.
        """
        topic = self._topic
        lineage = Lineage(topic.name, applied, self._between)
        lineage.offset = max(applied.effects_offset, topic.beginning)
        is_whole = False
        while not is_whole:
            with self._phase("survey"):
                runs = self._survey(lineage.offset, topic.end, knows_epochs=lineage.is_rewound)
            with self._phase("lineage"):
                is_whole = lineage.follow(runs, topic.end, knows_epochs=lineage.is_rewound)
        return lineage

    def _bounds(self, wanted: Range, lineage: Lineage) -> tuple[int, int]:
        first = wanted.applied.index
        after = first if wanted.after is None else wanted.after
        until = lineage.index if wanted.until is None else wanted.until
        name, beginning = self._topic.name, self._topic.beginning
        is_short = until > lineage.index or lineage.index == first
        if is_short and (lineage.gaps or beginning > wanted.applied.effects_offset):
            raise StateError(
                f"{name} lacks effect {lineage.index + 1}, or what says whose effects count; it begins at offset"
                f" {beginning}, and {lineage.gaps} effects stand there that need it: compact from a state that is"
                " newer, or copy a store instead"
            )
        if until > lineage.index:
            raise UserError(f"{name} goes up to effect {lineage.index} now: there is no {until}")
        if not first <= after < until:
            raise UserError(
                f"no effects between {after} and {until}: the state that is given is that after {first}, and {name}"
                f" goes up to {lineage.index}"
            )
        return after, until

    # --- survey -------------------------------------------------------------------------------------

    def _survey(self, start: int, end: int, *, knows_epochs: bool) -> list[Run]:
        """Runs between two offsets, in order; what stands between them is none."""
        if start >= end:
            return []
        epoch = _epoch() if knows_epochs else f.lit(1)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(self._tasks))
        heads = (
            self._records(start, end, headers=knows_epochs)
            # Not below a column that is not deterministic does Spark move a filter: it would decode once more for each
            # of its conditions.
            .select(
                "offset",
                epoch.alias("epoch"),
                _decoded(_HEAD).alias("effect"),
                f.monotonically_increasing_id().alias("row"),
            )
            .select("offset", "epoch", "effect.*", "row")
            .filter("row >= 0 and index is not null and chunk = 0 and chunks = 1 and epoch is not null")
        )
        found = heads.groupBy(f.expr(f"offset div {RUN}").alias("place")).agg(
            f.count("*").alias("records"),
            f.min("offset").alias("start"),
            f.max("offset").alias("last"),
            f.min(f.expr("index - offset")).alias("shift"),
            f.max(f.expr("index - offset")).alias("other_shift"),
            f.collect_set(f.struct("epoch", "term", "attempt")).alias("writers"),
            f.min_by("signature_before", "offset").alias("before"),
            f.max_by("signature_after", "offset").alias("after"),
            # Each state in between is one effect's after and the next one's before: these take each other away.
            f.expr("bit_xor(xxhash64(index - 1, signature_before) ^ xxhash64(index, signature_after))").alias(
                "links"
            ),
        )
        linked = "links = xxhash64(start + shift - 1, before) ^ xxhash64(last + shift, after)"
        runs = found.filter(
            f"records = last - start + 1 and shift = other_shift and size(writers) = 1 and {linked}"
        )
        return sorted(map(_run_of, runs.collect()), key=lambda run: run.offset)

    def _records(self, start: int, end: int, *, headers: bool = False) -> DataFrame:
        """The records between two offsets."""
        topic = self._topic
        tasks = max(self._tasks, -(-(end - start) // TASK))
        options = {
            "kafka.bootstrap.servers": topic.kafka,
            "assign": json.dumps({topic.name: [0]}),
            "startingOffsets": json.dumps({topic.name: {"0": start}}),
            "endingOffsets": json.dumps({topic.name: {"0": end}}),
            "minPartitions": str(tasks),
            "includeHeaders": str(headers).lower(),
            "kafka.max.partition.fetch.bytes": str(FETCH),
            "kafka.fetch.max.bytes": str(FETCH),
            "kafka.receive.buffer.bytes": str(FETCH // 2),
            # All that was fetched: Spark has the rest fetched again.
            "kafka.max.poll.records": str(FETCH // 16),
        }
        return self._spark.read.format("kafka").options(**options).load()

    # --- compact ------------------------------------------------------------------------------------

    def _files(self, spans: Sequence[Span], making: Path) -> list[tuple[Path, Word]]:
        """Write the words' files."""
        alone, groups = (
            [span for span in spans if span.group < 0],
            [span for span in spans if span.group >= 0],
        )
        parts = [self._said(alone)] if alone else []
        parts += [self._said_in_groups(groups)] if groups else []
        said = reduce(DataFrame.union, parts)
        records = sum(span.end - span.start for span in spans)
        tasks = max(self._tasks, -(-records // FILE))
        self._spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
        # A file for each word at a time: nothing has to be sorted for that.
        self._spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(len(Word)))
        words = said.groupBy("line").agg(f.min("moment").alias("first"), f.max("moment").alias("last"))
        net = words.select(_word().alias("word"), "line").filter("word is not null")
        is_graph = f.col("word").isin([word.value for word in Word if word.is_of_graphs])
        text = f.when(is_graph, f.substring("line", len(_GRAPH) + 1, _ALL)).otherwise(f.col("line"))
        written = making / "written"
        net.select("word", text.alias("value")).write.partitionBy("word").options(
            compression="gzip", lineSep="\n"
        ).text(str(written))
        return _named(written, making)

    def _said(self, spans: Sequence[Span]) -> DataFrame:
        """Lines, and when which word was said on each of them."""
        lists = self._live(spans).select(_decoded(_BODY).alias("effect")).select("effect.*")
        whole = reduce(f.concat, [f.col(name) for name in _LISTS[1:]], f.col(_LISTS[0]))
        ends = [reduce(add, [f.size(name) for name in _LISTS[: n + 1]]) for n in range(len(_LISTS))]
        # Two steps: else the lists are copied to each of their lines.  Of effects without any there is a row, too: else
        # Spark looks for those first, and decodes once more for it.
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
        moment = (f.col("index") * _WORDS + word).alias("moment")
        return each.filter("col is not null").select(line.alias("line"), moment)

    def _said_in_groups(self, spans: Sequence[Span]) -> DataFrame:
        """As `_said`, of chunks whose lines go on in each other."""
        kind = ArrayType(StructType([StructField("line", StringType()), StructField("word", IntegerType())]))
        joined: Any = f.udf(_joined, kind)
        chunks = self._live(spans).groupBy("group").agg(f.collect_list("value").alias("values"))
        index = _decoded(_BODY, f.expr("values[0]"))["index"]
        each = chunks.select(index.alias("index"), f.explode(joined("values")).alias("said"))
        return each.select("said.line", (f.col("index") * _WORDS + f.col("said.word")).alias("moment"))

    def _live(self, spans: Sequence[Span]) -> DataFrame:
        """The records of these spans."""
        rows = [
            (place, max(span.start, place * RUN), min(span.end, (place + 1) * RUN), span.group)
            for span in spans
            for place in range(span.start // RUN, (span.end - 1) // RUN + 1)
        ]
        names = "place long, first long, behind long, `group` long"
        spark: Any = self._spark  # its own types are partly unknown
        places: DataFrame = spark.createDataFrame(rows, names)
        records = self._records(spans[0].start, max(span.end for span in spans)).select(
            "offset", "value", f.expr(f"offset div {RUN}").alias("place")
        )
        return records.join(f.broadcast(places), "place").filter("offset >= first and offset < behind")

    # --- prove --------------------------------------------------------------------------------------

    def _counted(self, paths: Sequence[tuple[Path, Word]]) -> list[File]:
        """Read what was written; files of many sizes, each a task."""
        if not paths:
            return []
        context = self._spark.sparkContext
        return context.parallelize(paths, len(paths)).map(lambda path: counted(*path)).collect()


def _decoded(names: frozenset[str], value: Column | None = None) -> Column:
    """Some fields of an effect; nothing of what is no effect."""
    value = f.col("value") if value is None else value
    options = {"mode": "PERMISSIVE", "avroSchema": schemas.part(_SCHEMAS[-1], names)}
    found = f.lit(None)
    for schema_id in _SCHEMAS:
        prefix = f.lit(bytearray(b"\0" + schema_id.to_bytes(_HEADER - 1, "big")))
        avro = from_avro(f.substring(value, _HEADER + 1, _ALL), schemas.text(schema_id), options)
        found = f.when(f.substring(value, 1, _HEADER) == prefix, avro).otherwise(found)
    return found


def _epoch() -> Column:
    """Of the view of a record's writer; null where another program wrote it."""
    said = f.element_at(f.filter("headers", lambda header: header["key"] == EPOCH), -1)["value"]
    return f.when(said.isNull(), 1).otherwise(said.cast("string").try_cast("long"))


def _run_of(row: Row) -> Run:
    writer = row["writers"][0]
    return Run(
        offset=row["start"],
        first=row["start"] + row["shift"],
        last=row["last"] + row["shift"],
        epoch=writer["epoch"],
        term=bytes(writer["term"]),
        attempt=writer["attempt"],
        before=bytes(row["before"]),
        after=bytes(row["after"]),
    )


def _word() -> Column:
    """What the first and the last thing that happened to a line come to; null: nothing, and nobody has to know."""
    was, last = f.col("first") % _WORDS == _GONE, f.col("last") % _WORDS
    is_there, is_graph = last == _THERE, f.col("line").startswith(_GRAPH)
    return (
        f.when(is_graph & is_there, f.when(~was, Word.EMPTIED.value))
        .when(is_graph, f.when(was, Word.FILLED.value).otherwise(Word.DROPPED.value))
        .when(is_there, f.when(was, Word.KEPT.value).otherwise(Word.INSERTED.value))
        .otherwise(f.when(was, Word.DELETED.value))
    )


def _joined(values: Iterable[bytes]) -> list[tuple[str, int]]:
    """The lines of chunks that go on in each other, each with its word; in any order."""
    effect = codec.joined_chunks(map(bytes, values))
    return [
        (f"{_GRAPH}{line}" if name in {"filled", "dropped", "emptied"} else line, _WORD_OF[name])
        for name in _LISTS
        for line in getattr(effect, name)
    ]


def _named(written: Path, making: Path) -> list[tuple[Path, Word]]:
    """Spark's files under our names; `kept` only where it is needed."""
    has = {word for word in Word if (written / f"word={word}").is_dir()}
    if not has & {Word.FILLED, Word.DROPPED}:
        has.discard(Word.KEPT)
    paths: list[tuple[Path, Word]] = []
    for word in sorted(has):
        for number, part in enumerate(sorted((written / f"word={word}").glob("part-*"))):
            path = making / f"{word}-{number:05}.gz"
            part.rename(path)
            paths.append((path, word))
    shutil.rmtree(written)
    return paths
