"""What the operating system says about processes, and which belong to a lab."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

LAB_ID = "QUADLOG_LAB_ID"
"""In the environment of every process of a lab."""


def of_lab(lab_id: str) -> list[int]:
    """Return the pids of this lab's processes, as /proc shows them (elsewhere: none).

    Dead ones that nobody has waited for yet have no environment any more and do not count.
    """
    mark = f"{LAB_ID}={lab_id}".encode()
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def wait_until_gone(lab_id: str, timeout: float) -> list[int]:
    """Wait for this lab's processes to go; return those that did not."""
    deadline = time.monotonic() + timeout
    while left := of_lab(lab_id):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.1)
    return []


def kill_all(lab_id: str) -> None:
    """Kill whatever of this lab is left, grandchildren included."""
    for pid in of_lab(lab_id):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def is_suspended(pid: int) -> bool:
    """Tell whether the process was stopped with SIGSTOP; where there is no /proc: no."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"
    return False
