"""Run a program that dies with the process that started it, even by SIGKILL.

This file is also a script, run by a bare Python in front of every child:

    python -I -S leash.py PARENT-PID PROGRAM ARGS...

On Linux it asks the kernel to send SIGKILL to the child when its parent goes
(``PR_SET_PDEATHSIG`` outlives `exec`), checks that the parent was not gone before, and
becomes the program: same pid.  The kernel takes "parent" to be the *thread* that forked, so
whoever starts leashed programs must do it from its main thread.

Elsewhere (macOS) a small guard process looks twice a second whether the parent still lives.

A script in front instead of `preexec_fn`, because Python code between fork and exec can
deadlock in a process with threads, and confluent-kafka brings threads.
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
    """Return `command` with the leash to the calling process in front of it."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _tie_to_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel was asked
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        _fork_guard(parent)


def _fork_guard(parent: int) -> None:
    """Leave behind a process that kills this one when `parent` is gone."""
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
    _tie_to_parent(int(sys.argv[1]))
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  our own caller chose the program
    except OSError as error:
        sys.exit(f"{sys.argv[2]} cannot be started: {error.strerror}")
