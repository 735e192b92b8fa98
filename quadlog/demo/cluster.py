"""Cluster of the demo: `quadlog lab up` in a separate process, which ends with this process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadlog.errors import QuadlogError, SetupError
from quadlog.lab.control import ask
from quadlog.leash import leashed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

POLL = 0.1
STOP_TIMEOUT = 60.0
"""Seconds that the lab has to stop; it needs three, and kills processes that do not end within ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoNode:
    """A master or a worker."""

    id: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoDataCentre:
    """A data centre: one broker, one master, two workers."""

    name: str
    kafka: str
    master: DemoNode
    workers: tuple[DemoNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCluster:
    """A running lab in which all masters and workers serve."""

    directory: Path
    dcs: tuple[DemoDataCentre, ...]
    lab: subprocess.Popen[bytes]

    @property
    def masters(self) -> tuple[DemoNode, ...]:
        """The master of each data centre."""
        return tuple(dc.master for dc in self.dcs)

    @property
    def workers(self) -> tuple[DemoNode, ...]:
        """All workers."""
        return tuple(worker for dc in self.dcs for worker in dc.workers)

    def kill(self, node: DemoNode) -> str:
        """Kill a process with SIGKILL; return the message of the lab."""
        return str(ask(self.directory, {"do": "kill", "id": node.id, "signal": "KILL"})["message"])

    def cut(self, one: str, other: str) -> None:
        """Cut the link between two data centres."""
        cut = {"do": "cut", "link": [one, other], "one_way": False}
        ask(self.directory, {"do": "links", "request": cut})

    def heal(self) -> None:
        """Restore all links."""
        ask(self.directory, {"do": "links", "request": {"do": "heal"}})

    def start(self, node: DemoNode) -> str:
        """Restart a process and wait until it serves; return the message of the lab."""
        return str(ask(self.directory, {"do": "start", "id": node.id})["message"])


@contextmanager
def running_cluster(directory: Path | None, say: Callable[[str], None]) -> Generator[DemoCluster]:
    """Run a lab until the end of the block; `say` is called with each line that the lab prints while it starts.

    If `directory` is None, the lab uses a temporary directory, which is removed at the end.  If an error
    ends the block, the logs are kept, and the error names their directory.

    Raises:
        SetupError: the lab did not start; none of its processes is left running.

    """
    with tempfile.TemporaryDirectory(prefix="quadlog-demo-") as name:
        place = Path(name)
        try:
            with _running_lab(place, directory or place / "lab", say) as cluster:
                yield cluster
        except QuadlogError as error:
            kept = _keep_logs(place, directory)
            raise type(error)(f"{error}\nThe logs are in {kept}") from error


@contextmanager
def _running_lab(place: Path, directory: Path, say: Callable[[str], None]) -> Generator[DemoCluster]:
    ready, output = place / "ready.json", place / "lab.log"
    shape = ("--dcs", "3", "--masters", "1", "--workers", "2")
    places = ("--dir", str(directory), "--ready", str(ready))
    command = [sys.executable, "-m", "quadlog", "lab", "up", *shape, *places]
    with output.open("wb") as log:
        lab = subprocess.Popen(  # noqa: S603 - our own program
            leashed(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C on the terminal reaches only the demo, which then ends the lab
        )
    try:
        _wait_until_ready(lab, ready, output, say)
        yield DemoCluster(directory=directory, dcs=_read(ready), lab=lab)
    finally:
        _stop(lab)


def _wait_until_ready(
    lab: subprocess.Popen[bytes], ready: Path, output: Path, say: Callable[[str], None]
) -> None:
    """Wait until the lab serves.  The lab has its own time limit, and its first start on a machine downloads Kafka."""
    said = 0
    while not ready.exists():
        ended = lab.poll() is not None
        lines = output.read_text(errors="replace").rpartition("\n")[0].splitlines()
        if ended:
            last = "\n  ".join(lines[-10:])
            raise SetupError(f"the lab did not start, its last words are\n  {last}")
        for line in lines[said:]:
            say(line)
        said = len(lines)
        time.sleep(POLL)


def _read(ready: Path) -> tuple[DemoDataCentre, ...]:
    def nodes(found: list[dict[str, Any]]) -> tuple[DemoNode, ...]:
        return tuple(DemoNode(id=node["id"], url=node["url"]) for node in found)

    return tuple(
        DemoDataCentre(
            name=dc["name"], kafka=dc["kafka"], master=nodes(dc["masters"])[0], workers=nodes(dc["workers"])
        )
        for dc in json.loads(ready.read_text())["dcs"]
    )


def _stop(lab: subprocess.Popen[bytes]) -> None:
    """Stop the lab, which stops its processes; if it must be killed, its processes die with it."""
    if lab.poll() is None:
        lab.send_signal(signal.SIGTERM)
    try:
        lab.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(lab.pid, signal.SIGKILL)
        lab.wait()


def _keep_logs(place: Path, directory: Path | None) -> Path:
    kept = Path(tempfile.mkdtemp(prefix="quadlog-demo-logs-"))
    shutil.copy(place / "lab.log", kept)
    logs = (directory or place / "lab") / "logs"
    if logs.is_dir():
        shutil.copytree(logs, kept, dirs_exist_ok=True)
    return kept
