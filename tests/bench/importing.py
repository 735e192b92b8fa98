"""A whole repository: `quadlog import` into a lab of three data centres, beside pyoxigraph's own loader.

    python -m tests.bench.importing [--quads 10000000] [--named] [--workers 2] [--runs 1]

First `Store.bulk_load` of the file into one store, alone, then the import of the same file; both in processes of their
own, on the cores and the disk that the lab has, too.  Lines have about 105 bytes, each quad comes once.  Before all, as
much memory is written as both will use: a machine that is virtual gets its memory when that is written first, at some
three seconds a GB.  Prints how long each phase took, CPU of all processes, and bytes written to the disk.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.lab_helpers import RunningLab, running_lab

BULK = """
import sys, time
from pyoxigraph import RdfFormat, Store
store, began = Store(sys.argv[1]), time.monotonic()
store.bulk_load(path=sys.argv[2], format=RdfFormat.N_QUADS)
store.flush()
print(time.monotonic() - began)
"""
WARM = 12_000_000_000
MB = 1_000_000


def write(file: Path, quads: int, *, named: bool) -> None:
    """Subjects with five quads each, in any order."""
    chance, graph = random.Random(1), " <http://example.org/graph/one>" if named else ""
    with file.open("w", buffering=MB) as lines:
        for n in range(quads):
            subject, predicate = chance.randrange(max(1, quads // 5)), chance.randrange(20)
            lines.write(
                f"<http://example.org/building/thing-{subject:08}> <http://example.org/schema#property{predicate:02}>"
                f' "value {n:010} of it"{graph} .\n'
            )


def warm(directory: Path) -> None:
    """Have the machine get its memory."""
    file = directory / "warm"
    with file.open("wb") as out:
        for _ in range(WARM // MB):
            out.write(bytes(MB))
    file.unlink()


def cpu_s() -> float:
    """Of all processes, since the machine began."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + softirq) / 100


def written() -> int:
    """Bytes that went to disks since the machine began."""
    found = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(found["pgpgout"]) * 1024


def signatures(lab: RunningLab) -> set[tuple[str, int]]:
    """Of all workers."""
    said = [httpx.get(f"{worker['url']}/status").json() for worker in lab.workers]
    return {(one["signature"], one["quads"]) for one in said}


def main() -> None:
    """Print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quads", type=int, default=10_000_000)
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        file = place / "quads.nq"
        write(file, chosen.quads, named=chosen.named)
        for run in range(chosen.runs):
            warm(place)
            began, cpu = time.monotonic(), cpu_s()
            command = [sys.executable, "-c", BULK, str(place / f"alone-{run}"), str(file)]
            alone = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(f"bulk_load {alone:.1f} s, {cpu_s() - cpu:.0f} s of CPU", flush=True)
            with running_lab(place / f"lab-{run}", dcs=3, workers=chosen.workers) as lab:
                lab.wait_ready()
                began, cpu, out = time.monotonic(), cpu_s(), written()
                command = [
                    sys.executable,
                    "-m",
                    "quadlog",
                    "import",
                    str(file),
                    "--into",
                    lab.masters[0]["url"],
                ]
                said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                took = time.monotonic() - began
                [(_, quads)] = signatures(lab)
                assert quads == chosen.quads, "each quad comes once"
                print(said.stdout.strip().splitlines()[-1])
                print(
                    f"import {took:.1f} s, {cpu_s() - cpu:.0f} s of CPU, {(written() - out) / MB:,.0f} MB to the disk:"
                    f" {alone / took:.2f} of bulk_load's rate",
                    flush=True,
                )


if __name__ == "__main__":
    main()
