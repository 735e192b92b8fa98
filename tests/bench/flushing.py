"""What it brings to write out the store's memory while it goes on.

    python -m tests.bench.flushing [--quads 100000 1000000] [--effects 800000]

A store of so many quads takes effects of two lines, each another value of one of its subjects, in batches of 2,000, as
a worker applies them: with `quadlog/quadstore/flushing.py`, and as RocksDB has it by itself.  Each in a process of its
own; CPU is all of that, but for what makes the effects, with what RocksDB does in the background until the end.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyoxigraph import RdfFormat, Store

from quadlog.core.effects.lines import ChangeLines
from quadlog.quadstore import flushing
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES
from quadlog.quadstore.quadstore import QuadStore
from tests.bench.catching_up import line_of

BATCH = 2_000
WAYS = ("by itself", "flushing")


def resident() -> float:
    """MB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def measure(directory: Path, quads: int, effects: int) -> str:
    """Apply them, and say what it took."""
    bare = Store(directory / FILES)
    bare.bulk_load("\n".join(line_of(n, 0) for n in range(quads)).encode(), format=RdfFormat.N_QUADS)
    bare.flush()
    del bare
    QuadStore.adopt(directory, Applied(quads=quads))
    store = QuadStore.open(directory)
    chance, values = random.Random(1), [0] * quads
    most, making, began, cpu = 0.0, 0.0, time.monotonic(), time.process_time()
    for batch in range(1, effects // BATCH + 1):
        before, at = time.process_time(), time.monotonic()
        subjects = chance.sample(range(quads), BATCH)
        deleted = tuple(line_of(n, values[n]) for n in subjects)
        for subject in subjects:
            values[subject] = batch
        change = ChangeLines(deleted=deleted, inserted=tuple(line_of(n, batch) for n in subjects))
        making += time.process_time() - before
        began += time.monotonic() - at
        store.apply([change], Applied(index=batch, quads=quads))
        most = max(most, resident())
    seconds = time.monotonic() - began
    store.close()
    cpu = time.process_time() - cpu - making
    each = f"{1e6 * cpu / effects:5.1f} µs of CPU an effect, {1e6 * seconds / effects:5.1f} µs"
    return f"{each}, {most:6,.0f} MB at the most"


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quads", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--effects", type=int, default=800_000)
    parser.add_argument("--way", choices=WAYS)
    chosen = parser.parse_args()
    if chosen.way is None:
        for quads in chosen.quads:
            for way in WAYS:
                options = ["--quads", str(quads), "--effects", str(chosen.effects), "--way", way]
                subprocess.run([sys.executable, "-m", "tests.bench.flushing", *options], check=True)
        return
    if chosen.way == WAYS[0]:
        flushing.LEAST = sys.maxsize  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as name:
        [quads] = chosen.quads
        print(
            f"{quads:>10,} quads, {chosen.way:>9}: {measure(Path(name), quads, chosen.effects)}", flush=True
        )


if __name__ == "__main__":
    main()
