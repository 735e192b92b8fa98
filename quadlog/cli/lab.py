"""`quadlog lab …`: a whole cluster of real processes on one host."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from quadlog.errors import UserError

app = typer.Typer(no_args_is_help=True, help="A whole cluster of real processes on this machine.")

Directory = Annotated[Path, typer.Option("--dir", help="The directory of the running lab.")]
First = Annotated[str, typer.Argument(metavar="DC1", help="A data centre, such as dc1.")]
Second = Annotated[str, typer.Argument(metavar="DC2", help="Another one.")]
NodeId = Annotated[str, typer.Argument(metavar="ID", help="Such as dc1-m1, dc1-w2, broker-dc1 or links.")]


@app.command()
def up(
    *,
    dcs: Annotated[int | None, typer.Option(min=1, max=9, help="Data centres.  [default: 3]")] = None,
    masters: Annotated[
        int | None, typer.Option(min=0, max=9, help="Masters in each; 0: brokers only.  [default: 1]")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=0, max=9, help="Workers in each.  [default: 2]")] = None,
    shared_broker: Annotated[
        bool, typer.Option("--shared-broker", help="One Kafka for all data centres instead of one each.")
    ] = False,
    outside: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of data centres, the last ones, that are added later.  [default: 0]"
        ),
    ] = None,
    read_only: Annotated[
        int | None,
        typer.Option(
            min=0, help="Data centres, the last ones, with read-only masters and no workers.  [default: 0]"
        ),
    ] = None,
    muted: Annotated[
        int | None, typer.Option(min=0, help="Data centres, the last ones, with muted masters.  [default: 0]")
    ] = None,
    secured: Annotated[
        bool,
        typer.Option("--secured", help="Brokers with TLS, passwords and ACLs; they are in DIR/security."),
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep the data here, or continue.  [default: a temporary one]"),
    ] = None,
    ready: Annotated[Path | None, typer.Option(help="Write this file (JSON) when everything serves.")] = None,
    brokers: Annotated[
        Path | None,
        typer.Option(
            help="Use the brokers of a running lab of --masters 0: its READY file.  One lab at a time."
        ),
    ] = None,
    repository: Annotated[
        str | None, typer.Option(help="The name of the repository, and of its topics.  [default: main]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of masters or workers, such as max-peer-lag=5, for this run.",
        ),
    ] = None,
    bind: Annotated[
        str, typer.Option(help="Listen at this address; clients are still told 127.0.0.1 (for containers).")
    ] = "127.0.0.1",
    first_port: Annotated[
        int | None,
        typer.Option(
            min=1024,
            max=65000,
            help="Port of the first broker; further brokers, masters and workers have the next ones.",
        ),
    ] = None,
    attached: Annotated[
        bool,
        typer.Option("--attached", help="Take commands (JSON lines) from stdin, and end when stdin ends."),
    ] = False,
    node_command: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Start a cluster and stay in the foreground; Ctrl-C or SIGTERM stops all of it."""
    from quadlog.lab.stop import Stopped, StopSignal  # noqa: PLC0415  as little as can be before the handler

    stop = StopSignal.install()
    try:
        from quadlog.lab.shape import LabRequest  # noqa: PLC0415  the long imports, when a signal is heeded
        from quadlog.lab.up import UpOptions, run_lab  # noqa: PLC0415

        options = UpOptions(
            wanted=LabRequest(
                dcs=dcs,
                masters=masters,
                workers=workers,
                shared_broker=shared_broker or None,
                outside=outside,
                read_only=read_only,
                muted=muted,
                secured=secured or None,
            ),
            directory=directory,
            ready=ready,
            node_command=shlex.split(node_command) if node_command else None,
            repository=repository,
            brokers=brokers,
            variables=_known(settings or []),
            bind=bind,
            first_port=first_port,
            attached=attached,
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
    """Send a signal to one process of the lab; wait for its end if the signal ends it."""
    name = signal.upper().removeprefix("SIG")
    typer.echo(_ask(directory, {"do": "kill", "id": node_id, "signal": name})["message"])


@app.command()
def start(
    node_id: NodeId,
    directory: Directory,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting, or QUADLOG_…=VALUE, for this start only."
        ),
    ] = None,
) -> None:
    """Start a process that is down, wait until it is ready."""
    _known(settings or [])
    request = {"do": "start", "id": node_id, "environment": settings or []}
    typer.echo(_ask(directory, request)["message"])


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
    for link in answer["links"]:
        typer.echo(_say(link))


@app.command()
def cut(
    dc1: First,
    dc2: Second,
    directory: Directory,
    *,
    one_way: Annotated[
        bool, typer.Option("--one-way", help="What DC1 says no longer reaches DC2; DC1 still hears DC2.")
    ] = False,
) -> None:
    """Cut the link between two data centres: nothing passes, as with a cut cable.

    Open connections fall silent, new ones hang; `heal` lets them continue.

    Masters hear each other by reading the other's broker.  So --one-way holds
    the connections that DC2 opened to DC1, in both directions; those that DC1
    opened to DC2 stay.  A cut adds to what is cut already.
    """
    _links(directory, {"do": "cut", "link": [dc1, dc2], "one_way": one_way})


@app.command()
def heal(
    directory: Directory,
    dc1: Annotated[
        str | None, typer.Argument(metavar="DC1", help="Both or none.", show_default=False)
    ] = None,
    dc2: Annotated[
        str | None, typer.Argument(metavar="DC2", help="Both or none.", show_default=False)
    ] = None,
) -> None:
    """End the cuts between two data centres, or all; latency and rate stay as they are."""
    if dc1 is not None and dc2 is None:
        message = f"a link has two ends: name another data centre beside {dc1}, or none to heal all"
        raise UserError(message)
    _links(directory, {"do": "heal"} if dc1 is None else {"do": "heal", "link": [dc1, dc2]})


@app.command()
def link(
    dc1: First,
    dc2: Second,
    directory: Directory,
    *,
    latency_ms: Annotated[float | None, typer.Option(help="Delay of each direction; 0: none.")] = None,
    rate_mbit: Annotated[float | None, typer.Option(help="Mbit/s of each direction; 0: no limit.")] = None,
) -> None:
    """Make the link between two data centres slow, for open connections too; or show it."""
    shown = latency_ms is None and rate_mbit is None
    wanted = {"do": "quality", "link": [dc1, dc2], "latency_ms": latency_ms, "rate_mbit": rate_mbit}
    _links(directory, {"do": "show", "link": [dc1, dc2]} if shown else wanted)


def _links(directory: Path, request: dict[str, Any]) -> None:
    """Change or show links, and print the state of those that the request names, or of all."""
    about = set(request.get("link", []))
    for link in _ask(directory, {"do": "links", "request": request})["links"]:
        if not about or about == set(link["link"]):
            typer.echo(_say(link))


def _say(link: dict[str, Any]) -> str:
    """Describe a link in one line.

    >>> _say({"link": ["dc1", "dc2"], "cuts": [["dc2", "dc1"]], "latency_ms": 40, "rate_mbit": 0,
    ...       "connections": 3, "waiting": 1, "bytes": [5_000_000, 0]})
    'dc1 - dc2: what dc1 says is cut off, 40 ms each way, no limit;
     3 connections, 1 waiting; 5.0 MB to dc2, 0.0 MB to dc1'
    """
    one, other = link["link"]
    if len(link["cuts"]) == len(link["link"]):
        state = "cut"
    elif link["cuts"]:
        state = f"what {link['cuts'][0][1]} says is cut off"
    else:
        state = "open"
    rate = f"{link['rate_mbit']:g} Mbit/s each way" if link["rate_mbit"] else "no limit"
    there, back = (f"{count / 1e6:.1f} MB" for count in link["bytes"])
    return (
        f"{one} - {other}: {state}, {link['latency_ms']:g} ms each way, {rate}; "
        f"{link['connections']} connections, {link['waiting']} waiting; {there} to {other}, {back} to {one}"
    )


def _ask(directory: Path, request: dict[str, Any]) -> dict[str, Any]:
    from quadlog.lab.control import ask  # noqa: PLC0415  commands import what they need when they run

    return ask(directory, request)


def _known(given: list[str]) -> dict[str, str]:
    """Return the variables of `--set` options, which must be settings of masters or workers.

    Raises:
        UserError: one is no such setting, or the lab determines it.

    """
    from quadlog.core.cluster_settings import CLASSIC  # noqa: PLC0415
    from quadlog.lab.node_files import PREFIX, variables  # noqa: PLC0415
    from quadlog.settings import MasterSettings, WorkerSettings  # noqa: PLC0415

    found = variables(given)
    names = {
        *MasterSettings.model_fields,
        *WorkerSettings.model_fields,
        *(one.replace("-", "_") for one in CLASSIC),
    }
    for variable in found:
        if variable.removeprefix(PREFIX).lower() not in names:
            raise UserError(
                f"--set: there is no setting {variable.removeprefix(PREFIX).lower().replace('_', '-')}"
            )
    return found
