"""`quadlog kafka …`: set-up of Kafka's jars, and Kafka's console tools."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from quadlog.errors import UserError
from quadlog.kafka.tool_names import TOOLS, main_class

PASS_ON: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Settings that pass every argument to a tool unchanged, including `--help`."""


class _Tools(TyperGroup):
    """Command group of `setup` and the names of Kafka's tools."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  typer hides these types
        """Return a command; fail for an unknown name with the list of known ones."""
        return super().get_command(ctx, cmd_name) or main_class(cmd_name)


app = typer.Typer(
    cls=_Tools,
    no_args_is_help=True,
    help="Apache Kafka from jars: set-up, and Kafka's own console tools with their own options.",
)


@app.command()
def setup() -> None:
    """Find Java, download Kafka's jars into the cache, and prepare classes for a quick start, once."""
    from rich.console import Console  # noqa: PLC0415  commands import what they need when they run

    from quadlog.kafka.jars import cache_directory  # noqa: PLC0415
    from quadlog.kafka.prepare import prepare  # noqa: PLC0415
    from quadlog.replay.spark_classes import class_archive  # noqa: PLC0415

    console = Console(highlight=False)
    with console.status("looking for Java and the jars") as status:

        def say(line: str) -> None:
            status.update(line)
            if not console.is_terminal:
                console.print(line, markup=False)

        installation = prepare(say)
        class_archive(installation.java, installation.jars, cache_directory(), say)
    console.print(
        f"Java {installation.java.version}, {len(installation.jars.kafka)} jars for Kafka and "
        f"{len(installation.jars.spark)} for Spark, {len(installation.jars.w3c)} of the W3C's tests in "
        f"{installation.jars.home}",
        soft_wrap=True,
        markup=False,
    )


@app.command()
def credentials(
    directory: Annotated[Path, typer.Argument(help="Is made if it is not there.")],
    *,
    host: Annotated[
        list[str], typer.Option(help="Of the brokers, such as dns:kafka.dc1 or ip:10.0.0.1; may be repeated.")
    ],
    user: Annotated[list[str], typer.Option(help="A user; may be repeated.")],
    group: Annotated[bool, typer.Option("--group", help="Let the group of the directory read it.")] = False,
) -> None:
    """Make a self-signed certificate and passwords for brokers with SASL_SSL and PLAIN, for a trial."""
    from quadlog.kafka.broker_security import BrokerSecurity  # noqa: PLC0415
    from quadlog.kafka.java import find_java  # noqa: PLC0415

    made = BrokerSecurity(directory=directory.absolute())
    made.prepare(find_java(), user, ",".join(host))
    made.write_login()
    if group:
        made.let_group_read()
    typer.echo(f"{made.ca}, broker.properties, admin.properties, and passwords of {', '.join(made.users)}")


@app.command()
def grant(
    *,
    kafka: Annotated[str, typer.Option(help="Bootstrap servers of a data centre; log in as a super user.")],
    dc: Annotated[str, typer.Option("--dc", help="That data centre.")],
    repository: Annotated[str, typer.Option(help="As in the settings.")] = "main",
    master: Annotated[list[str] | None, typer.Option(help="User of a master of it; may be repeated.")] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="User of a master of another data centre; may be repeated.")
    ] = None,
    worker: Annotated[list[str] | None, typer.Option(help="User of a worker of it; may be repeated.")] = None,
    reader: Annotated[
        list[str] | None, typer.Option(help="User that reads log and effects; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print options for kafka-acls.")] = False,
) -> None:
    """Add the ACLs that users need, and no more: see Security in docs/operating.md."""
    from quadlog.broker import Admin  # noqa: PLC0415
    from quadlog.cli.options import log_in_by_environment  # noqa: PLC0415
    from quadlog.kafka.acls import KafkaRole, add_grants, grants  # noqa: PLC0415
    from quadlog.kafka.broker_process import watcher  # noqa: PLC0415
    from quadlog.settings.common import kafka_credentials  # noqa: PLC0415
    from quadlog.topics import Topics  # noqa: PLC0415

    roles = {
        KafkaRole.MASTER: master,
        KafkaRole.PEER: peer,
        KafkaRole.WORKER: worker,
        KafkaRole.READER: reader,
    }
    users = [(_principal(name), role) for role, names in roles.items() for name in names or ()]
    wanted = grants(Topics(repository, dc), users)
    if not wanted:
        raise UserError("nothing to grant: give --master, --peer, --worker or --reader")
    if not dry_run:
        log_in_by_environment()
        Admin(kafka).reach()
        add_grants(watcher(kafka, kafka_credentials().librdkafka()), wanted)
    for one in wanted:
        typer.echo(str(one))


def _principal(user: str) -> str:
    """Return the principal of a user.

    >>> _principal("dc1-m1"), _principal("User:CN=dc1-m1")
    ('User:dc1-m1', 'User:CN=dc1-m1')
    """
    return user if user.startswith("User:") else f"User:{user}"


def _add(name: str, class_name: str) -> None:
    def run(context: typer.Context) -> None:
        from quadlog.kafka.tools import run_tool  # noqa: PLC0415  it needs confluent-kafka
        from quadlog.settings.common import kafka_credentials  # noqa: PLC0415
        from quadlog.settings.kafka_security import java_properties  # noqa: PLC0415

        credentials = kafka_credentials()
        run_tool(
            name,
            context.args,
            properties=java_properties(credentials.java()),
            jvm=credentials.java_options(),
        )

    app.command(name, help=class_name, context_settings=PASS_ON, add_help_option=False)(run)


for _name, _class_name in TOOLS.items():
    _add(_name, _class_name)
