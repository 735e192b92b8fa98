"""Process of the scrub: recounts the signature of a copy of a store, slowly.

    python -m quadlog.worker.repair.recount COPY SHARE

It writes one line of JSON.  It is a separate process because counting holds the GIL, which the serving process
needs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.core.effects.signature import LineCount, render
from quadlog.quadstore.store_reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK: Final = 2_000
"""Lines between two pauses: some 15 ms of work."""

NICENESS: Final = 10
"""Niceness of the process: all other work on the core has priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCount:
    """Result of a recount."""

    lines: LineCount
    unreadable: str = ""
    """Why the count ended early, if the rest of the store cannot be read."""


def recount(store: StoreReader, pause: Callable[[], None]) -> StoreCount:
    """Count all stored lines, with a pause after each chunk."""
    lines, unreadable = LineCount(), ""
    try:
        for number, line in enumerate(store.lines(), 1):
            lines.add([line.encode()])
            if number % CHUNK == 0:
                pause()
    except (OSError, RuntimeError) as error:  # raised by pyoxigraph for a block whose checksum is wrong
        unreadable = str(error)
    return StoreCount(lines=lines, unreadable=unreadable)


class ScrubPace:
    """Pauses that limit the process to a share of a core."""

    def __init__(self, share: float) -> None:
        """Limit the process to `share` of a core: above 0, up to 1."""
        self._rest = (1 - share) / share
        self._used = time.process_time()

    def pause(self) -> None:
        """Sleep for the CPU time that was used since the last pause, in proportion."""
        used = time.process_time()
        time.sleep((used - self._used) * self._rest)
        self._used = used


def main(copy: str, share: str) -> None:
    """Count, and write the result and the time that it took."""
    os.nice(NICENESS)
    began = time.monotonic()
    count = recount(StoreReader.read_copy(Path(copy)), ScrubPace(float(share)).pause)
    said = {
        "signature": render(count.lines.signature),
        "quads": count.lines.quads,
        "unreadable": count.unreadable,
        "cpu_s": round(time.process_time(), 3),
        "wall_s": round(time.monotonic() - began, 3),
    }
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
