"""`python -m tests.bench.reads [--seconds N]`: what reads cost, through a master, at a worker, in process.

Each figure is that of one closed loop (`read_load.py`) in a process of its own.  Ratios within one run mean something;
absolute figures belong to the machine and what else it does.  Oxigraph's own server is asked,
too, where it is installed (`pip install oxigraph`).
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import httpx
import typer
from rich.console import Console
from rich.table import Table

from tests.bench.read_contenders import in_process, oxigraph
from tests.bench.read_data import AGGREGATES, LARGE, LINES, ONE, QUERIES
from tests.bench.read_load import Answered, Load, result_of
from tests.support.clusters.cluster import rss
from tests.support.labs import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLIENTS: Final = (1, 8, 32, 128)
SLOW: Final = 100_000.0
"""Bytes a second that a slow client takes."""
MIB: Final = 1024 * 1024


class Doors:
    """Where one data centre of a lab is asked."""

    def __init__(self, ready: Path) -> None:
        """`ready`: the READY file."""
        found: dict[str, Any] = json.loads(ready.read_text())
        dc = found["dcs"][0]
        self.master: Final[str] = dc["masters"][0]["url"]
        self.worker: Final[str] = dc["workers"][0]["url"]
        nodes = (dc["masters"][0], dc["workers"][0])
        self.pids: Final[dict[str, int]] = {node["id"]: node["pid"] for node in nodes}

    @property
    def ways(self) -> dict[str, str]:
        """The two doors by name."""
        return {"through a master": self.master, "at a worker": self.worker}


class Bench:
    """All parts, in the order in which they are printed."""

    def __init__(self, doors: Doors, seconds: float, console: Console) -> None:
        """`seconds`: of each loop."""
        self._doors, self._seconds, self._console = doors, seconds, console

    def run(self) -> None:
        """Measure and print."""
        self._fill()
        self._clients()
        self._kinds()
        self._mixture()
        self._writes()
        self._consistency()
        self._large()
        self._slow()

    def _load(self, url: str, body: str, clients: int = 1, **rest: Any) -> Load:  # noqa: ANN401 - as `Load` has it
        return Load(url=url, body=body, clients=clients, **{"seconds": self._seconds, **rest})

    def _fill(self) -> None:
        headers = {"Content-Type": "application/sparql-update"}
        text = f"INSERT DATA {{ {LINES} }}"
        with httpx.Client(base_url=self._doors.master, timeout=60, trust_env=False) as http:
            http.post("/update", content=text, headers=headers).raise_for_status()
        for url in self._doors.ways.values():  # the first answers start processes, and fill caches
            self._load(url, ONE, 8).run()

    def _clients(self) -> None:
        rows = {
            f"{way}, {clients} clients": self._load(url, ONE, clients).run()
            for clients in CLIENTS
            for way, url in self._doors.ways.items()
        }
        with oxigraph() as url:
            if url is not None:
                rows |= {
                    f"Oxigraph's own server, {clients} clients": self._load(
                        url, ONE, clients, path="/query"
                    ).run()
                    for clients in CLIENTS
                }
        self._show("SELECT of one solution", rows)

    def _kinds(self) -> None:
        rows: dict[str, Answered] = {}
        for kind, query in QUERIES.items():
            rows |= {
                f"{kind}, {way}": self._load(url, query, 8).run() for way, url in self._doors.ways.items()
            }
            rows[f"{kind}, in process"] = in_process(query, self._seconds)
        self._show("kinds of queries, 8 clients", rows)

    def _mixture(self) -> None:
        """Four heavy queries beside cheap ones."""
        rows: dict[str, Answered] = {}
        for kind, query in AGGREGATES.items():
            for way, url in self._doors.ways.items():
                heavy = self._load(url, query, 4, seconds=self._seconds + 1).start()
                while not self._under_way():
                    time.sleep(0.05)
                rows[f"one solution, 8 clients, beside {kind}, {way}"] = self._load(url, ONE, 8).run()
                rows[f"aggregates of {kind}, 4 clients, {way}"] = result_of(heavy)
        self._show("cheap queries beside heavy ones", rows)

    def _writes(self) -> None:
        update = {"path": "/update", "media_type": "application/sparql-update"}
        writes = self._load(self._doors.master, "INSERT DATA { <urn:a> <urn:b> 1 }", 64, **update)
        reads = self._load(self._doors.master, ONE, 8)
        rows = {"64 clients write": writes.run(), "8 clients read": reads.run()}
        writing = writes.start()
        rows["8 clients read beside 64 that write"] = reads.run()
        rows["64 clients write beside 8 that read"] = result_of(writing)
        self._show("reads and writes", rows)

    def _consistency(self) -> None:
        rows = {
            f"{name}, 8 clients": self._load(
                self._doors.master, ONE, 8, headers={"Quadlog-Consistency": name}
            ).run()
            for name in ("eventual", "session", "strict")
        }
        self._show("consistency", rows)

    def _large(self) -> None:
        accept = {"Accept": "application/sparql-results+json"}
        rows = {
            f"100 MB, {way}": self._load(url, LARGE, headers=accept).run()
            for way, url in self._doors.ways.items()
        }
        self._show("a large answer, one client", rows)

    def _slow(self) -> None:
        table = Table(title="slow clients of a large answer, through a master")
        for column in ("clients", "refused", *(f"{node}, MiB more" for node in self._doors.pids)):
            table.add_column(column, justify="right")
        for clients in (1, 8, 64):
            before = {node: rss(pid) for node, pid in self._doors.pids.items()}
            most = dict(before)
            process = self._load(self._doors.master, LARGE, clients, bytes_a_second=SLOW, seconds=0.5).start()
            end = time.monotonic() + max(3.0, self._seconds)
            while time.monotonic() < end:
                most = {node: max(most[node], rss(pid)) for node, pid in self._doors.pids.items()}
                time.sleep(0.05)
            under_way = self._under_way()
            process.terminate()
            process.communicate()
            grown = (f"{(most[node] - before[node]) / MIB:.0f}" for node in before)
            table.add_row(str(clients), str(clients - under_way), *grown)
        self._console.print(table)

    def _under_way(self) -> int:
        """Queries, as the master knows them."""
        answer = httpx.get(f"{self._doors.master}/queries", timeout=10, trust_env=False)
        return len(answer.json()["queries"])

    def _show(self, title: str, rows: Mapping[str, Answered]) -> None:
        table = Table(title=title)
        for column in ("", "a second", "p50 ms", "p99 ms", "MB/s", "refused", "failed", "clients' CPU"):
            table.add_column(column, justify="right" if column else "left")
        for name, one in rows.items():
            table.add_row(
                name,
                f"{one.rate:.1f}",
                f"{one.p50_ms:.2f}",
                f"{one.p99_ms:.2f}",
                f"{one.size / one.seconds / 1e6:.1f}",
                str(one.refused),
                str(sum(one.errors.values())),
                f"{one.cpu:.0%}",
            )
        self._console.print(table)


@contextmanager
def _lab(ready: Path | None, workers: int) -> Iterator[Path]:
    if ready is not None:
        yield ready
        return
    with (
        tempfile.TemporaryDirectory(prefix="quadlog-bench-") as directory,
        running_lab(Path(directory) / "lab", dcs=1, masters=1, workers=workers) as lab,
    ):
        yield lab.ready


def main(
    *,
    seconds: Annotated[float, typer.Option(help="Of each loop.")] = 5.0,
    ready: Annotated[Path | None, typer.Option(help="The READY file of a lab that runs already.")] = None,
) -> None:
    """Measure reads; without --ready in labs of one data centre, with one worker and with two."""
    console = Console()
    if not console.is_terminal:
        console.width = 130
    for workers in (1, 2) if ready is None else (0,):
        with _lab(ready, workers) as at:
            if workers:
                console.print(f"one master, {workers} worker{'s' * (workers > 1)}")
            Bench(Doors(at), seconds, console).run()


if __name__ == "__main__":
    typer.run(main)
