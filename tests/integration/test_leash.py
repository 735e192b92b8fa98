"""A leashed process dies with the one that started it, by the kernel's help or by a guard's."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadlog import leash

PARENT = """
import os, subprocess, sys, time
as_on = f"import sys; sys.platform = {sys.argv[1]!r}; sys.argv = ['leash', '{os.getpid()}', 'sleep', '60']; "
run = f"exec(open({sys.argv[2]!r}).read(), {{'__name__': '__main__'}})"
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", as_on + run])
print(child.pid, flush=True)
time.sleep(60)
"""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_child_follows_its_parent(platform: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, platform, leash.__file__], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        deadline = time.monotonic() + 10
        while not _command(child).startswith("sleep"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        parent.kill()
    while _command(child):
        assert time.monotonic() < deadline, "it outlived its parent"
        time.sleep(0.05)
