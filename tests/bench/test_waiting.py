"""What a transaction costs follows what is new, not what waits.  Figures: `python -m tests.bench.waiting`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.waits

FEW = 100
RATIO = 1.2
TRIES = 5


IN_MEMORY = {"TMPDIR": "/dev/shm"} if Path("/dev/shm").is_dir() else {}  # noqa: S108  a folder of its own is made there
"""CPU is what is measured: on a disk, four fifths of the time would be waiting for its syncs."""


def measured(*arguments: str | int) -> list[float]:
    """The figures that a process of its own prints, so that neither's garbage is the other's."""
    command = [sys.executable, "-m", "tests.bench.waiting", *map(str, arguments)]
    environment = os.environ | IN_MEMORY
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=environment
    ).stdout
    print(said, end="")
    return [float(figure) for figure in re.findall(r"[\d.]+", said.splitlines()[-1])]


@pytest.mark.long("runs in turns, each of some seconds, so that noise is not what is compared")
@pytest.mark.parametrize("many", [8_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_transaction_costs_the_same_behind_a_long_queue(many: int) -> None:
    """Runs in turns, each with the one beside it: the machine is not the same from minute to minute."""
    few, behind = [], []
    for _ in range(TRIES):
        few.append(measured("cpu", FEW))
        behind.append(measured("cpu", many))
        ratio = median(long[0] / short[0] for long, short in zip(behind, few, strict=True))
        if len(few) > 1 and ratio <= RATIO:
            break
    print(f"{many} waiting cost {ratio:.2f} times what {FEW} do")
    assert ratio <= RATIO
    # A pair is 57 bytes; it is said when it is posted, and when it leads up to a merge base.
    assert behind[0][1] < 150
    assert behind[0][1] < few[0][1] * RATIO


@pytest.mark.parametrize("waiting", [4_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_transaction_that_waits_takes_less_than_a_kilobyte(waiting: int) -> None:
    assert measured("memory", waiting)[0] < 1000
