"""`python -m tests.bench`: measure a cluster, and beside it what it is made of."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tests.bench import agreement_alone, applying, baselines, reads, stages, synchronous
from tests.bench.cluster import Cluster
from tests.bench.report import Report
from tests.bench.workload import Workload
from tests.support.labs import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator

ALONE = 1 / 6
"""A part alone is measured for this share of a run's time: it does not vary as much."""

APPLIED = 300
"""Updates for a second of measuring parts alone: each is evaluated, and followed four times."""

IN_FLIGHT = (1, 64)

JAVA = {"KAFKA_JVM_PERFORMANCE_OPTS": "-Xms64m -Xmx256m -XX:+UseSerialGC"}
"""Brokers with Java's full compiler, as in production; the lab's own start faster and take twice the CPU."""

WIDTH = 130
"""Columns of a file: no figure is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    seconds: float
    runs: int
    clients: tuple[int, ...]
    workload: Workload
    heat: float
    warm_up: float
    traces: int
    history: int


def measure(plan: Plan, ready: Path, console: Console) -> Report:
    """Measure a running cluster and the parts alone."""
    cluster, report = Cluster.of(ready), Report(workload=plan.workload)
    if plan.heat:
        console.print(f"{max(plan.clients)} clients for {plan.heat:g} s, not counted: Java compiles …")
        cluster.measure(plan.workload, clients=max(plan.clients), seconds=plan.heat, warm_up_s=0)
    for clients in plan.clients:
        report.runs[clients] = []
        for number in range(plan.runs):
            console.print(f"{clients} clients, run {number + 1} of {plan.runs}, {plan.seconds:g} s …")
            run = cluster.measure(
                plan.workload, clients=clients, seconds=plan.seconds, warm_up_s=plan.warm_up
            )
            report.runs[clients].append(run)
    console.print(f"{plan.traces} updates, one at a time …")
    report.traces = stages.traces(cluster, count=plan.traces)
    console.print("the parts alone …")
    brokers = sorted({dc.kafka for dc in cluster.dcs})
    alone_s = plan.seconds * ALONE
    for in_flight in IN_FLIGHT:
        report.baselines.append(baselines.produce(brokers, in_flight=in_flight, seconds=alone_s))
    with tempfile.TemporaryDirectory(prefix="quadlog-bench-") as directory:
        for in_flight in IN_FLIGHT:
            place = Path(directory) / f"agreement-{in_flight}"
            report.baselines.append(agreement_alone.agree(place, in_flight=in_flight, seconds=alone_s))
        for workload in Workload:
            place = Path(directory) / workload
            report.baselines.append(baselines.plain_updates(place, workload, seconds=alone_s))
        updates = round(alone_s * APPLIED)
        report.applying = applying.measure(
            Path(directory), updates=updates, history=plan.history, runs=plan.runs
        )
    console.print("reads …")
    reads.Bench(reads.Doors(ready), alone_s, console).run()
    console.print("synchronous beside asynchronous …")
    console.print(synchronous.table(synchronous.measure(cluster, seconds=alone_s)))
    return report


@contextmanager
def _cluster(ready: Path | None, console: Console) -> Iterator[Path]:
    if ready is not None:
        yield ready
        return
    with tempfile.TemporaryDirectory(prefix="quadlog-bench-") as directory:
        console.print("a lab starts: 3 data centres, 1 master and 2 workers in each …")
        environment = {**JAVA, **os.environ}
        with running_lab(
            Path(directory) / "lab", dcs=3, masters=1, workers=2, environment=environment
        ) as lab:
            yield lab.ready


def main(
    *,
    seconds: Annotated[float, typer.Option(help="Of each run.")] = 60.0,
    runs: Annotated[int, typer.Option(help="For each number of clients; the median counts.")] = 3,
    clients: Annotated[str, typer.Option(help="Numbers of clients.")] = "1,16,64",
    workload: Annotated[Workload, typer.Option(help="What they send.")] = Workload.INSERT,
    heat: Annotated[float, typer.Option(help="Seconds under load before anything is measured.")] = 90.0,
    warm_up: Annotated[float, typer.Option(help="Seconds before each run that do not count.")] = 5.0,
    traces: Annotated[int, typer.Option(help="Single updates that are followed through the topics.")] = 90,
    history: Annotated[
        int, typer.Option(help="List appends behind a worker's older store.")
    ] = applying.HISTORY,
    ready: Annotated[Path | None, typer.Option(help="The READY file of a lab that runs already.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all figures here.")] = None,
) -> None:
    """Measure a cluster on this machine; without --ready it starts one of its own."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    plan = Plan(
        seconds=seconds,
        runs=runs,
        clients=tuple(map(int, clients.split(","))),
        workload=workload,
        heat=heat,
        warm_up=warm_up,
        traces=traces,
        history=history,
    )
    with _cluster(ready, console) as at:
        report = measure(plan, at, console)
    report.show(console)
    if json is not None:
        report.write(json)


if __name__ == "__main__":
    typer.run(main)
