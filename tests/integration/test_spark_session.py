"""A session of Spark's, from Java's start to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.labs import QUICK_JAVA

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS = """
import json, os, sys
from pathlib import Path
from pyspark import SparkContext
from quadlog.replay.spark import SparkSettings, session

def child():
    return SparkContext._gateway.proc.pid

found = []
for memory in (512, 640):
    scratch = Path(sys.argv[1]) / f"scratch of {memory}"
    scratch.mkdir()
    settings = SparkSettings(memory_mb=memory, scratch=scratch)
    with session(settings, lambda text: print(text, file=sys.stderr)) as spark:
        pid = child()
        assert spark._jvm.java.lang.System.getProperty("java.io.tmpdir") == str(scratch)
        assert [*scratch.glob("blockmgr-*")]
        assert spark.range(5).count() == 5
        heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory() // 2**20
        found.append((heap, Path(f"/proc/{pid}").exists()))
    found.append((heap, Path(f"/proc/{pid}").exists()))
print(json.dumps(found))
"""
"""Two of them, one after the other; what Java has for its heap, in MiB, and whether it is there."""

KILLED = """
import os, signal, sys
from pyspark import SparkContext
from quadlog.errors import SparkFailed
from quadlog.replay.spark import SparkSettings, session, told

try:
    with session(SparkSettings(), lambda text: None) as spark, told("there is no bundle"):
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        spark.range(5).count()
except SparkFailed as error:
    print(error)
"""


def test_a_death_of_java_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """By whoever needs memory, say; and not by a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | QUICK_JAVA,
    )
    assert done.returncode == 0, capfd.readouterr().err
    assert done.stdout.startswith("a job of Spark failed, and there is no bundle: ")


@pytest.mark.long("two sessions of Spark of its own")
def test_java_ends_with_it_and_begins_as_it_is_told(tmp_path: Path) -> None:
    """Its memory is others' then, and the next one has a heap and a scratch directory of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SESSIONS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | QUICK_JAVA,
    )
    assert done.returncode == 0, done.stderr
    (small, *alive), (_, *dead), (large, *again), (_, *gone) = json.loads(done.stdout.splitlines()[-1])
    assert (alive, dead, again, gone) == ([True], [False], [True], [False])
    assert small < 512 < large < 640
