"""The `quadlog` command: one door, sub-commands that import what they need when they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from quadlog import __version__
from quadlog.errors import QuadlogError, UserError
from quadlog.kafka.cli import app as kafka_app
from quadlog.lab.cli import app as lab_app

app = typer.Typer(
    name="quadlog",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Many masters share one log of quads.",
)
app.add_typer(lab_app, name="lab")
app.add_typer(kafka_app, name="kafka")
dc_app = typer.Typer(no_args_is_help=True, help="A data centre as a whole.")
app.add_typer(dc_app, name="dc")
tx_app = typer.Typer(no_args_is_help=True, help="Transactions that are in the log.")
app.add_typer(tx_app, name="tx")
peer_app = typer.Typer(no_args_is_help=True, help="Masters that agree on the order.")
app.add_typer(peer_app, name="peer")


@app.callback(invoke_without_command=True)
def _root(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"quadlog {__version__}")
        raise typer.Exit


Config = Annotated[Path, typer.Option("--config", help="Settings file (TOML).", exists=True, dir_okay=False)]


@app.command()
def master(config: Config) -> None:
    """Run one master until it is told to stop."""
    from quadlog.logs import start_logging  # noqa: PLC0415 - what a sub-command needs, when it runs
    from quadlog.settings import MasterSettings, Role  # noqa: PLC0415

    settings = MasterSettings.load(config)
    start_logging(settings.log_level)
    if settings.role is Role.MUTED:
        from quadlog.master.muted.process import run  # noqa: PLC0415
    else:
        from quadlog.master.process import run  # noqa: PLC0415
    raise typer.Exit(run(settings))


@app.command()
def worker(config: Config) -> None:
    """Run one worker until it is told to stop."""
    from quadlog.logs import start_logging  # noqa: PLC0415
    from quadlog.settings import WorkerSettings  # noqa: PLC0415
    from quadlog.worker.process import run  # noqa: PLC0415

    settings = WorkerSettings.load(config)
    start_logging(settings.log_level)
    raise typer.Exit(run(settings))


@app.command()
def demo(
    *,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep the cluster's data here, or continue.  [default: a temporary one]"),
    ] = None,
) -> None:
    """Load an ontology into three data centres, kill a worker on the way, prove that all are equal."""
    from quadlog.lab.stop import Stopped, StopSignal  # noqa: PLC0415  as little as can be before the handler

    stop = StopSignal.install()
    try:
        from quadlog.demo.run import run_demo  # noqa: PLC0415

        raise typer.Exit(run_demo(directory, stop))
    except Stopped:
        typer.echo("stopped; nothing is left running", err=True)
        raise typer.Exit(130) from None


@app.command("import")
def import_(
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
    from quadlog.seed.commands import Wanted, run_import  # noqa: PLC0415

    wanted = Wanted(sources=sources, into=into, keep_blank_nodes=keep_blank_nodes, work=work)
    raise typer.Exit(run_import(wanted, typer.echo))


@app.command("export")
def export_(
    target: Annotated[
        Path | None, typer.Argument(help="File to write, as N-Quads.  [default: standard output]")
    ] = None,
    *,
    at: Annotated[str, typer.Option("--at", help="URL of a master.")],
) -> None:
    """Write out all quads of one state, and check that they are all."""
    from quadlog.seed.commands import run_export  # noqa: PLC0415

    run_export(at, target)


@app.command()
def backup(
    directory: Annotated[Path, typer.Argument(help="Where backups are; is made if it is not there.")],
    *,
    worker: Annotated[str, typer.Option("--from", help="URL of a worker.")],
) -> None:
    """Have a worker's whole store in one more backup, and prove it: workers that no other one can copy take it."""
    from quadlog.backing_up import run_backup  # noqa: PLC0415

    run_backup(directory, worker, typer.echo)


Kafka = Annotated[str, typer.Option(help="Bootstrap servers of a data centre.")]
DataCentre = Annotated[str, typer.Option("--dc", help="That data centre, whose topics are read.")]
Repository = Annotated[str, typer.Option(help="As in the settings.")]
Spark = Annotated[str, typer.Option(help="Spark's master.")]
Memory = Annotated[int, typer.Option(min=512, help="MB of heap, of the driver and of each executor.")]
Scratch = Annotated[Path | None, typer.Option(help="For what does not fit into memory.")]
PyFiles = Annotated[list[str] | None, typer.Option(help="Wheels for executors without quadlog.")]


@app.command()
def archive(
    directory: Annotated[Path, typer.Argument(help="The archive; is made if it is not there.")],
    *,
    kafka: Kafka,
    dc: DataCentre,
    repository: Repository = "main",
    until: Annotated[int | None, typer.Option(min=1, help="Last index.  [default: the newest]")] = None,
    spark: Spark = "local[2]",
    memory: Memory = 512,
    scratch: Scratch = None,
    py_files: PyFiles = None,
) -> None:
    """Write the entries and effects that are not archived yet to Parquet, and prove it.  Needs Kafka, no masters."""
    from quadlog.archive import Wanted, run_archive  # noqa: PLC0415
    from quadlog.spark import SparkSettings  # noqa: PLC0415
    from quadlog.topics import Topics  # noqa: PLC0415

    wanted = Wanted(
        kafka=kafka,
        topics=Topics(repository, dc),
        directory=directory,
        until=until,
        spark=SparkSettings(master=spark, memory_mb=memory, scratch=scratch, py_files=tuple(py_files or ())),
    )
    run_archive(wanted, typer.echo)


@app.command()
def compact(
    target: Annotated[Path, typer.Argument(help="Directory to make, with the bundle.")],
    *,
    kafka: Kafka,
    dc: DataCentre,
    repository: Repository = "main",
    applied: Annotated[
        str,
        typer.Option(
            help="A worker's applied state, as a manifest or a store has it.  [default: the empty one]"
        ),
    ] = "",
    after: Annotated[
        int | None, typer.Option(min=0, help="Begin behind this index.  [default: that of the state]")
    ] = None,
    until: Annotated[int | None, typer.Option(min=1, help="Last index.  [default: the newest]")] = None,
    spark: Spark = "local[2]",
    memory: Memory = 512,
    scratch: Scratch = None,
    py_files: PyFiles = None,
    archive: Annotated[
        Path | None, typer.Option(help="Directory of `quadlog archive`, for what the topics lack.")
    ] = None,
) -> None:
    """Make a range of effects one change, in files that a worker loads, and prove it.  Needs Kafka, no masters."""
    from consumers.replay import Range  # noqa: PLC0415
    from quadlog.applied import Applied  # noqa: PLC0415
    from quadlog.compact import Wanted, run_compact  # noqa: PLC0415
    from quadlog.spark import SparkSettings  # noqa: PLC0415
    from quadlog.topics import Topics  # noqa: PLC0415

    try:
        state = Applied.decode(applied) if applied else Applied()
    except ValueError as error:
        raise UserError(
            f"--applied is no state of a store: {error}; a manifest has it as 'applied' of 'before' and 'after'"
        ) from error
    wanted = Wanted(
        kafka=kafka,
        topics=Topics(repository, dc),
        target=target,
        range=Range(applied=state, after=after, until=until),
        archive=archive,
        spark=SparkSettings(master=spark, memory_mb=memory, scratch=scratch, py_files=tuple(py_files or ())),
    )
    run_compact(wanted, typer.echo)


Master = Annotated[str | None, typer.Option("--master", help="URL of a master that knows the worker.")]


@app.command()
def verify(
    worker: Annotated[str, typer.Argument(help="URL of a worker, or its id beside --master.")],
    master: Master = None,
) -> None:
    """Count what a worker holds, compare it with what it and the others say.  Exit status 1: they differ."""
    from quadlog.compare.verify import verify as compare  # noqa: PLC0415

    raise typer.Exit(0 if compare(worker, master, typer.echo) else 1)


@app.command()
def diff(
    one: Annotated[str, typer.Argument(help="URL of a worker, or its id beside --master.")],
    other: Annotated[str, typer.Argument(help="Another one.")],
    *,
    master: Master = None,
    kafka: Annotated[
        str | None, typer.Option(help="Bootstrap servers: also name the entry that last touched each quad.")
    ] = None,
    topic: Annotated[str, typer.Option(help="Effects topic there.")] = "main.dc1.effects",
    look_back: Annotated[int, typer.Option(min=1, help="Records of it to look at.")] = 100_000,
    wait: Annotated[float, typer.Option(min=0, help="Seconds until both are at the same index.")] = 30.0,
    shown: Annotated[int, typer.Option(min=0, help="Differences to name; all are counted.")] = 1_000,
) -> None:
    """Name the quads that only one of two workers holds, at the same index.  Exit status 1: there are some."""
    from quadlog.compare.diff import Effects, Question  # noqa: PLC0415
    from quadlog.compare.diff import diff as compare  # noqa: PLC0415

    effects = Effects(kafka=kafka, topic=topic, look_back=look_back) if kafka else None
    question = Question(one=one, other=other, master=master, effects=effects, wait_s=wait, shown=shown)
    raise typer.Exit(1 if compare(question, typer.echo) else 0)


@tx_app.command()
def revert(
    name: Annotated[str, typer.Argument(help="Its id (Quadlog-Tx), or its Idempotency-Key.")],
    *,
    at: Annotated[str, typer.Option(help="URL of a master; it takes the new transaction.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what has changed since.")] = False,
    kafka: Annotated[
        str | None, typer.Option(help="Bootstrap servers of that master's data centre, if not as it says.")
    ] = None,
    shown: Annotated[int, typer.Option(min=0, help="Quads of each kind to name; all are counted.")] = 20,
) -> None:
    """Submit the inverse of a transaction as a new one, and say what has changed since.  Twice is once."""
    from quadlog.compare.revert import Question  # noqa: PLC0415
    from quadlog.compare.revert import revert as submit  # noqa: PLC0415

    submit(Question(name=name, master=at, kafka=kafka, dry_run=dry_run, shown=shown), typer.echo)


At = Annotated[str, typer.Option("--at", help="URL of a master that is a peer.")]
PeerId = Annotated[str, typer.Argument(metavar="ID", help="Id of a master, such as dc4-m1.")]


@peer_app.command("list")
def peer_list(at: At) -> None:
    """Name all masters, as this one knows them: peer or outside, decided or not, heard or not."""
    from quadlog.peers import list_peers  # noqa: PLC0415

    list_peers(at, typer.echo)


@peer_app.command("add")
def peer_add(
    name: PeerId, dc: Annotated[str, typer.Argument(metavar="DC", help="Its data centre.")], at: At
) -> None:
    """Make a master a peer.  All settings name it already, and it runs."""
    from quadlog.peers import add_peer  # noqa: PLC0415

    add_peer(at, name, dc, typer.echo)


@peer_app.command("remove")
def peer_remove(
    name: PeerId,
    at: At,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="No majority is left, and the others are gone for good.")
    ] = False,
    survivor: Annotated[
        list[str] | None, typer.Option(help="With --force: one that is left; all are to be named.")
    ] = None,
) -> None:
    """Make a master a peer no more: it takes no writes then, and nobody waits for it."""
    from quadlog.peers import remove_peer  # noqa: PLC0415

    if force is not bool(survivor):
        raise typer.BadParameter(
            "--force needs all that are left as --survivor ID, and they mean nothing without it"
        )
    remove_peer(at, name, typer.echo, survivor or ())


@dc_app.command()
def rebuild(
    config: Config,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it.  Without it: say what is lost, and what would be done.")
    ] = False,
) -> None:
    """Make the topics of this master's data centre anew out of a peer's.  Once, while nothing runs there."""
    from quadlog.logs import start_logging  # noqa: PLC0415
    from quadlog.master.muted.rebuild import MutedRebuild  # noqa: PLC0415
    from quadlog.master.rebuild import Rebuild  # noqa: PLC0415
    from quadlog.settings import MasterSettings, Role  # noqa: PLC0415

    settings = MasterSettings.load(config)
    start_logging(settings.log_level)
    kind = MutedRebuild if settings.role is Role.MUTED else Rebuild
    kind(settings, typer.echo).run(is_meant=yes)


def main() -> None:
    """Run the command; an error of ours is one message on stderr and exit code 1."""
    try:
        app()
    except QuadlogError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(1)
