"""Figures for people, and as JSON for comparisons."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tests.bench.figures import median_run
from tests.bench.stages import STAGES, medians

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from tests.bench.figures import Applying, Baseline, Run
    from tests.bench.stages import Trace

THREADS = 12
"""Kinds of thread in the table; the JSON has all."""


@dataclass(slots=True, kw_only=True)
class Report:
    """Everything that one call of the bench measured."""

    workload: str
    runs: dict[int, list[Run]] = field(default_factory=dict[int, "list[Run]"])
    """By number of clients."""
    baselines: list[Baseline] = field(default_factory=list["Baseline"])
    applying: list[Applying] = field(default_factory=list["Applying"])
    traces: list[Trace] = field(default_factory=list["Trace"])

    def show(self, console: Console) -> None:
        """Print the tables."""
        tables = (
            self._cluster(),
            self._threads(),
            self._stages(),
            self._alone(),
            applying_table(self.applying),
        )
        for table in tables:
            console.print(table)
        for clients, runs in self.runs.items():
            for number, run in enumerate(runs, 1):
                for doubt in run.doubts:
                    console.print(f"[red]{clients} clients, run {number}: {doubt}[/red]")

    def _cluster(self) -> Table:
        kinds = sorted({kind for runs in self.runs.values() for run in runs for kind in run.cpu_ms})
        table = Table(title=f"three masters, {self.workload}: median of the runs")
        columns = ("clients", "updates/s", "of all runs", "p50 ms", "p99 ms", "max ms", "errors", "generator")
        for column in (*columns, *(f"{kind} ms" for kind in kinds), "catch-up s"):
            table.add_column(column, justify="right")
        for clients, runs in self.runs.items():
            run = median_run(runs)
            rates = sorted(one.rate for one in runs)
            table.add_row(
                str(clients),
                f"{run.rate:.0f}",
                f"{rates[0]:.0f}-{rates[-1]:.0f}",
                *(f"{ms:.1f}" for ms in (run.latencies.p50, run.latencies.p99, run.latencies.most)),
                str(run.errors.total()),
                f"{run.generator_cpu:.0%}",
                *(f"{run.cpu_ms.get(kind, 0):.2f}" for kind in kinds),
                f"{run.catch_up_s:.2f}",
            )
        table.caption = "'… ms' of a kind of process: CPU for each update"
        return table

    def _threads(self) -> Table:
        """The threads that take the most."""
        runs = {clients: median_run(runs) for clients, runs in self.runs.items()}
        table = Table(
            "process: thread",
            title="CPU ms for each update, by thread (rdk: librdkafka, main: HTTP and all else)",
        )
        for clients in runs:
            table.add_column(f"{clients} clients", justify="right")
        threads = {thread: ms for run in runs.values() for thread, ms in run.threads_ms.items()}
        for thread in sorted(threads, key=lambda thread: -threads[thread])[:THREADS]:
            table.add_row(thread, *(f"{run.threads_ms.get(thread, 0):.2f}" for run in runs.values()))
        return table

    def _stages(self) -> Table:
        table = Table(
            "stage", "p50 ms", "from … until", title="where one update's time goes, nothing beside it"
        )
        table.columns[1].justify = "right"
        if self.traces:
            for (name, meaning), ms in zip(STAGES, medians(self.traces), strict=True):
                table.add_row(name, f"{ms:.1f}", meaning)
            whole = median(trace.moments[-1] - trace.moments[0] for trace in self.traces)
            table.add_row("all", f"{whole:.1f}", f"of {len(self.traces)} updates; medians need not add up")
        return table

    def _alone(self) -> Table:
        table = Table(title="what the parts do alone, in the same run")
        for column in ("", "a second", "p50 ms", "CPU ms for each"):
            table.add_column(column, justify="right" if column else "left")
        for one in self.baselines:
            table.add_row(one.name, f"{one.rate:.0f}", f"{one.p50_ms:.2f}", f"{one.cpu_ms:.3f}")
        return table

    def write(self, path: Path) -> None:
        """All figures, with what they were measured on."""
        values: dict[str, Any] = asdict(self)
        values["machine"] = {"cpus": os.cpu_count(), "python": platform.python_version()}
        values["machine"]["system"] = platform.platform()
        values["stages"] = dict(zip((name for name, _ in STAGES), medians(self.traces), strict=False))
        for clients, runs in self.runs.items():
            for number, run in enumerate(runs):
                values["runs"][clients][number]["rate"] = run.rate
        path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def applying_table(applying: Sequence[Applying]) -> Table:
    """One worker alone: on a young store, then on one with a history."""
    table = Table(title="one worker alone: updates a second, and as a share of pyoxigraph's own")
    batches = applying[0].followed if applying else ()
    follows = (f"follows, {batch} at once" for batch in batches)
    for column in (
        "",
        "appends before",
        "pyoxigraph update",
        "evaluates",
        "its store alone",
        *follows,
        "bare quads",
    ):
        table.add_column(column, justify="right" if column else "left")
    for one in applying:
        rates = (one.evaluated, one.asked, *one.followed.values(), one.bare)
        shares = (f"{rate:.0f} ({rate / one.plain:.2f})" for rate in rates)
        table.add_row(one.workload, str(one.history), f"{one.plain:.0f}", *shares)
    return table
