"""Commands that change the peers, and rebuild the topics of a data centre."""

from __future__ import annotations

from typing import Annotated

import typer

from quadlog.cli.options import Config  # noqa: TC001 - typer reads the annotation

At = Annotated[str, typer.Option("--at", help="URL of a master that is a peer.")]
PeerId = Annotated[str, typer.Argument(metavar="ID", help="Id of a master, such as dc4-m1.")]


def peer_list(at: At) -> None:
    """Name all masters, as this one knows them: peer or outside, decided or not, heard or not."""
    from quadlog.cli.peer_commands import list_peers  # noqa: PLC0415

    list_peers(at, typer.echo)


def peer_add(
    name: PeerId, dc: Annotated[str, typer.Argument(metavar="DC", help="Its data centre.")], at: At
) -> None:
    """Make a master a peer.  All settings must name it already, and it must run."""
    from quadlog.cli.peer_commands import add_peer  # noqa: PLC0415

    add_peer(at, name, dc, typer.echo)


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
    from quadlog.cli.peer_commands import remove_peer  # noqa: PLC0415

    if force is not bool(survivor):
        raise typer.BadParameter(
            "--force needs all that are left as --survivor ID, and they mean nothing without it"
        )
    remove_peer(at, name, typer.echo, survivor or ())


def worker_rebuild(
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of a worker of that master's data centre.")],
    at: Annotated[str, typer.Option("--at", help="URL of a master of the worker's data centre.")],
) -> None:
    """Have a worker replace its store by one that the log makes: one that keeps a branch joins the log again."""
    from quadlog.cli.worker_commands import rebuild_worker  # noqa: PLC0415

    rebuild_worker(at, name, typer.echo)


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
