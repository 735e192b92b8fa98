"""Spark begins here: one session, small enough for a machine that does other things."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quadlog.errors import SetupError, SparkFailed
from quadlog.kafka.class_archive import AT_EXIT
from quadlog.kafka.jars import cache_directory, resolve
from quadlog.kafka.java import find_java
from quadlog.lean import without
from quadlog.replay.spark_classes import class_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from quadlog.progress import Phases

CORES: Final = 2
HEAP_MB: Final = 512
"""By default, and at the least: 150 of it outlive what is done with 10,000,000 effects."""
YOUNG: Final = 0.55
"""Of the heap: what Kafka's client reads dies young, and with less of it half of the time goes into collections."""
ALONE: Final = "-XX:+UseSerialGC"
"""What collects garbage where others want the second core anyway: with a thread for each core it takes 30 MB more."""
TOGETHER: Final = "-XX:+UseParallelGC -XX:MinSurvivorRatio=8"
"""On a cluster, whose executors may have many cores.  Spark wants 450 MiB, and counts one half of the space for what
survives as none: by Java's own ratio that could be a sixth of the heap."""
CACHED: Final = str(CORES)
"""Kafka clients that are kept between tasks.  Each holds what it has fetched: with Spark's 64 the heap is full."""
SECOND: Final = "1s"
PATIENCE: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000 -XX:Tier4CompileThreshold=80000"
)
"""Java compiles with all its art what ran ten times as often as it would wait for: with two cores for a minute, that
takes a fifth of the time."""


END_S: Final = 120.0
"""For Java to end, which may have an archive of its classes to write: that takes 10 s here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Where Spark runs, and how much of the machine it takes."""

    master: str = f"local[{CORES}]"
    memory_mb: int = HEAP_MB
    """Heap of the driver and of each executor; in local mode there is only the former."""
    scratch: Path | None = None
    """For what does not fit into memory; None: where Spark has it."""
    py_files: tuple[str, ...] = ()
    """Wheels for executors where quadlog is not installed."""
    archive: Path | None = None
    """Where Java writes the classes that it has loaded, at its end; None: it starts with those that were written so."""

    @property
    def is_local(self) -> bool:
        """Whether all happens on this machine."""
        return self.master.startswith("local")


@contextmanager
def session(
    settings: SparkSettings, say: Callable[[str], None], *, options: Mapping[str, str] | None = None
) -> Generator[SparkSession]:
    """Spark, from its start to its end.

    Raises:
        SetupError: no usable Java, no jars, no such Spark.

    """
    cache, program = cache_directory(), find_java()
    jars = resolve(cache, program, say)
    young = round(settings.memory_mb * YOUNG)
    java = f"{ALONE if settings.is_local else TOGETHER} -Xmn{young}m {PATIENCE}"
    classes = (
        (f"{AT_EXIT}{settings.archive}",)
        if settings.archive is not None
        else class_archive(program, jars, cache, say)
    )
    config = {
        "spark.app.name": "quadlog",
        # Of the class path itself: Java keeps no classes of what is added later.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars.spark)),
        **({} if settings.is_local else {"spark.jars": ",".join(map(str, jars.spark))}),
        "spark.driver.memory": f"{settings.memory_mb}m",
        "spark.executor.memory": f"{settings.memory_mb}m",
        "spark.driver.extraJavaOptions": f"{java} {shlex.join(classes)}",
        "spark.executor.extraJavaOptions": java,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.kafka.consumer.cache.capacity": CACHED,
        "spark.kafka.consumer.cache.timeout": SECOND,
        "spark.kafka.consumer.cache.evictorThreadRunInterval": SECOND,
        "spark.kafka.consumer.fetchedData.cache.timeout": SECOND,
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": SECOND,
        # All but Kafka: by the older interface each record becomes an object of Java's, and bytes again, on its way.
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
        # A sum of hashes wraps around, and a header that is no number is none.
        "spark.sql.ansi.enabled": "false",
        # We know how much comes; another plan in the middle costs a second.
        "spark.sql.adaptive.enabled": "false",
        **(
            {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            if settings.is_local
            else {}
        ),
        **({"spark.local.dir": str(settings.scratch)} if settings.scratch else {}),
        **(options or {}),
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    for key, value in {"spark.master": settings.master, **config}.items():
        builder = builder.config(key, value)
    try:
        with without("pandas"):  # PySpark looks for it at its first call, and it takes 30 MB
            spark: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise SetupError(
            f"Spark did not start with the master {settings.master}: {error}; is there one?"
        ) from error
    try:
        with tempfile.TemporaryDirectory(prefix="quadlog-spark-") as directory:
            for number, file in enumerate(settings.py_files):
                spark.sparkContext.addPyFile(_as_zip(file, Path(directory) / str(number)))
            yield spark
    finally:
        with suppress(Py4JError, ConnectionError):  # Java has died: whoever asked it for something says so
            spark.stop()
        _end_java()


def _end_java() -> None:
    """PySpark lets Java go on until Python ends, with all its memory, and its next session has the same options."""
    context: Any = SparkContext
    gateway = context._gateway  # noqa: SLF001 - there is no other way, and it is pinned
    context._gateway = context._jvm = None  # noqa: SLF001
    gateway.shutdown()
    if gateway.proc is not None:  # else somebody else began it
        gateway.proc.stdin.close()  # which it ends at
        try:
            gateway.proc.wait(END_S)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()


def _as_zip(file: str, directory: Path) -> str:
    """A wheel is a zip, which Spark only believes by its name."""
    path = Path(file)
    if path.suffix != ".whl":
        return file
    directory.mkdir()
    try:
        return str(shutil.copyfile(path, directory / f"{path.stem}.zip"))
    except OSError as error:
        raise SetupError(f"the wheel {file} cannot be read: {error.strerror}") from error


@contextmanager
def told(outcome: str) -> Generator[None]:
    """Whatever Spark fails at is one message; `outcome` says what comes of it.

    Raises:
        SparkFailed: a job failed.

    """
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise SparkFailed(f"a job of Spark failed, and {outcome}: {error}") from error


@contextmanager
def shown(phases: Phases, spark: SparkSession, name: str) -> Generator[None]:
    """A phase whose progress is that of Spark's tasks."""
    tasks = _Tasks(spark.sparkContext)
    with phases.phase(name, 1.0, tasks.look):
        yield


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
