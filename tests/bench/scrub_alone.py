"""What a scrub costs: seconds and CPU per million quads, and what applying beside it loses.

python -m tests.bench.scrub_alone --quads 1000000
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from pyoxigraph import Literal, NamedNode, Quad

from quadlog.core.effects import signature
from quadlog.core.effects.effect import Change
from quadlog.core.effects.lines import lines_of
from quadlog.quadstore.quadstore import QuadStore
from quadlog.worker.repair.health import Health
from quadlog.worker.repair.scrub import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH: Final = 50
QUADS_EACH: Final = 5
SECONDS: Final = 1.0
PAIRS: Final = 12


def quads(numbers: Iterator[int], size: int) -> list[Quad]:
    """So many new quads, of some 100 bytes of text."""
    graph = NamedNode("urn:bench:graph")
    return [
        Quad(
            NamedNode(f"urn:bench:subject:{number // 4}"),
            NamedNode(f"urn:bench:property:{number % 20}"),
            Literal(f"value {number}"),
            graph,
        )
        for number, _ in zip(numbers, range(size), strict=False)
    ]


def apply_for(store: QuadStore, numbers: Iterator[int], seconds: float) -> float:
    """Effects a second of a follower that applies batches."""
    began, effects = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        changes = [Change(inserted=tuple(quads(numbers, QUADS_EACH))) for _ in range(BATCH)]
        total = store.applied.signature
        for change in changes:
            total = signature.after(total, lines_of(change))
        store.apply(
            list(map(lines_of, changes)),
            replace(store.applied, index=store.applied.index + BATCH, signature=total),
        )
        effects += BATCH
    return effects / (time.monotonic() - began)


def beside(store: QuadStore, place: Path, numbers: Iterator[int], share: float) -> tuple[float, float]:
    """Median rates alone and beside a scrub, which is suspended every other moment: so the machine's moods cancel."""
    scrubber = Scrubber(store, place / "scrub", Health(), period=0, share=share)

    def scrub() -> None:
        with suppress(ValueError):  # it is killed at the end
            scrubber.scrub()

    thread = threading.Thread(target=scrub)
    thread.start()
    rates: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(PAIRS * 2):
        while (process := scrubber._process) is None and thread.is_alive():
            time.sleep(0.01)
        if process is None or process.is_done:
            break
        process._process.send_signal(signal.SIGSTOP if turn % 2 else signal.SIGCONT)
        rates[turn % 2 == 0].append(apply_for(store, numbers, SECONDS))
    scrubber.stop()
    thread.join()
    return median(rates[False]), median(rates[True])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quads", type=int, default=1_000_000)
    size = parser.parse_args().quads
    numbers = count()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        store = QuadStore.open(place / "quads")
        loaded = quads(numbers, size)
        store._store.bulk_extend(loaded)
        total, bulk = signature.after(0, lines_of(Change(inserted=tuple(loaded)))), len(loaded)
        del loaded
        store.apply([], replace(store.applied, index=1, signature=total, quads=bulk))
        began = time.monotonic()
        store.copy(place / "copy")
        print(f"copy of {size} quads: {(time.monotonic() - began) * 1000:.1f} ms")
        for share in (1.0, 0.1):
            print(f"share {share:g}:")
            # The log line of the scrub says cpu_s and wall_s.
            Scrubber(store, place / "scrub", Health(), period=0, share=share).scrub()
        for share in (0.1, 1.0):
            alone, with_it = beside(store, place, numbers, share)
            print(f"apply alone {alone:.0f}, beside a scrub of share {share:g} {with_it:.0f} effects/s")
            print(f"   ratio {with_it / alone:.2f}")
        store.close()


if __name__ == "__main__":
    main()
