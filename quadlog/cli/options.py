"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CONFIG = typer.Option("--config", help="Settings file (TOML).", exists=True, dir_okay=False)
Config = Annotated[Path, CONFIG]
