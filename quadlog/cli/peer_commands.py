"""`quadlog peer`: list and change the masters that agree on the order, with requests to `/cluster/peers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from quadlog.web.master_client import request_master

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PATH: Final = "/cluster/peers"

_ELSE: Final = "The change may have been taken: look with `quadlog peer list` at another master."


def list_peers(master: str, say: Callable[[str], None]) -> None:
    """Print the peers that a master knows; raises as `request_master` does."""
    _tell(request_master(master, "GET", PATH).json(), say)


def add_peer(master: str, name: str, dc: str, say: Callable[[str], None]) -> None:
    """Add a peer, and print the new peers; raises as `request_master` does."""
    answer = request_master(master, "POST", PATH, unsure=_ELSE, json={"id": name, "dc": dc})
    say(f"agreed at index {answer.headers['Quadlog-Index']}: {name} of {dc} is a peer")
    _tell(answer.json(), say)


def remove_peer(master: str, name: str, say: Callable[[str], None], survivors: Sequence[str] = ()) -> None:
    """Remove a peer, or all but the survivors, and print the new peers; raises as `request_master` does."""
    path = f"{PATH}/{quote(name, safe='')}"
    named = {"params": {"survivor": list(survivors)}} if survivors else {}
    answer = request_master(master, "DELETE", path, unsure=_ELSE, **named)
    say(f"agreed at index {answer.headers['Quadlog-Index']}: {name} is no peer any more")
    _tell(answer.json(), say)


def _tell(said: dict[str, Any], say: Callable[[str], None]) -> None:
    """Print one line for each master.

    >>> m2 = {"id": "m2", "dc": "dc2", "url": "http://m2", "peer": False, "decided": False, "reachable": False}
    >>> _tell({"peers": [m2 | {"id": "m1", "peer": True, "decided": True, "reachable": True}, m2]}, print)
    m1  dc2  http://m2  peer
    m2  dc2  http://m2  outside, not decided yet, not heard
    """
    for one in said["peers"]:
        words = ["peer" if one["peer"] else "outside"]
        words += ["not decided yet"] * (not one["decided"])
        words += ["not heard"] * (not one["reachable"])
        say(f"{one['id']}  {one['dc']}  {one['url'] or 'not named by its settings'}  {', '.join(words)}")
