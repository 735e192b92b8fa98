"""Commands that archive and compact ranges of the log with Spark; they need Kafka, but no masters."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer

from quadlog.cli.options import log_in_by_environment
from quadlog.cli.spark_options import SparkOptions, with_options
from quadlog.errors import UserError

Kafka = Annotated[str, typer.Option(help="Bootstrap servers of a data centre.")]
DataCentre = Annotated[str, typer.Option("--dc", help="That data centre, whose topics are read.")]


@with_options(SparkOptions)
def archive(
    directory: Annotated[Path, typer.Argument(help="The archive; is made if it is not there.")],
    *,
    kafka: Kafka,
    dc: DataCentre,
    until: Annotated[int | None, typer.Option(min=1, help="Last index.  [default: the newest]")] = None,
    options: SparkOptions,
) -> None:
    """Write the entries and effects that are not archived yet to Parquet, and prove it.  Needs Kafka, no masters."""
    from quadlog.replay.archive import ArchiveOptions, run_archive  # noqa: PLC0415
    from quadlog.topics import Topics  # noqa: PLC0415

    log_in_by_environment()
    wanted = ArchiveOptions(
        kafka=kafka,
        topics=Topics(options.repository, dc),
        directory=directory,
        until=until,
        spark=options.settings,
    )
    run_archive(wanted, typer.echo)


@with_options(SparkOptions)
def compact(
    target: Annotated[Path, typer.Argument(help="Directory to make, with the bundle.")],
    *,
    kafka: Kafka,
    dc: DataCentre,
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
    archive: Annotated[
        Path | None, typer.Option(help="Directory of `quadlog archive`, for what the topics lack.")
    ] = None,
    options: SparkOptions,
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
        topics=Topics(options.repository, dc),
        target=target,
        range=CompactedRange(applied=state, after=after, until=until),
        archive=archive,
        spark=options.settings,
    )
    run_compact(wanted, typer.echo)
