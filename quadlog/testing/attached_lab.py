"""Client of a lab that takes commands from its stdin (`quadlog lab up --attached`), wherever it runs.

A lab ends when its stdin ends.  So it ends with the process of this client, however that ends.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from quadlog.errors import SetupError, error_named
from quadlog.lab.child import last_lines
from quadlog.lab.control import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

STOP_TIMEOUT: Final = 30.0
"""Seconds between the end of a lab's stdin and SIGKILL; a lab needs at most 10."""


def lab_arguments(
    *, dcs: int, masters: int, workers: int, settings: Mapping[str, object] | None
) -> list[str]:
    """Return the options of `quadlog lab up` for a cluster.

    >>> lab_arguments(dcs=1, masters=1, workers=2, settings={"max-peer-lag": 2})
    ['--dcs', '1', '--masters', '1', '--workers', '2', '--set', 'max-peer-lag=2']
    """
    shape = ["--dcs", str(dcs), "--masters", str(masters), "--workers", str(workers)]
    return [
        *shape,
        *(word for name, value in (settings or {}).items() for word in ("--set", f"{name}={value}")),
    ]


class LabStreams(Protocol):
    """Stdin, stdout and stderr of a lab."""

    def send(self, data: bytes) -> None:
        """Write to stdin; raises OSError if the lab has ended."""
        ...

    def receive(self, timeout: float) -> bytes:
        """Return the next bytes of stdout; empty at its end.

        Raises:
            TimeoutError: nothing arrived within `timeout` seconds.

        """
        ...

    def last_errors(self) -> str:
        """Return the last lines of stderr."""
        ...


class AttachedLab:
    """A lab that executes one command at a time; threads may share it."""

    def __init__(self, streams: LabStreams) -> None:
        self._streams = streams
        self._turn = Lock()
        self._received = b""
        self._waits = False
        """True from a request to its answer: if nobody takes it, it would be taken for the next one's."""

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a command of `quadlog.lab.supervisor`, and return the answer.

        Raises:
            SetupError: the lab has ended, did not answer, or was asked before and interrupted.
            QuadlogError: the error that the lab answered.

        """
        with self._turn:
            if self._waits:
                raise SetupError(
                    "an earlier request to the lab was interrupted: close this cluster, open another one"
                )
            self._waits = True
            try:
                self._streams.send(json.dumps(request).encode() + b"\n")
                line = self._line(time.monotonic() + TIMEOUT)
            except TimeoutError:
                raise SetupError(f"the lab did not answer {request} within {TIMEOUT:.0f} s: end it") from None
            except OSError:
                line = b""
            self._waits = False
        if not line:
            raise SetupError(f"the lab ended; the last lines of what it said:\n{self._streams.last_errors()}")
        reply: dict[str, Any] = json.loads(line)
        if not reply["ok"]:
            raise error_named(reply["error"])(reply["message"])
        return reply

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._received:
            piece = self._streams.receive(max(0.0, deadline - time.monotonic()))
            if not piece:
                return b""
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line


class LabProcess:
    """A lab as a process on this machine, with its data in a temporary directory."""

    def __init__(self, arguments: list[str]) -> None:
        """Start `quadlog lab up` with these arguments; do not wait until it serves."""
        self._errors = tempfile.NamedTemporaryFile(prefix="quadlog-testing-")  # noqa: SIM115  until `close`
        self._process = subprocess.Popen(  # noqa: S603  our own command
            [sys.executable, "-m", "quadlog", "lab", "up", "--attached", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONSAFEPATH": "1"},  # the tests' directory may have a `schemas` of its own
            start_new_session=True,  # Ctrl-C on the terminal reaches only the tests, which end it
        )

    def send(self, data: bytes) -> None:
        """Write to stdin."""
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def receive(self, timeout: float) -> bytes:
        """Return the next bytes of stdout."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            raise TimeoutError
        return os.read(self._process.stdout.fileno(), 65536)

    def last_errors(self) -> str:
        """Return the last lines of stderr."""
        return "\n".join(last_lines(Path(self._errors.name)))

    def close(self) -> None:
        """End the lab, and wait until none of its processes and files is left."""
        with self._process as process, self._errors:
            assert process.stdin
            with suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
