"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Option("--config", help="Settings file (TOML).", exists=True, dir_okay=False)]
OptionalConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file (TOML).  [default: QUADLOG_… variables]", exists=True, dir_okay=False
    ),
]
