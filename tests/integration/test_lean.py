"""What processes start without."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAN = """
import sys, {module}

sys.exit(", ".join({{"structlog", "httpx", "rich", "rdflib"}} & {{*sys.modules}}) or None)
"""
NODE = """
import sys
from quadlog.lean import starting

with starting():
    import quadlog.{node}.process
sys.exit("rich" in sys.modules or "rdflib" in sys.modules)
"""


@pytest.mark.parametrize("module", ["quadlog.worker.reads.reader_process", "quadlog.worker.repair.recount"])
def test_what_says_and_asks_nothing_has_nothing_for_it(module: str) -> None:
    """There is one for each copy of a store, and clients wait for it."""
    done = subprocess.run(
        [sys.executable, "-c", LEAN.format(module=module)], stderr=subprocess.PIPE, check=False, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("node", ["master", "worker"])
def test_a_node_has_nothing_for_terminals(node: str) -> None:
    assert subprocess.run([sys.executable, "-c", NODE.format(node=node)], check=False).returncode == 0
