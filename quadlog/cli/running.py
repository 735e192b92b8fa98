"""Commands that run a master, a worker, or the demo."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer

from quadlog.cli.options import OptionalConfig  # noqa: TC001 - typer reads the annotation
from quadlog.lean import starting


def master(config: OptionalConfig = None) -> None:
    """Run one master until it is told to stop."""
    with starting():
        from quadlog.broker.connection import log_in  # noqa: PLC0415
        from quadlog.logs import start_logging  # noqa: PLC0415 - sub-commands import their modules when they run
        from quadlog.settings import MasterSettings, Role  # noqa: PLC0415

        settings = MasterSettings.load(config)
        start_logging(settings.log_level)
        log_in(settings.kafka_credentials)
        if settings.role is Role.MUTED:
            from quadlog.master.muted.process import run  # noqa: PLC0415
        else:
            from quadlog.master.process import run  # noqa: PLC0415
    raise typer.Exit(run(settings))


def worker(context: typer.Context, config: OptionalConfig = None) -> None:
    """Run one worker until it is told to stop."""
    if context.invoked_subcommand is not None:
        if config is not None:
            raise typer.BadParameter("--config is for a worker that is run")
        return
    with starting():
        from quadlog.broker.connection import log_in  # noqa: PLC0415
        from quadlog.logs import start_logging  # noqa: PLC0415
        from quadlog.settings import WorkerSettings  # noqa: PLC0415
        from quadlog.worker.process import run  # noqa: PLC0415

    settings = WorkerSettings.load(config)
    start_logging(settings.log_level)
    log_in(settings.kafka_credentials)
    raise typer.Exit(run(settings))


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
