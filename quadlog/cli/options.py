"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def log_in_by_environment() -> None:
    """Let the Kafka clients of a command without settings use the `QUADLOG_KAFKA_…` variables."""
    from quadlog.broker.connection import ANY, log_in  # noqa: PLC0415  commands import what they need when they run
    from quadlog.settings.common import kafka_credentials  # noqa: PLC0415

    log_in({ANY: kafka_credentials()})


Config = Annotated[Path, typer.Option("--config", help="Settings file (TOML).", exists=True, dir_okay=False)]
OptionalConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file (TOML).  [default: QUADLOG_… variables]", exists=True, dir_okay=False
    ),
]
