"""A session of Spark's, from Java's start to its end."""

from __future__ import annotations

import json
import subprocess
import sys

SESSIONS = """
import json, os, sys
from pathlib import Path
from pyspark import SparkContext
from quadlog.spark import SparkSettings, session

def child():
    return SparkContext._gateway.proc.pid

found = []
for memory in (512, 640):
    with session(SparkSettings(memory_mb=memory), lambda text: print(text, file=sys.stderr)) as spark:
        pid = child()
        assert spark.range(5).count() == 5
        heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory() // 2**20
        found.append((heap, Path(f"/proc/{pid}").exists()))
    found.append((heap, Path(f"/proc/{pid}").exists()))
print(json.dumps(found))
"""
"""Two of them, one after the other; what Java has for its heap, in MiB, and whether it is there."""


def test_java_ends_with_it_and_begins_as_it_is_told() -> None:
    """Its memory is others' then, and the next one has a heap of its own."""
    done = subprocess.run([sys.executable, "-c", SESSIONS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (small, *alive), (_, *dead), (large, *again), (_, *gone) = json.loads(done.stdout.splitlines()[-1])
    assert (alive, dead, again, gone) == ([True], [False], [True], [False])
    assert small < 512 < large < 640
