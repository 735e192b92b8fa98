"""`quadlog kafka …`: set-up of Kafka's jars, and Kafka's console tools."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

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


def _add(name: str, class_name: str) -> None:
    def run(context: typer.Context) -> None:
        from quadlog.kafka.tools import run_tool  # noqa: PLC0415  it needs confluent-kafka

        run_tool(name, context.args)

    app.command(name, help=class_name, context_settings=PASS_ON, add_help_option=False)(run)


for _name, _class_name in TOOLS.items():
    _add(_name, _class_name)
