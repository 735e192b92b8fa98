"""What a lab's processes took from the machine, by /proc."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quadlog.lab import processes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def lab_of(pid: int) -> str:
    """The id of the lab that a process belongs to."""
    mark = f"{processes.LAB_ID}=".encode()
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(one for one in variables if one.startswith(mark)).removeprefix(mark).decode()


def kind_of(command: Sequence[str]) -> str:
    """What a process is, by its command line.

    >>> kind_of(["python", "-m", "quadlog", "master", "--config", "x"]), kind_of(["/usr/bin/java", "kafka"])
    ('masters', 'brokers')
    >>> kind_of(["python", "-m", "quadlog", "lab", "up"])
    'lab'
    """
    if "java" in Path(command[0]).name:
        return "brokers"
    word = next((after for at, after in itertools.pairwise(command) if at == "quadlog"), "other")
    return f"{word}s" if word in {"master", "worker", "link"} else word


def cpu_s(lab_id: str) -> Mapping[int, tuple[str, float]]:
    """Kind and seconds of CPU up to now, of every process of a lab."""
    found: dict[int, tuple[str, float]] = {}
    for pid in processes.of_lab(lab_id):
        with suppress(OSError, IndexError):  # it may just have ended
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            found[pid] = kind_of(command), (int(fields[11]) + int(fields[12])) * TICK_S
    return found


def spent_between(
    before: Mapping[int, tuple[str, float]], after: Mapping[int, tuple[str, float]]
) -> Counter[str]:
    """Seconds of CPU by kind of process.

    >>> spent_between({1: ("masters", 1.0)}, {1: ("masters", 1.5), 2: ("masters", 0.25)})
    Counter({'masters': 0.75})
    """
    spent: Counter[str] = Counter()
    for pid, (kind, seconds) in after.items():
        spent[kind] += seconds - before.get(pid, (kind, 0.0))[1]  # type: ignore[assignment]  # seconds are no integers
    return spent
