"""Progress bars for a terminal: acknowledged updates, and the applied index of every worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from rich.console import Console

    from quadlog.demo.cluster import DemoNode
    from quadlog.demo.split import DemoUpdate


class Bars:
    """Context manager that shows progress bars; if the output is not a terminal, only their final state."""

    def __init__(self, console: Console, updates: Sequence[DemoUpdate], workers: Iterable[DemoNode]) -> None:
        """Prepare one bar for the updates, and one for each worker."""
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(30),
            TextColumn("{task.fields[said]}"),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=8,
        )
        total = sum(update.triples for update in updates)
        self._triples = self._progress.add_task("triples sent", total=total, said="")
        self._workers = {
            worker.id: self._progress.add_task(f"applied by {worker.id}", total=len(updates), said="")
            for worker in workers
        }
        self._updates, self._acknowledged = len(updates), 0

    def __enter__(self) -> Self:
        """Show the bars."""
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop updating the bars; their last state stays visible."""
        self._progress.stop()

    def acknowledged(self, update: DemoUpdate) -> None:
        """Count an update that a master acknowledged."""
        self._acknowledged += 1
        self._progress.advance(self._triples, update.triples)
        self._progress.update(self._triples, said=f"{self._acknowledged} of {self._updates} updates")

    def applied(self, worker_id: str, index: int | None) -> None:
        """Show the applied index that a worker reported; None: it did not answer."""
        said = "[red]down[/red]" if index is None else f"index {index}"
        task = self._workers[worker_id]
        if index is None:
            self._progress.update(task, said=said)
        else:
            self._progress.update(task, completed=index, said=said)

    async def reached(self, share: float) -> None:
        """Wait until this share of the updates is acknowledged."""
        while self._acknowledged < share * self._updates:  # noqa: ASYNC110 - the bars provide no event
            await asyncio.sleep(0.05)
