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
from pathlib import Path
from typing import Any, Final

from quadlog.core.effects.signature import render
from quadlog.quadstore.store_reader import StoreReader

NICENESS: Final = 10
"""Niceness of the process: all other work on the core has priority."""


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
    """Count, and write the result and the time that it took; or why a part of the copy cannot be read."""
    os.nice(NICENESS)
    began = time.monotonic()
    store, said = StoreReader.read_copy(Path(copy)), dict[str, Any](unreadable="")
    try:
        signature, said["quads"] = store.recount(ScrubPace(float(share)).pause)
        said["signature"] = render(signature)
    except (OSError, RuntimeError) as error:  # raised by pyoxigraph for a block whose checksum is wrong
        said["unreadable"] = str(error)
    said["cpu_s"] = round(time.process_time(), 3)
    said["wall_s"] = round(time.monotonic() - began, 3)
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
