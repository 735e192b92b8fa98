"""Commands that compare workers, and revert transactions."""

from __future__ import annotations

from typing import Annotated

import typer

from quadlog.cli.options import log_in_by_environment

Master = Annotated[str | None, typer.Option("--master", help="URL of a master that knows the worker.")]


def verify(
    worker: Annotated[str, typer.Argument(help="URL of a worker, or its id beside --master.")],
    master: Master = None,
) -> None:
    """Count what a worker holds, compare it with what it and the others say.  Exit status 1: they differ."""
    from quadlog.compare.verify import verify as compare  # noqa: PLC0415

    raise typer.Exit(0 if compare(worker, master, typer.echo) else 1)


def diff(
    one: Annotated[str, typer.Argument(help="URL of a worker, or its id beside --master.")],
    other: Annotated[str, typer.Argument(help="Another one.")],
    *,
    master: Master = None,
    kafka: Annotated[
        str | None, typer.Option(help="Bootstrap servers: also name the entry that last touched each quad.")
    ] = None,
    topic: Annotated[str, typer.Option(help="Effects topic there.")] = "main.dc1.effects",
    look_back: Annotated[int, typer.Option(min=1, help="Records of it to look at.")] = 100_000,
    wait: Annotated[float, typer.Option(min=0, help="Seconds until both are at the same index.")] = 30.0,
    shown: Annotated[int, typer.Option(min=0, help="Differences to name; all are counted.")] = 1_000,
) -> None:
    """Name the quads that only one of two workers holds, at the same index.  Exit status 1: there are some."""
    from quadlog.compare.diff import DiffOptions, TouchSource  # noqa: PLC0415
    from quadlog.compare.diff import diff as compare  # noqa: PLC0415

    log_in_by_environment()
    effects = TouchSource(kafka=kafka, topic=topic, look_back=look_back) if kafka else None
    question = DiffOptions(one=one, other=other, master=master, effects=effects, wait_s=wait, shown=shown)
    raise typer.Exit(1 if compare(question, typer.echo) else 0)


def revert(
    name: Annotated[str, typer.Argument(help="Its id (Quadlog-Tx), or its Idempotency-Key.")],
    *,
    at: Annotated[str, typer.Option(help="URL of a master; it takes the new transaction.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what has changed since.")] = False,
    kafka: Annotated[
        str | None, typer.Option(help="Bootstrap servers of that master's data centre, if not as it says.")
    ] = None,
    shown: Annotated[int, typer.Option(min=0, help="Quads of each kind to name; all are counted.")] = 20,
) -> None:
    """Submit the inverse of a transaction as a new one, and say what has changed since.  The inverse runs only once."""
    from quadlog.compare.revert import RevertOptions  # noqa: PLC0415
    from quadlog.compare.revert import revert as submit  # noqa: PLC0415

    log_in_by_environment()
    submit(RevertOptions(name=name, master=at, kafka=kafka, dry_run=dry_run, shown=shown), typer.echo)
