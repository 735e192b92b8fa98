"""Commands that list and change the settings that all masters share."""

from __future__ import annotations

from typing import Annotated

import typer

At = Annotated[str, typer.Option("--at", help="URL of a master.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the decisions.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a setting, such as max-peer-lag.")]


def show(at: At) -> None:
    """Print all settings that all masters share, and where each value comes from."""
    from quadlog.cli.config_commands import show_settings  # noqa: PLC0415

    show_settings(at, typer.echo)


def promote(at: At, timeout: Timeout = 5.0) -> None:
    """Have a master decide on undecided synchronous transactions, which the masters otherwise do by themselves."""
    from quadlog.cli.config_commands import promote_master  # noqa: PLC0415

    promote_master(at, timeout, typer.echo)


def get(name: Name, at: At) -> None:
    """Print the value of a setting."""
    from quadlog.cli.config_commands import get_setting  # noqa: PLC0415

    get_setting(at, name, typer.echo)


def change(
    name: Name, value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")], at: At
) -> None:
    """Set a setting at all masters, by an entry of the log."""
    from quadlog.cli.config_commands import set_setting  # noqa: PLC0415

    set_setting(at, name, value, typer.echo)
