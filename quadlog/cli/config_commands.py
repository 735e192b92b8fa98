"""`quadlog config`: list and change the settings that all masters share, with requests to `/cluster/settings`."""

from __future__ import annotations

import getpass
import socket
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from quadlog.errors import UserError
from quadlog.web.master_client import request_master

if TYPE_CHECKING:
    from collections.abc import Callable

PATH: Final = "/cluster/settings"

_ELSE: Final = "The change may have been taken: look with `quadlog config get` at another master."


def show_settings(master: str, say: Callable[[str], None]) -> None:
    """Print the settings that count at a master, and what an operator has to know of them.

    Raises as `request_master` does.
    """
    for one in request_master(master, "GET", PATH).json()["settings"]:
        say(_line(one))
    for alarm in request_master(master, "GET", "/cluster/status").json()["alarms"]:
        if alarm["name"] in {"settings-differ", "no-witness", "synchro-quorum-unsuitable"}:
            say(f"{alarm['name']}: {alarm['reason']}. {alarm['what_to_do']}")


def get_setting(master: str, name: str, say: Callable[[str], None]) -> None:
    """Print the value of a setting; raises as `request_master` does."""
    say(request_master(master, "GET", f"{PATH}/{quote(name, safe='')}").json()["value"])


def set_setting(master: str, name: str, value: str, say: Callable[[str], None]) -> None:
    """Set a setting, and print what counts then; raises as `request_master` does."""
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "From": f"{getpass.getuser()}@{socket.gethostname()}",
    }
    path = f"{PATH}/{quote(name, safe='')}"
    answer = request_master(master, "PUT", path, unsure=_ELSE, content=value.encode(), headers=headers)
    say(f"agreed at index {answer.headers['Quadlog-Index']}: {_line(answer.json())}")


def promote_master(master: str, timeout: float, say: Callable[[str], None]) -> None:
    """Have a master decide on what is undecided, and print what was decided; raises as `request_master` does.

    Args:
        master: URL of the master.
        timeout: seconds to wait.
        say: prints a line.

    """
    if not 0 < timeout < inf:
        raise UserError(f"--timeout is a number of seconds above 0, not {timeout}")
    answer = request_master(master, "POST", "/cluster/promote", json={"timeout_s": timeout}).json()
    last = answer["last_decision"]
    newest = (
        f"; the newest decision is {last['kind']} at {last['index']}, up to {last['target']}" if last else ""
    )
    say(f"{answer['decided']} were undecided, none of them is now{newest}")


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
