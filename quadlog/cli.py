"""The `quadlog` command: one door, sub-commands that import what they need when they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from quadlog import __version__
from quadlog.errors import QuadlogError
from quadlog.kafka.cli import app as kafka_app
from quadlog.lab.cli import app as lab_app

app = typer.Typer(
    name="quadlog",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Many masters share one log of quads.",
)
app.add_typer(lab_app, name="lab")
app.add_typer(kafka_app, name="kafka")


@app.callback(invoke_without_command=True)
def _root(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"quadlog {__version__}")
        raise typer.Exit


Config = Annotated[Path, typer.Option("--config", help="Settings file (TOML).", exists=True, dir_okay=False)]


@app.command()
def master(config: Config) -> None:
    """Run one master until it is told to stop."""
    from quadlog.logs import start_logging  # noqa: PLC0415 - what a sub-command needs, when it runs
    from quadlog.master.process import run  # noqa: PLC0415
    from quadlog.settings import MasterSettings  # noqa: PLC0415

    settings = MasterSettings.load(config)
    start_logging(settings.log_level)
    raise typer.Exit(run(settings))


@app.command()
def worker(config: Config) -> None:
    """Run one worker until it is told to stop."""
    from quadlog.logs import start_logging  # noqa: PLC0415
    from quadlog.settings import WorkerSettings  # noqa: PLC0415
    from quadlog.worker.process import run  # noqa: PLC0415

    settings = WorkerSettings.load(config)
    start_logging(settings.log_level)
    raise typer.Exit(run(settings))


@app.command()
def demo(
    *,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep the cluster's data here, or continue.  [default: a temporary one]"),
    ] = None,
) -> None:
    """Load an ontology into three data centres, kill a worker on the way, prove that all are equal."""
    from quadlog.lab.stop import Stopped, StopSignal  # noqa: PLC0415  as little as can be before the handler

    stop = StopSignal.install()
    try:
        from quadlog.demo.run import run_demo  # noqa: PLC0415

        raise typer.Exit(run_demo(directory, stop))
    except Stopped:
        typer.echo("stopped; nothing is left running", err=True)
        raise typer.Exit(130) from None


def main() -> None:
    """Run the command; an error of ours is one message on stderr and exit code 1."""
    try:
        app()
    except QuadlogError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(1)
