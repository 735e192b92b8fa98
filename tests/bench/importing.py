"""A whole repository: `quadlog import` into a lab of three data centres, beside pyoxigraph's own loader.

    python -m tests.bench.importing [--quads 10000000] [--named] [--workers 2] [--runs 1] [--export]

Three times: `Store.bulk_load` of the file into one store, alone; the same while the lab is up and at rest, which takes
a part of the cores by itself; and the import.  All on the same cores and the same disk, each loader in a process of its
own.  Lines have about 105 bytes, and each quad comes once.  Before all, memory is filled with pages of a file, as it is
on a machine that runs for long: a virtual machine gets its memory when that is written first, at up to three seconds of
CPU a GB.  Prints how long each phase took, CPU of all processes of the machine, and bytes written to the disk.
With `--export` all is written out again at the last data centre, and the lines of both files, sorted, are compared.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.support.labs import RunningLab, running_lab

BULK = """
import sys, time
from pyoxigraph import RdfFormat, Store
store, began = Store(sys.argv[1]), time.monotonic()
store.bulk_load(path=sys.argv[2], format=RdfFormat.N_QUADS)
store.flush()
print(time.monotonic() - began)
"""
WARM = 0.85
"""Of the memory that is free."""
MB = 1_000_000
REST_S = 20.0
"""Java compiles, when a lab has just begun."""


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
    said = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    file, piece = directory / "warm", bytes(MB)
    with file.open("wb") as out:
        for _ in range(int(int(said["MemAvailable"].split()[0]) * 1024 * WARM) // MB):
            out.write(piece)
    os.sync()


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


def load(name: str, target: Path, file: Path) -> float:
    """How many seconds pyoxigraph's own loader takes."""
    cpu = cpu_s()
    command = [sys.executable, "-c", BULK, str(target), str(file)]
    took = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"{name}: {took:.1f} s, {cpu_s() - cpu:.0f} s of CPU", flush=True)
    shutil.rmtree(target)
    return took


def run(place: Path, file: Path, chosen: argparse.Namespace) -> None:
    """Once."""
    warm(place)
    alone = load("bulk_load, alone", place / "store", file)
    with running_lab(place / "lab", dcs=3, workers=chosen.workers) as lab:
        time.sleep(REST_S)
        beside = load("bulk_load, the lab at rest", place / "store", file)
        began, cpu, out = time.monotonic(), cpu_s(), written()
        command = [sys.executable, "-m", "quadlog", "import", str(file), "--into", lab.masters[0]["url"]]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        took = time.monotonic() - began
        [(_, quads)] = signatures(lab)
        assert quads == chosen.quads, "each quad comes once"
        print(said.stdout.strip().splitlines()[-1])
        print(
            f"import: {took:.1f} s, {cpu_s() - cpu:.0f} s of CPU, {(written() - out) / MB:,.0f} MB to the disk:"
            f" {alone / took:.2f} of the rate of bulk_load alone, {beside / took:.2f} of that beside the lab",
            flush=True,
        )
        if chosen.export:
            export(lab.masters[-1]["url"], file)
    shutil.rmtree(place / "lab")


def export(master: str, file: Path) -> None:
    """Write out again what came in, and compare the lines, sorted."""
    out, began = file.with_suffix(".out"), time.monotonic()
    subprocess.run([sys.executable, "-m", "quadlog", "export", str(out), "--at", master], check=True)
    took = time.monotonic() - began
    both = [one.with_name(f"{one.name}.sorted") for one in (file, out)]
    for one, by_line in zip((file, out), both, strict=True):
        command = ["sort", "-S", "2G", "-o", str(by_line), str(one)]
        subprocess.run(command, check=True, env=os.environ | {"LC_ALL": "C", "TMPDIR": str(file.parent)})
    subprocess.run(["cmp", *both], check=True)
    print(f"export: {took:.1f} s, the same lines", flush=True)
    for one in (out, *both):
        one.unlink()


def main() -> None:
    """Print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quads", type=int, default=10_000_000)
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--export", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "quads.nq"
        write(file, chosen.quads, named=chosen.named)
        for _ in range(chosen.runs):
            run(Path(name), file, chosen)


if __name__ == "__main__":
    main()
