"""`quadlog split`: what a split did, or will do; it needs Kafka, but no masters."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from quadlog.cli.audit import kafkas_of
from quadlog.cli.options import ask, log_in_by_environment
from quadlog.cli.spark_options import SparkOptions, with_options
from quadlog.core.approval import LONGEST_DROP
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.splits.topics import SplitOptions

app = typer.Typer(help="Say what a split did, or will do, to each update.")

Target = Annotated[Path, typer.Argument(help="Directory to make, with the report.")]
Details = Annotated[
    int, typer.Option(min=0, help="Updates of each class, and disputed quads, that are listed.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop", help="Id of an update of a side that gives way, which is dropped; may be repeated."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOptions(SparkOptions):
    """Options of all commands that read the topics of all data centres."""

    kafka: Annotated[
        list[str],
        typer.Option("--kafka", help="DC=SERVERS: a data centre and its bootstrap servers; all of them."),
    ]
    archive: Annotated[
        Path | None, typer.Option(help="Directory of `quadlog archive`, for what the topics lack.")
    ] = None


@app.command("preview")
@with_options(BranchOptions)
def preview(
    directory: Target, *, drop: Drop = None, details: Details = 1_000, options: BranchOptions
) -> None:
    """Say what will become of each update of the sides that give way, while the split lasts."""
    _run(directory, options, is_over=False, drop=_ids_in(drop), details=details)


@app.command("approve")
@with_options(BranchOptions)
def approve(
    plan: Annotated[str, typer.Argument(help="Plan hash of the preview that is approved.")],
    *,
    master: Annotated[
        list[str], typer.Option("--master", help="URL of a master; one of each side, may be repeated.")
    ],
    drop: Drop = None,
    preview: Annotated[
        Path | None, typer.Option(help="Directory of that preview, to see what is another now.")
    ] = None,
    options: BranchOptions,
) -> None:
    """Approve a preview: the sides come together as it says, or nothing happens."""
    from quadlog.splits.approve import approve as approve_plan  # noqa: PLC0415

    wanted = _wanted(Path(), options, is_over=False, drop=_ids_in(drop), details=LONGEST_DROP)
    approve_plan(wanted, plan, master, preview, typer.echo)


def _ids_in(drop: list[str] | None) -> frozenset[str]:
    """Return ids as the topics have them: 32 hexadecimal digits.

    Raises:
        UserError: one is not an id.

    """
    ids = frozenset(one.replace("-", "").lower() for one in drop or ())
    if wrong := [one for one in ids if not re.fullmatch("[0-9a-f]{32}", one)]:
        raise UserError(f"an id is 32 hexadecimal digits, with or without hyphens, not {wrong[0][:100]!r}")
    if len(ids) > LONGEST_DROP:
        raise UserError(f"at most {LONGEST_DROP} updates are dropped, not {len(ids)}")
    return ids


@app.command("report")
@with_options(BranchOptions)
def report(
    directory: Target,
    *,
    branch: Annotated[str | None, typer.Option(help="Name of a branch.  [default: the newest]")] = None,
    details: Details = 1_000,
    options: BranchOptions,
) -> None:
    """Say what became of each update of a side that gave way, after the split."""
    _run(directory, options, is_over=True, branch=branch, details=details)


@app.command("list")
@with_options(BranchOptions)
def list_branches(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each branch.")] = False,
    options: BranchOptions,
) -> None:
    """List the branches that splits have left in the topics, and those of now."""
    from quadlog.splits.job import run_list  # noqa: PLC0415

    for one in run_list(_wanted(Path(), options, is_over=True)):
        typer.echo(json.dumps(one) if as_json else _line_of(one))


def _line_of(branch: dict[str, Any]) -> str:
    if branch["name"] is None:
        return f"{branch['dc']} is not reached: {branch['reason']}"
    first, last = (
        datetime.fromtimestamp(branch[at] / 1000, UTC).isoformat(timespec="seconds")
        for at in ("first_at", "last_at")
    )
    size = "effects are missing" if branch["bytes"] is None else f"{branch['bytes']} bytes"
    return (
        f"{branch['name']}  {', '.join(branch['dcs'])}  {'over' if branch['is_over'] else 'now'}"
        f"  {branch['entries']} entries after {branch['fork']}, {first} to {last}, {size}"
        f", {', '.join(branch['masters']) or 'masters are not known any more'}"
    )


@app.command("show")
@with_options(BranchOptions)
def show(
    branch: Annotated[str, typer.Argument(help="Name of a branch, as `list` has it.")],
    query: Annotated[str, typer.Argument(help="SPARQL query.")] = "SELECT * { ?s ?p ?o }",
    *,
    accept: Annotated[
        str, typer.Option(help="Media type of the answer.")
    ] = "text/tab-separated-values, application/n-triples",
    options: BranchOptions,
) -> None:
    """Answer a query on the state after the last entry of a branch."""
    from quadlog.splits.job import run_show  # noqa: PLC0415

    run_show(_wanted(Path(), options, is_over=True), branch, query, accept, sys.stdout.buffer)


@app.command("export")
@with_options(BranchOptions)
def export(
    branch: Annotated[str, typer.Argument(help="Name of a branch, as `list` has it.")],
    target: Annotated[Path, typer.Argument(help="File to make.")],
    *,
    options: BranchOptions,
) -> None:
    """Write the net change of a branch since its fork as an RDF Patch, which `/update` takes."""
    from quadlog.splits.job import run_export  # noqa: PLC0415

    typer.echo(f"{target}: {run_export(_wanted(Path(), options, is_over=True), branch, target)} quads")


@app.command("drop")
def drop_branch(
    branch: Annotated[str, typer.Argument(help="Name of a branch that a master has kept.")],
    *,
    at: Annotated[str, typer.Option("--at", help="URL of the master that keeps it.")],
) -> None:
    """Remove what a master keeps of a branch: its report and its net change.  The topics keep their records."""
    ask(at, "DELETE", f"/cluster/splits/{quote(branch, safe='')}", unsure="Send it again.")
    typer.echo(f"{at} keeps nothing of {branch} any more")


def _run(directory: Path, options: BranchOptions, **more: Any) -> None:  # noqa: ANN401 - fields of `SplitOptions`
    from quadlog.splits.job import run_split  # noqa: PLC0415

    for line in summary_of(run_split(_wanted(directory, options, **more))):
        typer.echo(line)
    typer.echo(f"{directory / 'report.html'}, report.json, report.ttl")


def _wanted(directory: Path, options: BranchOptions, **more: Any) -> SplitOptions:  # noqa: ANN401
    from quadlog.splits.topics import SplitOptions  # noqa: PLC0415

    log_in_by_environment()
    return SplitOptions(
        kafkas=kafkas_of(options.kafka),
        directory=directory,
        repository=options.repository,
        archive=options.archive,
        spark=options.settings,
        **more,
    )


def summary_of(made: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences that an operator needs first."""
    for one in made["unreachable"]:
        yield f"{one['dc']} is not reached: {one['reason']}; not known: {one['unknown']}"
    for one in made["behind"]:
        yield f"{one['dc']} is only behind: it lacks {one['entries']} entries"
    winner = made["sides"][0]
    if not made["branches"]:
        yield f"no side has entries that {', '.join(winner['dcs'])} does not have: nothing gives way"
    yield from made["reasons"]
    for branch in made["branches"]:
        yield (
            f"branch {branch['name']} of {', '.join(branch['dcs'])}: {branch['updates']} updates after"
            f" {branch['fork']['index']}, {branch['disputed']} disputed quads"
        )
        yield "  " + (", ".join(f"{count} {name}" for name, count in branch["classes"].items()) or "none")
    yield f"plan {made['plan']}"
