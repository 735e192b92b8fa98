"""The machine beside a cluster: it may stand still itself, and who waited then did not wait for the cluster."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

PAUSE_S = 0.05
STALL_S = 0.25
"""What a few synced bytes may take, and the thread that writes them to be woken up, beside a cluster on two cores."""


class Machine:
    """Writes a few bytes and syncs them, again and again, in a thread, and notes when that took long.

    A disk that others fill makes a synced write take seconds; then brokers are fenced that lack nothing else.
    """

    def __init__(self, directory: Path) -> None:
        """On the disk of this directory."""
        self._file = directory / "machine"
        self._stalls: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        self._thread.join()
        self._file.unlink()

    def stood_still_s(self, since: float, until: float) -> float:
        """How long, between two moments of `time.monotonic`."""
        return sum(max(0.0, min(end, until) - max(began, since)) for began, end in self._stalls)

    def _run(self) -> None:
        with self._file.open("wb") as file:
            while not self._ended.is_set():
                began = time.monotonic()
                self._ended.wait(PAUSE_S)
                file.write(b"here")
                file.flush()
                os.fsync(file.fileno())
                end = time.monotonic()
                if end - began > STALL_S + PAUSE_S:
                    self._stalls.append((began, end))
