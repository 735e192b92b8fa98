"""Synchronous transactions beside asynchronous ones: the same clients, in turn, within one run.

python -m tests.bench.synchronous --ready READY
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path  # noqa: TC003 - typer needs it
from statistics import median
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from tests.bench.cluster import Cluster
from tests.bench.generator import closed_loop
from tests.bench.workload import Workload, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENTS = (1, 16, 64)
PAIRS = 3
WARM_UP = 0.3
"""Share of a run's time that comes first and is not counted."""


class Pair(NamedTuple):
    """Two runs, one after the other."""

    clients: int
    rates: tuple[float, float]
    """Updates a second: default, synchronous."""
    medians_ms: tuple[float, float]


def measure(cluster: Cluster, *, seconds: float, clients: Sequence[int] = CLIENTS) -> list[Pair]:
    """Some pairs for each number of clients."""
    return [_pair(cluster, count, seconds) for count in clients for _ in range(PAIRS)]


def _pair(cluster: Cluster, clients: int, seconds: float) -> Pair:
    rates, medians = list[float](), list[float]()
    for commit in ("default", "sync"):
        updates = texts(Workload.INSERT, f"urn:bench:{uuid.uuid4()}:")
        for share, counts in ((WARM_UP, False), (1.0, True)):
            sent = asyncio.run(
                closed_loop(cluster.masters, updates, clients=clients, seconds=share * seconds, commit=commit)
            )
            if sent.errors:
                raise RuntimeError(f"{commit}, {clients} clients: {sent.errors}")
            if counts:
                rates.append(len(sent.latencies) / sent.seconds)
                medians.append(1000 * median(sent.latencies))
        cluster.catch_up()
    return Pair(clients, (rates[0], rates[1]), (medians[0], medians[1]))


def table(pairs: Sequence[Pair]) -> Table:
    """The pairs, and their medians in words of one another."""
    shown = Table(title="Synchronous beside asynchronous")
    for name in ("clients", "default/s", "sync/s", "rate", "default p50 ms", "sync p50 ms", "p50"):
        shown.add_column(name, justify="right")
    for clients in sorted({pair.clients for pair in pairs}):
        some = [pair for pair in pairs if pair.clients == clients]
        rate = median(pair.rates[1] / pair.rates[0] for pair in some)
        slower = median(pair.medians_ms[1] / pair.medians_ms[0] for pair in some)
        for pair in some:
            values = (*pair.rates, pair.rates[1] / pair.rates[0], *pair.medians_ms)
            shown.add_row(
                f"{clients}",
                *(f"{one:.2f}" for one in values),
                f"{pair.medians_ms[1] / pair.medians_ms[0]:.2f}",
            )
        shown.add_row("", "", "", f"{rate:.2f}", "", "", f"{slower:.2f}", style="bold", end_section=True)
    return shown


def main(
    ready: Annotated[Path, typer.Option(help="The READY file of a lab that runs.")], seconds: float = 10.0
) -> None:
    """Measure a cluster that runs."""
    Console(width=110).print(table(measure(Cluster.of(ready), seconds=seconds)))


if __name__ == "__main__":
    typer.run(main)
