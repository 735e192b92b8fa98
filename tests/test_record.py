"""What a run records of itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST = """
from tests.support import record

record.BUDGET_S = 0.01

def pytest_configure(config):
    config.addinivalue_line("markers", "long(reason): it says why")
    config.addinivalue_line("markers", "soak: a long version")
    config.pluginmanager.register(record.Record(), "record")
"""
TESTS = """
import subprocess, sys, time, pytest

@pytest.mark.long("it starts something")
def test_lab(): subprocess.run([sys.executable, "-m", "quadlog", "lab", "up", "--no"])

@pytest.mark.long("it has to")
def test_long(): time.sleep(0.5)

@pytest.mark.soak
def test_longer(): time.sleep(0.5)
"""
TOO_LONG = """
def test_too_long(): time.sleep(1.0)
"""


@pytest.mark.parametrize(("tests", "code"), [(TESTS, 0), (TESTS + TOO_LONG, 1)])
def test_a_run_fails_where_a_test_takes_long_and_does_not_say_why(
    tmp_path: Path, tests: str, code: int
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--junitxml", tmp_path / "some.xml", tmp_path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("test_too_long takes" in done.stdout) == bool(code)
    assert f"started: 1 labs; slept {2 if code else 1} s" in done.stdout
    table = (tmp_path / "some.txt").read_text()
    assert "test_lab" in table
