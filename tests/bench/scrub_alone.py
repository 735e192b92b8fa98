"""What a scrub costs: seconds and CPU per million quads, and what applying beside it loses.

python -m tests.bench.scrub_alone --quads 1000000
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyoxigraph import Literal, NamedNode, Quad

from quadlog.core.effect import Change, signature_after
from quadlog.quadstore import QuadStore
from quadlog.worker.health import Health
from quadlog.worker.scrub import Scrubber

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH: Final = 50
QUADS_EACH: Final = 5
SECONDS: Final = 8.0


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


def apply_for(store: QuadStore, numbers: Iterator[int], ended: threading.Event) -> float:
    """Effects a second of a follower that applies batches, until `ended`."""
    began, effects = time.monotonic(), 0
    while not ended.is_set():
        changes = [Change(inserted=tuple(quads(numbers, QUADS_EACH))) for _ in range(BATCH)]
        total = store.applied.signature
        for change in changes:
            total = signature_after(total, change)
        store.apply(changes, replace(store.applied, index=store.applied.index + BATCH, signature=total))
        effects += BATCH
    return effects / (time.monotonic() - began)


def with_scrub(store: QuadStore, place: Path, numbers: Iterator[int], share: float, *, most: float) -> float:
    """The same beside a scrub, for as long as that takes or `most` seconds."""
    ended = threading.Event()
    scrubber = Scrubber(store, place / "scrub", Health(), period=0, share=share)
    watch = threading.Timer(most, scrubber.stop)

    def run() -> None:
        try:
            scrubber.scrub()
        except ValueError:
            print(f"   (stopped after {most:g} s)")
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    watch.start()
    rate = apply_for(store, numbers, ended)
    watch.cancel()
    thread.join()
    return rate


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quads", type=int, default=1_000_000)
    size = parser.parse_args().quads
    numbers = count()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        store = QuadStore.open(place / "quads")
        store._store.bulk_extend(quads(numbers, size))
        began = time.monotonic()
        store.copy(place / "copy")
        print(f"copy of {size} quads: {(time.monotonic() - began) * 1000:.1f} ms")
        for share in (1.0, 0.1):
            # The log line of the scrub says cpu_s and wall_s.
            Scrubber(store, place / "scrub", Health(), period=0, share=share).scrub()
        for turn in range(2):
            print(f"turn {turn}:")
            ended = threading.Event()
            threading.Timer(SECONDS, ended.set).start()
            print(f"   apply alone: {apply_for(store, numbers, ended):.0f} effects/s")
            for share in (0.1, 1.0):
                rate = with_scrub(store, place, numbers, share, most=SECONDS)
                print(f"   apply beside a scrub with a share of {share:g}: {rate:.0f} effects/s")
        store.close()


if __name__ == "__main__":
    main()
