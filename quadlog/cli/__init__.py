"""The `quadlog` command, whose sub-commands import their modules when they run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from quadlog import __version__
from quadlog.cli import audit, comparing, config, peers, ranges, running, split, wholes
from quadlog.cli.kafka import app as kafka_app
from quadlog.cli.lab import app as lab_app
from quadlog.errors import QuadlogError

app = typer.Typer(
    name="quadlog",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Many masters share one log of quads.",
)
app.command("master")(running.master)
app.command("demo")(running.demo)
app.command("import")(wholes.import_quads)
app.command("export")(wholes.export_quads)
app.command("backup")(wholes.backup_store)
app.command("archive")(ranges.archive)
app.command("compact")(ranges.compact)
app.command("verify")(comparing.verify)
app.command("diff")(comparing.diff)
app.add_typer(audit.app, name="audit")
app.add_typer(split.app, name="split")
app.add_typer(lab_app, name="lab")
app.add_typer(kafka_app, name="kafka")

worker_app = typer.Typer(invoke_without_command=True)
worker_app.callback()(running.worker)
worker_app.command("rebuild")(peers.worker_rebuild)
app.add_typer(worker_app, name="worker", help="Run one worker until it is told to stop, or have one rebuilt.")

dc_app = typer.Typer(no_args_is_help=True, help="A data centre as a whole.")
dc_app.command("rebuild")(peers.rebuild)
app.add_typer(dc_app, name="dc")

tx_app = typer.Typer(no_args_is_help=True, help="Transactions that are in the log.")
tx_app.command("revert")(comparing.revert)
app.add_typer(tx_app, name="tx")

peer_app = typer.Typer(no_args_is_help=True, help="Masters that agree on the order.")
peer_app.command("list")(peers.peer_list)
peer_app.command("add")(peers.peer_add)
peer_app.command("remove")(peers.peer_remove)
app.add_typer(peer_app, name="peer")

config_app = typer.Typer(no_args_is_help=True, help="Settings that all masters share.")
config_app.command("show")(config.show)
config_app.command("get")(config.get)
config_app.command("set")(config.change)
app.add_typer(config_app, name="config")
app.command("promote")(config.promote)


@app.callback(invoke_without_command=True)
def _root(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"quadlog {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; a `QuadlogError` gives one message on stderr and exit code 1."""
    try:
        app()
    except QuadlogError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(1)
