"""What masters and workers import.  Only the fork server of a lab imports this module: see `forked`."""

from __future__ import annotations

import gc
import os
from importlib import import_module
from typing import Final

from quadlog.lean import starting
from quadlog.leash import tie_to_parent

MODULES: Final = (
    "quadlog.cli",
    "quadlog.master.muted.process",
    "quadlog.master.process",
    "quadlog.worker.process",
)

with starting():
    for name in MODULES:
        import_module(name)

gc.freeze()
SERVER: Final = os.getpid()
"""Process that forks: each fork dies with it."""
tie_to_parent(os.getppid())  # forks keep its pipe to the lab open: it would not notice that the lab is gone
