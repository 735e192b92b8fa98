"""`quadlog peer`, `worker rebuild` and `dc rebuild`: change the peers, and rebuild workers and topics."""

from __future__ import annotations

import getpass
import socket
import time
from contextlib import suppress
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from quadlog.cli.options import Config, ask
from quadlog.errors import Unavailable, UserError

At = Annotated[str, typer.Option("--at", help="URL of a master that is a peer.")]
PeerId = Annotated[str, typer.Argument(metavar="ID", help="Id of a master, such as dc4-m1.")]

PATH: Final = "/cluster/peers"
LOOK_S: Final = 0.5
SAY_S: Final = 5.0
_ELSE: Final = "The change may have been taken: look with `quadlog peer list` at another master."
_REBUILT: Final = "It may be rebuilt all the same: look at its state in /cluster/status."


def peer_list(at: At) -> None:
    """Name all masters, as this one knows them: peer or outside, decided or not, heard or not."""
    _tell(ask(at, "GET", PATH).json())


def peer_add(
    name: PeerId, dc: Annotated[str, typer.Argument(metavar="DC", help="Its data centre.")], at: At
) -> None:
    """Make a master a peer.  All settings must name it already, and it must run."""
    answer = ask(at, "POST", PATH, unsure=_ELSE, json={"id": name, "dc": dc})
    typer.echo(f"agreed at index {answer.headers['Quadlog-Index']}: {name} of {dc} is a peer")
    _tell(answer.json())


def peer_remove(
    name: PeerId,
    at: At,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="No majority is left, and the others are gone for good.")
    ] = False,
    survivor: Annotated[
        list[str] | None, typer.Option(help="With --force: a master that is left; name all of them.")
    ] = None,
) -> None:
    """Remove a master from the peers: it accepts no writes then, and no other master waits for it."""
    if force is not bool(survivor):
        raise typer.BadParameter(
            "--force needs all that are left as --survivor ID, and they mean nothing without it"
        )
    named = {"params": {"survivor": survivor}} if survivor else {}
    answer = ask(at, "DELETE", f"{PATH}/{quote(name, safe='')}", unsure=_ELSE, **named)
    typer.echo(f"agreed at index {answer.headers['Quadlog-Index']}: {name} is no peer any more")
    _tell(answer.json())


def _tell(said: dict[str, Any]) -> None:
    """Print one line for each master.

    >>> m2 = {"id": "m2", "dc": "dc2", "url": "http://m2", "peer": False, "decided": False, "reachable": False}
    >>> _tell({"peers": [m2 | {"id": "m1", "peer": True, "decided": True, "reachable": True}, m2]})
    m1  dc2  http://m2  peer
    m2  dc2  http://m2  outside, not decided yet, not heard
    """
    for one in said["peers"]:
        words = ["peer" if one["peer"] else "outside"]
        words += ["not decided yet"] * (not one["decided"])
        words += ["not heard"] * (not one["reachable"])
        typer.echo(
            f"{one['id']}  {one['dc']}  {one['url'] or 'not named by its settings'}  {', '.join(words)}"
        )


def worker_rebuild(
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of a worker of that master's data centre.")],
    at: Annotated[str, typer.Option("--at", help="URL of a master of the worker's data centre.")],
) -> None:
    """Have a worker replace its store by one that the log makes: one that keeps a branch joins the log again."""
    from quadlog.compare.dumps import url_of  # noqa: PLC0415

    if "://" in name:
        raise UserError(
            f"{name} is a URL: name the worker by its id, as /cluster/status of its master shows it"
        )
    url = url_of(name, at)
    before = ask(url, "GET", "/status").json()
    goal = ask(at, "GET", "/cluster/status").json()["agreed_index"]
    reason = f"{getpass.getuser()}@{socket.gethostname()} asked for it"
    body = {"store": before["store"], "reason": reason, "operator": True}
    ask(url, "POST", "/rebuild", unsure=_REBUILT, json=body)
    typer.echo(f"{name} drops its store of {before['quads']} quads at index {before['applied_index']}")
    said_at = time.monotonic()
    while True:
        time.sleep(LOOK_S)
        state, quads, index = _state(at, name)
        if state == "serving" and index >= goal and _store(url) not in {"", before["store"]}:
            typer.echo(f"{name} serves {quads} quads at index {index}")
            return
        if time.monotonic() - said_at >= SAY_S:
            said_at = time.monotonic()
            typer.echo(f"{name} is {state}, at index {index} of {goal}")


def _state(master: str, name: str) -> tuple[str, int, int]:
    """Return the state of a worker as its master sees it, its quads and its index."""
    for one in ask(master, "GET", "/cluster/status").json()["workers"]:
        if one["id"] == name:
            return one["state"], one["quads"], one["applied_index"]
    return "not known", 0, 0


def _store(url: str) -> str:
    """Return the name of the store that a worker serves; empty: it serves none."""
    with suppress(Unavailable):
        return str(ask(url, "GET", "/status").json()["store"])
    return ""


def rebuild(
    config: Config,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it.  Without it: say what is lost, and what would be done.")
    ] = False,
) -> None:
    """Re-create the topics of this master's data centre from a peer's.  Run it once, while nothing runs there."""
    from quadlog.broker.connection import log_in  # noqa: PLC0415
    from quadlog.logs import start_logging  # noqa: PLC0415
    from quadlog.master.muted.rebuild import MutedRebuild  # noqa: PLC0415
    from quadlog.master.recovery.rebuild import TopicsRebuild  # noqa: PLC0415
    from quadlog.settings import MasterSettings, Role  # noqa: PLC0415

    settings = MasterSettings.load(config)
    start_logging(settings.log_level)
    log_in(settings.kafka_credentials)
    kind = MutedRebuild if settings.role is Role.MUTED else TopicsRebuild
    kind(settings, typer.echo).run(is_meant=yes)
