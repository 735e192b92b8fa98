"""How fast this machine is.

    python -m tests.support.speed

ends with status 0 where it is fast enough for two processes of tests with clusters at once.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Final

REFERENCE_S: Final = 0.014
"""CPU seconds of `_reference` on a fast machine."""

TWO_CLUSTERS: Final = 1.5
"""Slower than that by this factor, two clusters and what computes leave each other too little of two cores."""


@cache
def slowness() -> float:
    """How much more CPU this machine takes for the same; at least 1."""
    return max(1.0, min(_reference() for _ in range(5)) / REFERENCE_S)


def _reference() -> float:
    began, total = time.thread_time(), 0
    for number in range(300_000):
        total += number * number % 7
    return time.thread_time() - began


if __name__ == "__main__":
    print(f"this machine takes {slowness():.1f} times the CPU of a fast one")
    sys.exit(slowness() > TWO_CLUSTERS)
