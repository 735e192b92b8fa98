"""What answers the same reads without a cluster: pyoxigraph in one process, and Oxigraph's own server."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pyoxigraph as ox

from quadlog.kafka.ports import free_ports
from tests.bench.figures import Latencies
from tests.bench.read_data import LINES
from tests.bench.read_load import Answered

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S: Final = 20.0
"""How long Oxigraph's server has to take the data."""


@contextmanager
def oxigraph() -> Iterator[str | None]:
    """Oxigraph's own server with the data; None where it is not installed: `pip install oxigraph` brings it."""
    program = shutil.which("oxigraph", path=f"{Path(sys.executable).parent}") or shutil.which("oxigraph")
    if program is None:
        yield None
        return
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="quadlog-bench-") as directory:
        command = [program, "serve", "--location", directory, "--bind", f"127.0.0.1:{port}"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _fill(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def _fill(url: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            headers = {"Content-Type": "application/sparql-update"}
            httpx.post(
                f"{url}/update", content=f"INSERT DATA {{ {LINES} }}", headers=headers, trust_env=False
            ).raise_for_status()
        except httpx.ConnectError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def in_process(query: str, seconds: float) -> Answered:
    """What pyoxigraph does alone, one after the other, with the answer written out."""
    store, took, size = ox.Store(), list[float](), 0
    store.update(f"INSERT DATA {{ {LINES} }}")
    began = time.perf_counter()
    asked = began
    while asked < began + seconds:
        found = store.query(query)
        is_graph = isinstance(found, ox.QueryTriples)
        written = found.serialize(format=ox.RdfFormat.N_TRIPLES if is_graph else ox.QueryResultsFormat.JSON)  # type: ignore[arg-type]
        size += len(written or b"")
        answered = time.perf_counter()
        took.append(answered - asked)
        asked = answered
    latencies = Latencies.of(took)
    return Answered(
        answers=len(took),
        seconds=asked - began,
        p50_ms=latencies.p50,
        p99_ms=latencies.p99,
        refused=0,
        errors={},
        size=size,
        cpu=1.0,
    )
