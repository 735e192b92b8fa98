"""Real processes for tests: one broker, or a whole lab through its command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from quadlog.kafka.broker_process import BrokerProcess, is_serving, until
from quadlog.kafka.ports import free_ports
from quadlog.kafka.prepare import prepare
from quadlog.lab import processes
from quadlog.lab.control import ask
from quadlog.leash import leashed
from tests.support.record import STARTS

if TYPE_CHECKING:
    from collections.abc import Generator

BOUND = 10.0
"""Seconds after which nothing of a stopped or killed lab may be left."""

STAND_IN = f"{sys.executable} {Path(__file__).with_name('stand_in.py')}"
"""For `node_command`: processes that only answer 200, to test the lab without masters and workers."""
NEW_PROCESSES = f"{sys.executable} -m quadlog"
"""For `node_command`: each node is a new process, as an operator starts it, with a seed for hashes of its own."""
SCALED = {"QUADLOG_IDLE_ROUND": "0.5", "QUADLOG_SPLIT_REPORTS": "0"}
"""Settings that make a cluster's own seconds shorter, and that start no Spark after each split; tests that prove the
defaults give them again."""
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Environment in which Java compiles everything at once, and nothing twice: jobs of tests are over before that pays."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Options of a session in which Spark compiles no query: those of tests are over before that pays.  On a cluster, in
commands and in `make soak`, Spark runs as users have it."""
READY_TIMEOUT = 180.0
"""The lab's own limit is 120 s, and the first one on a machine downloads Kafka."""


@dataclass
class RunningBroker:
    """A single real broker."""

    process: BrokerProcess
    popen: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """What a client connects to."""
        return self.process.bootstrap

    def start(self) -> None:
        """Format where needed, start, wait until it serves."""
        self.process.write_files()
        if not self.process.is_formatted:
            subprocess.run(leashed(self.process.format_command()), check=True, stdout=subprocess.DEVNULL)
        self.popen = subprocess.Popen(leashed(self.process.run_command()))
        until(lambda: is_serving(self.bootstrap), 60)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal that ends it, wait for its end."""
        assert self.popen is not None
        self.popen.send_signal(number)
        self.popen.wait(20)


@contextmanager
def running_broker(directory: Path) -> Generator[RunningBroker]:
    """Run one broker with its data in `directory`."""
    port, controller_port = free_ports(2)
    broker = RunningBroker(
        BrokerProcess(
            installation=prepare(print),
            directory=directory,
            log=directory / "broker.log",
            port=port,
            controller_port=controller_port,
        )
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@dataclass
class RunningLab:
    """A lab that `quadlog lab up` runs in another process."""

    directory: Path
    popen: subprocess.Popen[str]
    ready: Path
    output: Path
    brokers: RunningLab | None = None
    """The lab whose brokers it uses, if it has none of its own."""

    @property
    def data(self) -> dict[str, Any]:
        """What the READY file says now."""
        read: dict[str, Any] = json.loads(self.ready.read_text())
        return read

    @property
    def dcs(self) -> list[dict[str, Any]]:
        """The data centres of the READY file."""
        found: list[dict[str, Any]] = self.data["dcs"]
        return found

    @property
    def repository(self) -> str:
        """Its name, which its topics carry."""
        name: str = self.data["repository"]
        return name

    def topic(self, dc: str, name: str) -> str:
        """The full name of a data centre's `agreed`, `effects` and so on."""
        return f"{self.repository}.{dc}.{name}"

    @property
    def masters(self) -> list[dict[str, Any]]:
        """Every master: id, url, pid."""
        return [master for dc in self.dcs for master in dc["masters"]]

    @property
    def workers(self) -> list[dict[str, Any]]:
        """Every worker: id, url, pid."""
        return [worker for dc in self.dcs for worker in dc["workers"]]

    @property
    def lab_id(self) -> str:
        """What every process carries in its environment."""
        identity: str = json.loads((self.directory / "lab.json").read_text())["lab_id"]
        return identity

    def pids(self) -> list[int]:
        """Return the pids of this lab's processes, from a scan of /proc."""
        return processes.of_lab(self.lab_id)

    # What `quadlog lab` asks of the lab, asked without a Python to be started for every question: it
    # would take CPU from those whose time is measured.  The commands themselves: `test_lab.py`.

    def kill(self, node_id: str, name: str = "KILL") -> str:
        """As `quadlog lab kill`; what ends by it has ended."""
        said: str = ask(self._directory_of(node_id), {"do": "kill", "id": node_id, "signal": name})["message"]
        return said

    def start(self, node_id: str, **environment: str) -> str:
        """As `quadlog lab start`; returns when that process is ready."""
        settings = [f"{name}={value}" for name, value in environment.items()]
        if node_id.startswith("broker-"):
            STARTS.update({"brokers": 1, "JVMs": 1})
        asked = {"do": "start", "id": node_id, "environment": settings}
        said: str = ask(self._directory_of(node_id), asked)["message"]
        return said

    def states(self) -> dict[str, str]:
        """What `quadlog lab status` shows: `running`, `stopped` or `exited(code)`, by id."""
        own = {node["id"]: node["state"] for node in ask(self.directory, {"do": "status"})["nodes"]}
        return {**(self.brokers.states() if self.brokers else {}), **own}

    def _directory_of(self, node_id: str) -> Path:
        """Of the lab that started it."""
        return self.brokers.directory if self.brokers and node_id.startswith("broker-") else self.directory

    def node(self, node_id: str) -> Path:
        """Directory of a node."""
        return self._directory_of(node_id) / "nodes" / node_id

    def exited(self, node_id: str) -> bool:
        """Whether it was killed, or died as if it had been."""
        return self.states()[node_id] == "exited(-9)"

    def status(self) -> str:
        """`quadlog lab status`."""
        return quadlog("lab", "status", "--dir", str(self.directory)).stdout

    def links(self, *arguments: str) -> str:
        """`quadlog lab cut`, `heal` or `link`; what it says."""
        done = quadlog("lab", *arguments, "--dir", str(self.directory))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait_ready(self) -> None:
        """Wait for the READY file; fail with what the lab said where it ends instead."""
        deadline = time.monotonic() + READY_TIMEOUT
        while not self.ready.exists():
            if self.popen.poll() is not None or time.monotonic() > deadline:
                message = f"the lab is not ready ({self.popen.poll()}): {self.output.read_text()}"
                raise AssertionError(message)
            time.sleep(0.05)
        brokers = len(list((self.directory / "nodes").glob("broker-*")))
        STARTS.update({"brokers": brokers, "JVMs": 2 * brokers})  # each formats its directory first

    def stop(self) -> int:
        """Stop it as an operator does; return the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(20)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise


class Shape(TypedDict, total=False):
    """What a lab is asked to be; what is not said is as `quadlog lab up` has it."""

    dcs: int
    masters: int
    workers: int
    shared_broker: bool
    secured: bool
    outside: int
    read_only: int
    muted: int
    node_command: str
    environment: dict[str, str]
    brokers: Path
    repository: str
    settings: list[str]
    """NAME=VALUE."""


def start_lab(directory: Path, **shape: Unpack[Shape]) -> RunningLab:
    """Run `quadlog lab up` with its data in `directory`; do not wait for it."""
    ready = directory.with_name(f"{directory.name}.ready.json")
    output = directory.with_name(f"{directory.name}.output")
    ready.unlink(missing_ok=True)
    names = (
        "dcs",
        "masters",
        "workers",
        "outside",
        "read_only",
        "muted",
        "node_command",
        "brokers",
        "repository",
    )
    asked = {f"--{name.replace('_', '-')}": shape.get(name) for name in names}
    options = [text for name, value in asked.items() if value is not None for text in (name, str(value))]
    options += [text for setting in shape.get("settings", ()) for text in ("--set", setting)]
    options += ["--shared-broker"] * shape.get("shared_broker", False)
    options += ["--secured"] * shape.get("secured", False)
    command = [sys.executable, "-m", "quadlog", "lab", "up", "--dir", str(directory), "--ready", str(ready)]
    with output.open("w") as out:
        popen = subprocess.Popen(
            [*command, *options],
            stdout=out,
            stderr=out,
            text=True,
            env={**os.environ, **SCALED, **shape.get("environment", {})},
        )
    return RunningLab(directory=directory, popen=popen, ready=ready, output=output)


@contextmanager
def running_lab(directory: Path, **shape: Unpack[Shape]) -> Generator[RunningLab]:
    """Run a lab with brokers of its own until the end of the block; every process serves when the block begins."""
    lab = start_lab(directory, **shape)
    try:
        lab.wait_ready()
        yield lab
    finally:
        lab.stop()


def quadlog(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run one `quadlog` command; the caller looks at its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "quadlog", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, **(environment or {})},
    )
