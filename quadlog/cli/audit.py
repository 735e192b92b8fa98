"""`quadlog audit`: compares the records of all data centres, as a stream; it needs Kafka, but no masters."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer

from quadlog.cli.options import log_in_by_environment
from quadlog.cli.spark_options import Repository, SparkOptions, with_options
from quadlog.errors import UserError

app = typer.Typer(help="Compare the records of all data centres, and report what contradicts what.")

Kafkas = Annotated[
    list[str],
    typer.Option(
        "--kafka",
        help="DC=SERVERS: a data centre and its bootstrap servers; all data centres, the one with the topic for"
        " violations first.",
    ),
]


def kafkas_of(given: list[str]) -> dict[str, str]:
    """Return bootstrap servers by data centre; UserError if an option is no `DC=SERVERS`, or contradicts another."""
    found = dict[str, str]()
    for one in given:
        dc, is_pair, servers = one.partition("=")
        if not (dc and is_pair and servers):
            raise UserError(
                f"--kafka {one}: write the data centre and its bootstrap servers, as dc1=host:9092"
            )
        if found.setdefault(dc, servers) != servers:
            raise UserError(f"--kafka {one}: {dc} is given twice")
    return found


@app.command("run")
@with_options(SparkOptions)
def run(
    directory: Annotated[Path, typer.Argument(help="Where this audit keeps what it has done and found.")],
    *,
    kafka: Kafkas,
    once: Annotated[bool, typer.Option("--once", help="Compare what is there now, and end.")] = False,
    batch: Annotated[
        int, typer.Option(min=1, help="Records of a data centre at once; fewer where they are large.")
    ] = 5_000,
    options: SparkOptions,
) -> None:
    """Compare all records, and go on with those that come; run again, it continues where it was.

    With --once, it ends with status 1 if it has found violations.
    """
    from quadlog.replay.audit import AuditOptions, run_audit  # noqa: PLC0415

    log_in_by_environment()
    wanted = AuditOptions(
        directory=directory,
        kafkas=kafkas_of(kafka),
        repository=options.repository,
        batch=batch,
        once=once,
        spark=options.settings,
    )
    raise typer.Exit(run_audit(wanted, typer.echo))


@app.command("report")
def report(
    *,
    kafka: Annotated[
        list[str], typer.Option("--kafka", help="DC=SERVERS: the data centre with the topic for violations.")
    ],
    repository: Repository = "main",
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each violation.")] = False,
) -> None:
    """Show the violations that audits have found; ends with status 1 if there are any."""
    from quadlog.compare.violations import lines_of, violations_in  # noqa: PLC0415
    from quadlog.topics import Topics  # noqa: PLC0415

    log_in_by_environment()
    dc, servers = next(iter(kafkas_of(kafka).items()))
    found = violations_in(servers, Topics(repository, dc).audit)
    lines = [json.dumps(asdict(one)) for one in found] if as_json else lines_of(found)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(int(bool(found)))
