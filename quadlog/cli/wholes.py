"""Commands that import, export and back up a whole repository."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer


def import_quads(
    sources: Annotated[
        list[str],
        typer.Argument(help="Files, folders, sparql+http://ENDPOINT, rdf4j+http://SERVER/repositories/ID."),
    ],
    *,
    into: Annotated[str, typer.Option("--into", help="URL of a master, in any data centre.")],
    keep_blank_nodes: Annotated[
        bool,
        typer.Option("--keep-blank-nodes", help="Equal labels in several sources are one blank node."),
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Build here, and keep it: another run ships what is there.  [default: a temporary one]"
        ),
    ] = None,
) -> None:
    """Begin the log of an empty repository with all quads of the sources."""
    from quadlog.seed.commands import ImportOptions, run_import  # noqa: PLC0415

    wanted = ImportOptions(sources=sources, into=into, keep_blank_nodes=keep_blank_nodes, work=work)
    raise typer.Exit(run_import(wanted, typer.echo))


def export_quads(
    target: Annotated[
        Path | None, typer.Argument(help="File to write, as N-Quads.  [default: standard output]")
    ] = None,
    *,
    at: Annotated[str, typer.Option("--at", help="URL of a master.")],
) -> None:
    """Write all quads of one state, and check that none is missing."""
    from quadlog.seed.commands import run_export  # noqa: PLC0415

    run_export(at, target)


def backup_store(
    directory: Annotated[Path, typer.Argument(help="Where backups are; is made if it is not there.")],
    *,
    worker: Annotated[str, typer.Option("--from", help="URL of a worker.")],
) -> None:
    """Back up a worker's whole store, and prove the backup.  Workers use it if no other worker can give them a copy."""
    from quadlog.cli.backing_up import run_backup  # noqa: PLC0415

    run_backup(directory, worker, typer.echo)
