"""`quadlog config` and `quadlog promote`: list and change the settings that all masters share."""

from __future__ import annotations

import getpass
import socket
from math import inf
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from quadlog.cli.options import ask
from quadlog.errors import UserError

At = Annotated[str, typer.Option("--at", help="URL of a master.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the decisions.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a setting, such as max-peer-lag.")]

PATH: Final = "/cluster/settings"
_ELSE: Final = "The change may have been taken: look with `quadlog config get` at another master."


def show(at: At) -> None:
    """Print all settings that all masters share, and where each value comes from."""
    for one in ask(at, "GET", PATH).json()["settings"]:
        typer.echo(_line(one))
    for alarm in ask(at, "GET", "/cluster/status").json()["alarms"]:
        if alarm["name"] in {"settings-differ", "no-witness", "synchro-quorum-unsuitable"}:
            typer.echo(f"{alarm['name']}: {alarm['reason']}. {alarm['what_to_do']}")


def promote(at: At, timeout: Timeout = 5.0) -> None:
    """Have a master decide on undecided synchronous transactions, which the masters otherwise do by themselves."""
    if not 0 < timeout < inf:
        raise UserError(f"--timeout is a number of seconds above 0, not {timeout}")
    answer = ask(at, "POST", "/cluster/promote", json={"timeout_s": timeout}).json()
    last = answer["last_decision"]
    newest = (
        f"; the newest decision is {last['kind']} at {last['index']}, up to {last['target']}" if last else ""
    )
    typer.echo(f"{answer['decided']} were undecided, none of them is now{newest}")


def get(name: Name, at: At) -> None:
    """Print the value of a setting."""
    typer.echo(ask(at, "GET", f"{PATH}/{quote(name, safe='')}").json()["value"])


def change(
    name: Name, value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")], at: At
) -> None:
    """Set a setting at all masters, by an entry of the log."""
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "From": f"{getpass.getuser()}@{socket.gethostname()}",
    }
    path = f"{PATH}/{quote(name, safe='')}"
    answer = ask(at, "PUT", path, unsure=_ELSE, content=value.encode(), headers=headers)
    typer.echo(f"agreed at index {answer.headers['Quadlog-Index']}: {_line(answer.json())}")


def _line(one: dict[str, Any]) -> str:
    """Return a setting on one line.

    >>> one = {"name": "max-peer-lag", "value": "5", "source": "agreed", "index": 7, "by": "ada@ops"}
    >>> _line(one | {"at": "2026-11-28T20:00:00.000Z", "file": "20"})
    'max-peer-lag = 5  (entry 7, by ada@ops at 2026-11-28T20:00:00.000Z; the file has 20)'
    >>> _line({"name": "max-peer-lag", "value": "20", "source": "default", "file": None})
    'max-peer-lag = 20  (default)'
    """
    where = one["source"]
    if where == "agreed":
        where = f"entry {one['index']}, by {one['by']} at {one['at']}"
        where += f"; the file has {one['file']}" if one["file"] not in {None, one["value"]} else ""
    return f"{one['name']} = {one['value']}  ({where})"
