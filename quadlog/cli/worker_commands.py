"""`quadlog worker rebuild`: has a worker replace its store by one that the log makes."""

from __future__ import annotations

import getpass
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from quadlog.compare.dumps import url_of
from quadlog.errors import Unavailable, UserError
from quadlog.web.master_client import request_master

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S: Final = 0.5
SAY_S: Final = 5.0

_ELSE: Final = "It may be rebuilt all the same: look at its state in /cluster/status."


def rebuild_worker(master: str, name: str, say: Callable[[str], None]) -> None:
    """Have a worker of this master's data centre rebuilt, and print its progress until it has caught up.

    Raises as `request_master` does, and:
        UserError: the master knows no such worker, or it is a URL.

    """
    if "://" in name:
        raise UserError(
            f"{name} is a URL: name the worker by its id, as /cluster/status of its master shows it"
        )
    url = url_of(name, master)
    before = request_master(url, "GET", "/status").json()
    goal = request_master(master, "GET", "/cluster/status").json()["agreed_index"]
    reason = f"{getpass.getuser()}@{socket.gethostname()} asked for it"
    body = {"store": before["store"], "reason": reason, "operator": True}
    request_master(url, "POST", "/rebuild", unsure=_ELSE, json=body)
    say(f"{name} drops its store of {before['quads']} quads at index {before['applied_index']}")
    said_at = time.monotonic()
    while True:
        time.sleep(LOOK_S)
        state, quads, index = _state(master, name)
        if state == "serving" and index >= goal and _store(url) not in {"", before["store"]}:
            say(f"{name} serves {quads} quads at index {index}")
            return
        if time.monotonic() - said_at >= SAY_S:
            said_at = time.monotonic()
            say(f"{name} is {state}, at index {index} of {goal}")


def _state(master: str, name: str) -> tuple[str, int, int]:
    """Return the state of a worker as its master sees it, its quads and its index."""
    for one in request_master(master, "GET", "/cluster/status").json()["workers"]:
        if one["id"] == name:
            return one["state"], one["quads"], one["applied_index"]
    return "not known", 0, 0


def _store(url: str) -> str:
    """Return the name of the store that a worker serves; empty: it serves none."""
    with suppress(Unavailable):
        return str(request_master(url, "GET", "/status").json()["store"])
    return ""
