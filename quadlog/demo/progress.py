"""Bars for a terminal: what is acknowledged, and how far every worker is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from rich.console import Console

    from quadlog.demo.cluster import DemoNode
    from quadlog.demo.split import DemoUpdate


class Bars:
    """Open it around the load; on something that is no terminal it shows its end only."""

    def __init__(self, console: Console, updates: Sequence[DemoUpdate], workers: Iterable[DemoNode]) -> None:
        """Take the updates to come and the workers to apply them."""
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
        """Show them."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave them as they are."""
        self._progress.stop()

    def acknowledged(self, update: DemoUpdate) -> None:
        """Count an update that a master acknowledged."""
        self._acknowledged += 1
        self._progress.advance(self._triples, update.triples)
        self._progress.update(self._triples, said=f"{self._acknowledged} of {self._updates} updates")

    def applied(self, worker_id: str, index: int | None) -> None:
        """Show the applied index that a worker told; None if it did not answer."""
        said = "[red]down[/red]" if index is None else f"index {index}"
        task = self._workers[worker_id]
        if index is None:
            self._progress.update(task, said=said)
        else:
            self._progress.update(task, completed=index, said=said)

    async def reached(self, share: float) -> None:
        """Wait until this share of the updates is acknowledged."""
        while self._acknowledged < share * self._updates:  # noqa: ASYNC110  a bar has no listeners
            await asyncio.sleep(0.05)
