"""State of processes, and the processes of a lab, as the operating system reports them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

LAB_ID = "QUADLOG_LAB_ID"
"""Variable in the environment of every process of a lab."""


def of_lab(lab_id: str) -> list[int]:
    """Return the pids of a lab's processes, according to /proc; none on systems without it.

    Dead processes that have not been waited for yet have no environment, and are not included.
    """
    mark = f"{LAB_ID}={lab_id}".encode()
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def wait_until_gone(lab_id: str, timeout: float) -> list[int]:
    """Wait at most `timeout` seconds for the end of a lab's processes; return those that still run."""
    deadline = time.monotonic() + timeout
    while left := of_lab(lab_id):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.1)
    return []


def kill_all(lab_id: str) -> None:
    """Kill all remaining processes of a lab, including grandchildren."""
    for pid in of_lab(lab_id):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def is_suspended(pid: int) -> bool:
    """Return whether a process is stopped by SIGSTOP; False on systems without /proc."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"
    return False
