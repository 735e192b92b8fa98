"""What several commands share: options, a login, and requests to a master."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import httpx


def log_in_by_environment() -> None:
    """Let the Kafka clients of a command without settings use the `QUADLOG_KAFKA_…` variables."""
    from quadlog.broker.connection import ANY, log_in  # noqa: PLC0415  commands import what they need when they run
    from quadlog.settings.common import kafka_credentials  # noqa: PLC0415

    log_in({ANY: kafka_credentials()})


def ask(master: str, method: str, path: str, **rest: Any) -> httpx.Response:  # noqa: ANN401
    """Do what `request_master` does, which is imported when a command runs."""
    from quadlog.web.master_client import request_master  # noqa: PLC0415

    return request_master(master, method, path, **rest)


Config = Annotated[Path, typer.Option("--config", help="Settings file (TOML).", exists=True, dir_okay=False)]
OptionalConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file (TOML).  [default: QUADLOG_… variables]", exists=True, dir_okay=False
    ),
]
