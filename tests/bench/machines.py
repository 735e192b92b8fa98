"""What a lab's processes took from the machine, by /proc."""

from __future__ import annotations

import itertools
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quadlog.lab import forked, processes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Spent:
    """What one thread took."""

    process: str
    thread: str
    seconds: float


TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def lab_of(pid: int) -> str:
    """The id of the lab that a process belongs to."""
    mark = f"{processes.LAB_ID}=".encode()
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(one for one in variables if one.startswith(mark)).removeprefix(mark).decode()


def kind_of(command: Sequence[str], name: str = "") -> str:
    """What a process is, by its command line, and its name in `top` if it is a fork.

    >>> kind_of(["python", "-m", "quadlog", "master", "--config", "x"]), kind_of(["/usr/bin/java", "kafka"])
    ('masters', 'brokers')
    >>> kind_of(["python", "-m", "quadlog", "lab", "up"])
    'lab'
    >>> kind_of(["python", "-m", "quadlog.worker.reads.reader_process", "/copies/1"])
    'readers'
    >>> kind_of(["python", "-c", "from multiprocessing.forkserver import main"], "quadlog-worker")
    'workers'
    """
    if name.startswith(forked.NAME):
        return f"{name.removeprefix(forked.NAME)}s"
    if "java" in Path(command[0]).name:
        return "brokers"
    if "quadlog.worker.reads.reader_process" in command:
        return "readers"
    word = next((after for at, after in itertools.pairwise(command) if at == "quadlog"), "other")
    return f"{word}s" if word in {"master", "worker", "link"} else word


def thread_of(comm: str, *, is_main: bool) -> str:
    """What a thread is for, by the name that the kernel has for it.

    >>> thread_of("tail-dc1-m1-rea", is_main=False), thread_of("rdk:broker2", is_main=False)
    ('tail', 'rdk')
    >>> thread_of("python", is_main=True)
    'main'
    """
    return "main" if is_main else re.split(r"[^A-Za-z]", comm.strip())[0]


def cpu_s(lab_id: str) -> dict[tuple[int, int], Spent]:
    """Seconds of CPU up to now of every thread of a lab, by pid and thread id."""
    found: dict[tuple[int, int], Spent] = {}
    for pid in processes.of_lab(lab_id):
        with suppress(OSError, IndexError):  # it may just have ended
            command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            kind = kind_of(command, Path(f"/proc/{pid}/comm").read_text().strip())
            whole = _seconds(Path(f"/proc/{pid}/stat"))
            for task in Path(f"/proc/{pid}/task").iterdir():
                tid, seconds = int(task.name), _seconds(task / "stat")
                name = thread_of((task / "comm").read_text(), is_main=tid == pid)
                found[pid, tid] = Spent(kind, name, seconds)
                whole -= seconds
            found[pid, 0] = Spent(kind, "ended", whole)  # threads that are gone
    return found


def _seconds(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def spent_between(
    before: Mapping[tuple[int, int], Spent], after: Mapping[tuple[int, int], Spent]
) -> dict[tuple[str, str], float]:
    """Seconds of CPU by kind of process and of thread.

    >>> spent_between({(1, 1): Spent("masters", "node", 1.0)}, {(1, 1): Spent("masters", "node", 1.5)})
    {('masters', 'node'): 0.5}
    """
    spent: dict[tuple[str, str], float] = {}
    for at, one in after.items():
        kind = (one.process, one.thread)
        earlier = before[at].seconds if at in before else 0.0
        spent[kind] = spent.get(kind, 0.0) + one.seconds - earlier
    return spent


def by_process(spent: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """The same by kind of process only.

    >>> by_process({("masters", "node"): 1.0, ("masters", "main"): 0.5})
    {'masters': 1.5}
    """
    kinds = sorted({process for process, _ in spent})
    return {kind: sum(s for (process, _), s in spent.items() if process == kind) for kind in kinds}
