"""Compaction alone: effects a second once Spark has started, and the memory of all its processes.

    python -m tests.bench.compacting [--effects 10000000] [--subjects 100000] [--runs 1] [--kafka BROKER]

Topics as `catching_up` makes them, on one broker that shares the cores, and `quadlog compact` in a process of its own
each time: its Java has compiled nothing yet.  Memory is what the command, Java and those that count the files have for
themselves together (PSS), at the most, looked at four times a second; what of that is no file's is told beside it.
With `--kafka` the topics are those of a broker that runs already, and are made there if they are not there: a second
run does not wait for them.  Others go to the command, `--memory 700` for one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.catching_up import Memory, made, memory_of, tree
from tests.support.labs import running_broker

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOK_S = 0.25


class Compacted(NamedTuple):
    """One run of the command."""

    said: str
    """Its last line."""
    memory: Memory
    """At the most."""
    cpu_s: float


def compacted(kafka: str, repository: str, target: Path, options: Sequence[str] = ()) -> Compacted:
    """Run it to its end."""
    command = [sys.executable, "-m", "quadlog", "compact", str(target)]
    command += ["--kafka", kafka, "--dc", "dc1", "--repository", repository, *options]
    most, cpu_s = Memory(0, 0), 0.0
    with (target.with_suffix(".said")).open("w+") as said:
        with subprocess.Popen(command, stdout=said) as process:
            while process.poll() is None:
                most = max(most, memory_of(process.pid), key=lambda memory: memory.all)
                cpu_s = max(cpu_s, cpu_of(process.pid))
                time.sleep(LOOK_S)
        said.seek(0)
        assert process.returncode == 0, said.read()
        return Compacted(said.read().splitlines()[-1], most, cpu_s)


def cpu_of(pid: int) -> float:
    """Seconds of a process, of those that it has begun, and of those that ended before."""
    ticks = 0
    for one in tree(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--effects", type=int, default=10_000_000)
    parser.add_argument("--subjects", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--kafka", default="")
    chosen, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        own = nullcontext() if chosen.kafka else running_broker(Path(name) / "broker")
        with own as broker:
            kafka = broker.bootstrap if broker else chosen.kafka
            repository = made(kafka, chosen.effects, chosen.subjects)
            for run in range(chosen.runs):
                found = compacted(kafka, repository, Path(name) / str(run), options)
                memory = f"{found.memory.all / 1e6:,.0f} MB, {found.memory.own / 1e6:,.0f} of them no file's"
                print(f"{found.said}, {found.cpu_s:.0f} s of CPU, {memory}", flush=True)


if __name__ == "__main__":
    main()
