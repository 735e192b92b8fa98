"""Commands that archive and compact ranges of the log with Spark; they need Kafka, but no masters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quadlog.cli.options import log_in_by_environment
from quadlog.errors import UserError

if TYPE_CHECKING:
    from quadlog.replay.spark import SparkSettings

Kafka = Annotated[str, typer.Option(help="Bootstrap servers of a data centre.")]
DataCentre = Annotated[str, typer.Option("--dc", help="That data centre, whose topics are read.")]
Repository = Annotated[str, typer.Option(help="As in the settings.")]
Spark = Annotated[str, typer.Option(help="Spark's master.")]
Memory = Annotated[int, typer.Option(min=512, help="MB of heap, of the driver and of each executor.")]
Scratch = Annotated[Path | None, typer.Option(help="For what does not fit into memory.")]
PyFiles = Annotated[list[str] | None, typer.Option(help="Wheels for executors without quadlog.")]


def spark_settings(
    master: str, memory: int, scratch: Path | None, py_files: list[str] | None
) -> SparkSettings:
    """Return the settings of Spark from the options of a command."""
    from quadlog.replay.spark import SparkSettings  # noqa: PLC0415

    return SparkSettings(master=master, memory_mb=memory, scratch=scratch, py_files=tuple(py_files or ()))


def archive(
    directory: Annotated[Path, typer.Argument(help="The archive; is made if it is not there.")],
    *,
    kafka: Kafka,
    dc: DataCentre,
    repository: Repository = "main",
    until: Annotated[int | None, typer.Option(min=1, help="Last index.  [default: the newest]")] = None,
    spark: Spark = "local[2]",
    memory: Memory = 512,
    scratch: Scratch = None,
    py_files: PyFiles = None,
) -> None:
    """Write the entries and effects that are not archived yet to Parquet, and prove it.  Needs Kafka, no masters."""
    from quadlog.replay.archive import ArchiveOptions, run_archive  # noqa: PLC0415
    from quadlog.topics import Topics  # noqa: PLC0415

    log_in_by_environment()
    wanted = ArchiveOptions(
        kafka=kafka,
        topics=Topics(repository, dc),
        directory=directory,
        until=until,
        spark=spark_settings(spark, memory, scratch, py_files),
    )
    run_archive(wanted, typer.echo)


def compact(
    target: Annotated[Path, typer.Argument(help="Directory to make, with the bundle.")],
    *,
    kafka: Kafka,
    dc: DataCentre,
    repository: Repository = "main",
    applied: Annotated[
        str,
        typer.Option(
            help="A worker's applied state, as a manifest or a store has it.  [default: the empty one]"
        ),
    ] = "",
    after: Annotated[
        int | None, typer.Option(min=0, help="Begin behind this index.  [default: that of the state]")
    ] = None,
    until: Annotated[int | None, typer.Option(min=1, help="Last index.  [default: the newest]")] = None,
    spark: Spark = "local[2]",
    memory: Memory = 512,
    scratch: Scratch = None,
    py_files: PyFiles = None,
    archive: Annotated[
        Path | None, typer.Option(help="Directory of `quadlog archive`, for what the topics lack.")
    ] = None,
) -> None:
    """Make a range of effects one change, in files that a worker loads, and prove it.  Needs Kafka, no masters."""
    from quadlog.quadstore.applied import Applied  # noqa: PLC0415
    from quadlog.replay.compact import CompactOptions, run_compact  # noqa: PLC0415
    from quadlog.replay.replay import CompactedRange  # noqa: PLC0415
    from quadlog.topics import Topics  # noqa: PLC0415

    try:
        state = Applied.decode(applied) if applied else Applied()
    except ValueError as error:
        raise UserError(
            f"--applied is no state of a store: {error}; a manifest has it as 'applied' of 'before' and 'after'"
        ) from error
    log_in_by_environment()
    wanted = CompactOptions(
        kafka=kafka,
        topics=Topics(repository, dc),
        target=target,
        range=CompactedRange(applied=state, after=after, until=until),
        archive=archive,
        spark=spark_settings(spark, memory, scratch, py_files),
    )
    run_compact(wanted, typer.echo)
