"""`quadlog lab …`: a whole cluster of real processes on this machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="A whole cluster of real processes on this machine.")

Directory = Annotated[Path, typer.Option("--dir", help="The directory of the running lab.")]
NodeId = Annotated[str, typer.Argument(metavar="ID", help="Such as dc1-m1, dc1-w2 or broker-dc1.")]


@app.command()
def up(
    *,
    dcs: Annotated[int | None, typer.Option(min=1, max=9, help="Data centres.  [default: 3]")] = None,
    masters: Annotated[int | None, typer.Option(min=1, max=9, help="Masters in each.  [default: 1]")] = None,
    workers: Annotated[int | None, typer.Option(min=0, max=9, help="Workers in each.  [default: 2]")] = None,
    shared_broker: Annotated[
        bool, typer.Option("--shared-broker", help="One Kafka for all data centres instead of one each.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep the data here, or continue.  [default: a temporary one]"),
    ] = None,
    ready: Annotated[Path | None, typer.Option(help="Write this file (JSON) when everything serves.")] = None,
    node_command: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Start a cluster and stay in the foreground; Ctrl-C or SIGTERM stops all of it."""
    from quadlog.lab.stop import Stopped, StopSignal  # noqa: PLC0415  as little as can be before the handler

    stop = StopSignal.install()
    try:
        from quadlog.lab.shape import Wanted  # noqa: PLC0415  the long imports, when a signal is heeded
        from quadlog.lab.up import Options, run_lab  # noqa: PLC0415

        options = Options(
            wanted=Wanted(dcs=dcs, masters=masters, workers=workers, shared_broker=shared_broker or None),
            directory=directory,
            ready=ready,
            node_command=shlex.split(node_command) if node_command else None,
        )
        run_lab(options, stop)
    except Stopped:
        typer.echo("stopped before anything was started", err=True)


@app.command()
def kill(
    node_id: NodeId,
    directory: Directory,
    signal: Annotated[str, typer.Option(help="STOP, CONT, TERM or KILL.")] = "KILL",
) -> None:
    """Send a signal to one process of the lab; wait for its end where that is what it does."""
    name = signal.upper().removeprefix("SIG")
    typer.echo(_ask(directory, {"do": "kill", "id": node_id, "signal": name})["message"])


@app.command()
def start(node_id: NodeId, directory: Directory) -> None:
    """Start a process that is down, wait until it is ready."""
    typer.echo(_ask(directory, {"do": "start", "id": node_id})["message"])


@app.command()
def status(directory: Directory) -> None:
    """Show every process: running, stopped (SIGSTOP) or exited with which code."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    answer = _ask(directory, {"do": "status"})
    table = Table("id", "kind", "pid", "state", "port", title=f"lab {answer['lab_id']}")
    colours = {"running": "green", "stopped": "yellow"}
    for node in answer["nodes"]:
        colour = colours.get(node["state"], "red")
        state = f"[{colour}]{node['state']}"
        table.add_row(node["id"], node["kind"], str(node["pid"] or ""), state, str(node["port"]))
    Console().print(table)


def _ask(directory: Path, request: dict[str, Any]) -> dict[str, Any]:
    from quadlog.lab.control import ask  # noqa: PLC0415  commands import what they need when they run

    return ask(directory, request)
