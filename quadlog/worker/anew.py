"""A worker that begins anew: the same command under the same process id, and nothing of what it did before."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def begin_anew() -> NoReturn:
    """Replace this process by a fresh one; does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - what was started before
