"""One process of the lab: its start, its state, and signals to it."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadlog.errors import QuadlogError, SetupError
from quadlog.kafka.ports import is_free
from quadlog.lab.forked import ForkedNode
from quadlog.lab.processes import is_suspended
from quadlog.leash import leashed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from quadlog.lab.shape import LabNode

POLL = 0.05
PROBE_S = 0.1
"""Seconds between two probes of a process that starts; with shorter pauses, the probes take its CPU."""
LAST_LINES = 15


@dataclass(slots=True, kw_only=True)
class Child:
    """A process that the lab starts, and restarts on request.

    `commands` returns the commands to run: the last one is the process itself; those before it (a broker's format step)
    must end first.
    """

    node: LabNode
    address: str
    ports: tuple[int, ...]
    commands: Callable[[], list[list[str]]]
    is_forked: bool = False
    """True if its command consists of the arguments of `quadlog`, which a fork runs: see `forked`."""
    probe: Callable[[], Awaitable[bool]]
    """Returns whether it does all that it is there for."""
    probe_alone: Callable[[], Awaitable[bool]]
    """Returns whether it serves, as far as it can while other processes of the lab may be down."""
    log: Path
    environment: Mapping[str, str]
    popen: subprocess.Popen[bytes] | ForkedNode | None = None
    expected: bool = False
    """True if its end was requested, so that it is not reported as a failure."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def pid(self) -> int | None:
        """Pid of the running process, or of the last one."""
        return self.popen.pid if self.popen else None

    @property
    def is_alive(self) -> bool:
        """True if the process is running or suspended."""
        return self.popen is not None and self.popen.poll() is None

    @property
    def state(self) -> str:
        """`not started`, `running`, `stopped` (SIGSTOP) or `exited(code)`, -9 for SIGKILL."""
        if self.popen is None:
            return "not started"
        code = self.popen.poll()
        if code is not None:
            return f"exited({code})"
        return "stopped" if is_suspended(self.popen.pid) else "running"

    async def start(self, environment: Mapping[str, str] | None = None) -> float:
        """Start the process and wait until it is ready; return the seconds that this took.

        `environment`: additional variables, for this start only; None: those of all starts of the lab.

        Raises:
            SetupError: the process died, or one of its ports is taken.

        """
        async with self.starting:
            began = time.monotonic()
            taken = [port for port in self.ports if not is_free(port)]
            if taken:
                reason = f"another program listens on its port {taken[0]}: stop it"
                raise SetupError(f"{self.node.id} cannot start, {reason}")
            *first, last = self.commands()
            for command in first:
                self._spawn(command, environment)
                await self.gone()
                if self.popen is None or self.popen.poll() != 0:
                    raise self.died("while its storage was formatted")
            self._spawn(last, environment)
            probe = self.probe if environment is None else self.probe_alone
            while self.is_alive and not await probe():  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(PROBE_S)
            if not self.is_alive:  # then another program answered the probe
                raise self.died("during start")
            return time.monotonic() - began

    def _spawn(self, command: list[str], environment: Mapping[str, str] | None) -> None:
        """Fork in this thread, which must be the main one: see `leash`."""
        self.expected = False
        variables = {**self.environment, **(environment or {})}
        if self.is_forked:
            self.popen = ForkedNode(command, log=self.log, environment=variables)
            return
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(  # noqa: S603  our own command
                leashed(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,  # Ctrl-C on the terminal reaches only the lab
            )

    def died(self, when: str) -> QuadlogError:
        """Return the error that the process died, with the end of its log."""
        last = "\n  ".join(last_lines(self.log))
        message = f"{self.node.id} died {when}: {self.state}. The last lines of its log {self.log}:\n  {last}"
        return SetupError(message)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; SIGKILL goes to its whole process group."""
        if self.popen is None or self.popen.poll() is not None:
            return
        if number in {signal.SIGTERM, signal.SIGKILL}:
            self.expected = True
        with suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                with suppress(ProcessLookupError):  # a fork that has no group of its own yet
                    os.killpg(self.popen.pid, number)
            self.popen.send_signal(number)

    async def gone(self, within: float = math.inf) -> bool:
        """Wait at most `within` seconds for the end of the process; return whether it has ended."""
        deadline = time.monotonic() + within
        while self.is_alive and time.monotonic() < deadline:  # noqa: ASYNC110  nor of its end
            await asyncio.sleep(POLL)
        return not self.is_alive


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """Return the last lines of a log that are not empty, from at most its last 64 KiB."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 65536))
            text = file.read().decode(errors="replace")
    except OSError:
        return ["(no log)"]
    return [line[:300] for line in text.splitlines() if line.strip()][-count:] or ["(empty)"]
