"""The Spark session, small enough for a machine that also does other work."""

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
"""Default and minimum heap, in MB: with 10,000,000 effects, 150 of them hold long-lived objects."""
YOUNG: Final = 0.55
"""Young share of the heap: Kafka's records are short-lived; with less, half of the time goes into collections."""
ALONE: Final = "-XX:+UseSerialGC"
"""Collector in local mode, where other work uses the second core: one with a thread per core takes 30 MB more."""
TOGETHER: Final = "-XX:+UseParallelGC -XX:MinSurvivorRatio=8"
"""Collector on a cluster, whose executors may have many cores.  Spark requires 450 MiB, and does not count one half of
the survivor space: by Java's default ratio, that could be a sixth of the heap."""
CACHED: Final = str(CORES)
"""Kafka clients kept between tasks.  Each holds the data it has fetched: Spark's default of 64 fills the heap."""
SECOND: Final = "1s"
PATIENCE: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000 -XX:Tier4CompileThreshold=80000"
)
"""Java's optimizing compiler waits for about ten times its default number of calls: in a job of one minute on two
cores, it takes a fifth of the time."""


END_S: Final = 120.0
"""Seconds for Java to end; it may first write an archive of its classes, which takes 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Where Spark runs, and with which resources."""

    master: str = f"local[{CORES}]"
    memory_mb: int = HEAP_MB
    """Heap of the driver and of each executor; local mode has only the driver."""
    scratch: Path | None = None
    """Directory for what does not fit into memory, and for libraries that Java unpacks; None: the defaults of both."""
    py_files: tuple[str, ...] = ()
    """Wheels for executors without quadlog."""
    archive: Path | None = None
    """File to which Java writes its loaded classes when it ends; None: Java starts with the archive in the cache."""

    @property
    def is_local(self) -> bool:
        """True if Spark runs on this host only."""
        return self.master.startswith("local")


@contextmanager
def session(
    settings: SparkSettings, say: Callable[[str], None], *, options: Mapping[str, str] | None = None
) -> Generator[SparkSession]:
    """Start Spark, and stop it and its Java at the end.

    Raises:
        SetupError: there is no usable Java, there are no jars, or Spark did not start.

    """
    cache, program = cache_directory(), find_java()
    jars = resolve(cache, say)
    young = round(settings.memory_mb * YOUNG)
    java = f"{ALONE if settings.is_local else TOGETHER} -Xmn{young}m {PATIENCE}"
    classes = (
        (f"{AT_EXIT}{settings.archive}",)
        if settings.archive is not None
        else class_archive(program, jars, cache, say)
    )
    temporary = (f"-Djava.io.tmpdir={settings.scratch}",) if settings.scratch else ()
    config = {
        "spark.app.name": "quadlog",
        # On the class path itself: Java archives no classes of jars that are added later.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars.spark)),
        **({} if settings.is_local else {"spark.jars": ",".join(map(str, jars.spark))}),
        "spark.driver.memory": f"{settings.memory_mb}m",
        "spark.executor.memory": f"{settings.memory_mb}m",
        "spark.driver.extraJavaOptions": f"{java} {shlex.join((*classes, *temporary))}",
        "spark.executor.extraJavaOptions": java,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.kafka.consumer.cache.capacity": CACHED,
        "spark.kafka.consumer.cache.timeout": SECOND,
        "spark.kafka.consumer.cache.evictorThreadRunInterval": SECOND,
        "spark.kafka.consumer.fetchedData.cache.timeout": SECOND,
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": SECOND,
        # All but Kafka: the V1 interface converts each record to a Java object and back to bytes.
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
        # A sum of hashes must wrap around, and a header that is not a number must become null.
        "spark.sql.ansi.enabled": "false",
        # Spark's default, zstd, extracts a library to /tmp and executes it there, which hardened hosts forbid.
        "spark.shuffle.mapStatus.compression.codec": "lz4",
        # The amount of data is known in advance, and replanning during a query costs a second.
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
        with without("pandas"):  # PySpark imports it at its first call, which takes 30 MB
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
        with suppress(Py4JError, ConnectionError):  # Java has died: the call that failed reports it
            spark.stop()
        _end_java()


def _end_java() -> None:
    """End Java: PySpark keeps it, with its memory and options, until Python ends, also for the next session."""
    context: Any = SparkContext
    gateway = context._gateway  # noqa: SLF001 - no public way exists, and PySpark is pinned
    context._gateway = context._jvm = None  # noqa: SLF001
    gateway.shutdown()
    if gateway.proc is not None:  # otherwise another process started it
        gateway.proc.stdin.close()  # at which Java ends
        try:
            gateway.proc.wait(END_S)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()


def _as_zip(file: str, directory: Path) -> str:
    """Return a wheel copied to a name that ends in .zip, without which Spark does not accept it."""
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
    """Turn any failure of Spark into one error; `outcome` states its consequence.

    Raises:
        SparkFailed: a job failed.

    """
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise SparkFailed(f"a job of Spark failed, and {outcome}: {error}") from error


@contextmanager
def shown(phases: Phases, spark: SparkSession, name: str) -> Generator[None]:
    """Run a phase whose progress is that of Spark's tasks."""
    tasks = _Tasks(spark.sparkContext)
    with phases.phase(name, 1.0, tasks.look):
        yield


class _Tasks:
    """Progress of all of Spark's tasks that were seen since construction."""

    def __init__(self, context: SparkContext) -> None:
        self._tracker = context.statusTracker()
        self._stages: dict[int, tuple[int, int]] = {}

    def look(self) -> tuple[float, int]:
        """Return the share of tasks that are done, and 0 for the unknown number of quads."""
        for stage in self._tracker.getActiveStageIds():
            if info := self._tracker.getStageInfo(stage):
                self._stages[stage] = info.numCompletedTasks, info.numTasks
        done, known = (
            (sum(column) for column in zip(*self._stages.values(), strict=True)) if self._stages else (0, 1)
        )
        return done / known, 0
