"""What the lab says while it runs: one line for each thing that happens, on stderr."""

from __future__ import annotations

import time
from contextlib import suppress

from rich.console import Console


class Events:
    """Lines with the seconds since the lab began."""

    def __init__(self) -> None:
        """Start the clock."""
        self._console = Console(stderr=True, highlight=False)
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        """Say it; a reader that has gone away does not end the lab."""
        seconds = time.monotonic() - self._began
        with suppress(OSError):
            self._console.print(f"{seconds:6.1f}s {line}", soft_wrap=True, markup=False)
