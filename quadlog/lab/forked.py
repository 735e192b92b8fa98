"""Masters and workers as forks of one process, the fork server, which has imported their modules.

The imports take half a second of CPU, a fork a hundredth of it, and what is imported is in memory once.  Apart from
that, a fork runs `python -m quadlog` as a new process would: it has its own session, environment, log and leash.
The hashes of strings have the same seed in all forks; with `--node-command`, each node is a new process.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.leash import tie_to_parent

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

PRELOADED: Final = "quadlog.lab.preloaded"
"""Module that the fork server imports."""
NAME: Final = "quadlog-"
"""Of a fork in `top`, in front of `master` or `worker`."""
_FORKS: Final = multiprocessing.get_context("forkserver")


def prepare() -> None:
    """Start the fork server, which imports the modules while other processes start."""
    _FORKS.set_forkserver_preload([PRELOADED])
    forkserver.ensure_running()


class ForkedNode:
    """A running node, with the part of the interface of `subprocess.Popen` that a lab uses."""

    def __init__(self, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        """Run `quadlog` with these arguments; its output is appended to `log`."""
        self._process = _FORKS.Process(target=_run, args=([*arguments], str(log), {**environment}))
        self._process.start()
        assert self._process.pid is not None, "it is started"
        self.pid: Final[int] = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, or minus the number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    """Become the node: called in the fork."""
    os.setsid()
    tie_to_parent(sys.modules[PRELOADED].SERVER)
    for path, flags, own in (
        (os.devnull, os.O_RDONLY, (0,)),
        (log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, (1, 2)),
    ):
        opened = os.open(path, flags, 0o666)
        for descriptor in own:
            os.dup2(opened, descriptor)
        os.close(opened)
    with suppress(OSError):  # there is no /proc
        Path("/proc/self/comm").write_text(f"{NAME}{arguments[0]}")
    os.environ.clear()
    os.environ.update(environment)
    command = ["-m", "quadlog", *arguments]
    sys.argv[:] = command[1:]
    sys.orig_argv[:] = [sys.executable, *command]  # a worker that starts anew runs its command again
    runpy.run_module("quadlog", run_name="__main__")
