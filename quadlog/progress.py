"""Progress of long work: a moving bar on a terminal, one line per phase elsewhere."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.progress import Task

    Look: TypeAlias = Callable[[], tuple[float, int]]
    """Function that returns the amount of work done, and the number of quads in it."""

LOOK_S: Final = 0.5


class _Quads(ProgressColumn):
    def render(self, task: Task) -> Text:
        quads, elapsed = int(task.fields.get("quads", 0)), task.elapsed or 0.0
        rate = f", {quads / elapsed:,.0f}/s" if quads and elapsed else ""
        return Text(f"{quads:,} quads{rate}" if quads else "")


class Phases:
    """Phases of long work, one after the other."""

    def __init__(self) -> None:
        """Write to standard error: standard output is for results."""
        self._console = Console(stderr=True, highlight=False)
        self.seconds: Final[dict[str, float]] = {}
        """Duration of each phase, by its name."""

    def write(self, text: str) -> None:
        """Print one line."""
        self._console.print(text, markup=False)

    @contextmanager
    def phase(self, name: str, total: float, look: Look) -> Generator[None]:
        """Show the progress of the work in this context, calling `look` every `LOOK_S` seconds."""
        began = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            _Quads(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console, refresh_per_second=1 / LOOK_S) as progress:
            task, ended = progress.add_task(name, total=total, quads=0), threading.Event()

            def follow() -> None:
                while not ended.wait(LOOK_S):
                    tell()

            def tell() -> None:
                done, quads = look()
                progress.update(task, completed=done, quads=quads)

            thread = threading.Thread(target=follow, daemon=True)
            thread.start()
            try:
                yield
            finally:
                ended.set()
                thread.join()
                tell()
        self.seconds[name] = time.monotonic() - began
