"""Restart of a worker: the same command under the same process id, without any state of the process before."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def begin_anew() -> NoReturn:
    """Replace this process by a new one; does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the command of this process
