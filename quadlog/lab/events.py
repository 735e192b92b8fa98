"""Messages of a running lab: one line for each event, on stderr."""

from __future__ import annotations

import time
from contextlib import suppress

from rich.console import Console


class Events:
    """Writer of lines with the seconds since the start of the lab."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._began = time.monotonic()

    def write(self, line: str) -> None:
        """Write a line; a closed stderr does not end the lab."""
        seconds = time.monotonic() - self._began
        with suppress(OSError):
            self._console.print(f"{seconds:6.1f}s {line}", soft_wrap=True, markup=False)
