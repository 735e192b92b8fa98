"""`python -m tests.bench.pair BEFORE AFTER`: two labs that run at once, loaded in turns.

What a machine shared with others does from minute to minute is more than most changes bring. Here it
falls on both: the ratio of each turn counts, and the median of these.

In each checkout, with the Java of production:

    KAFKA_JVM_PERFORMANCE_OPTS='-Xms64m -Xmx256m -XX:+UseSerialGC' quadlog lab up --ready before.json
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tests.bench.cluster import Cluster
from tests.bench.workload import Workload

if TYPE_CHECKING:
    from tests.bench.figures import Run


def cpu_of(run: Run) -> float:
    """Milliseconds of CPU for each update, over all processes."""
    return sum(run.cpu_ms.values())


def main(
    before: Annotated[Path, typer.Argument(help="READY file of a lab of the code as it was.")],
    after: Annotated[Path, typer.Argument(help="READY file of a lab of the code as it is.")],
    *,
    turns: Annotated[int, typer.Option(help="How often each is loaded.")] = 8,
    seconds: Annotated[float, typer.Option(help="Of each load.")] = 5.0,
    clients: Annotated[int, typer.Option(help="At each.")] = 64,
    workload: Annotated[Workload, typer.Option(help="What they send.")] = Workload.INSERT,
    heat: Annotated[float, typer.Option(help="Seconds for which each is loaded before.")] = 40.0,
) -> None:
    """Compare two labs."""
    console, labs = Console(), [Cluster.of(before), Cluster.of(after)]
    for lab in labs:
        lab.measure(workload, clients=64, seconds=heat, warm_up_s=0)
    pairs: list[tuple[Run, Run]] = []
    for turn in range(turns):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        runs = {
            at: labs[at].measure(workload, clients=clients, seconds=seconds, warm_up_s=0.5) for at in order
        }
        pairs.append((runs[0], runs[1]))
        console.print(f"{runs[0].rate:.0f} and {runs[1].rate:.0f} updates/s", highlight=False)
    for name, ratio in (
        ("updates/s", median(after.rate / before.rate for before, after in pairs)),
        ("p50", median(after.latencies.p50 / before.latencies.p50 for before, after in pairs)),
        ("CPU an update", median(cpu_of(after) / cpu_of(before) for before, after in pairs)),
    ):
        console.print(f"{name}: {ratio:.3f} times", highlight=False)


if __name__ == "__main__":
    typer.run(main)
