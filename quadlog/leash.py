"""Run a program that dies with the process that started it, even if that is killed by SIGKILL.

This file is also a script, which a bare Python runs as the prefix of every child:

    python -I -S leash.py PARENT-PID PROGRAM ARGS...

On Linux, the script makes the kernel send SIGKILL to it when its parent dies (``PR_SET_PDEATHSIG``
persists across `exec`), checks that the parent has not died before, and replaces itself with the
program, under the same pid.  For the kernel, the "parent" is the *thread* that forked, so leashed
programs must be started from a thread that outlives them.

On other systems (macOS), a small guard process checks twice a second that the parent is alive.

A script is used instead of `preexec_fn`, because Python code between fork and exec can deadlock in a
process with threads, and confluent-kafka starts threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
GUARD_INTERVAL = 0.5


def leashed(command: list[str]) -> list[str]:
    """Return `command` with the leash to the calling process as its prefix."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def tie_to_parent(parent: int) -> None:
    """Let this process die with the one that started it, whose pid was `parent`."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        _fork_guard(parent)


def _fork_guard(parent: int) -> None:
    """Start a guard process that kills this process when `parent` is gone."""
    guarded = os.getpid()
    if os.fork() != 0:
        return
    while os.getppid() == guarded:
        with suppress(PermissionError):
            try:
                os.kill(parent, 0)
            except ProcessLookupError:
                os.kill(guarded, signal.SIGKILL)
                break
        time.sleep(GUARD_INTERVAL)
    os._exit(0)


if __name__ == "__main__":
    tie_to_parent(int(sys.argv[1]))
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  our own caller chose the program
    except OSError as error:
        sys.exit(f"{sys.argv[2]} cannot be started: {error.strerror}")
