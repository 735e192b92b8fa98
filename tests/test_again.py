"""What failed beside other tests has to pass with nothing beside it, and nothing else is forgiven."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.again import MOST, TIMES

HERE = Path(__file__).parent.parent
SUITE = """
from pathlib import Path

def test_fails_for_so_long():
    runs = Path(__file__).with_suffix(".runs")
    runs.write_text(f"{runs.read_text() if runs.exists() else ''}.")
    assert len(runs.read_text()) not in FAILS

def test_passes():
    pass
"""


def suite(path: Path, *, fails: set[int]) -> str:
    """The name of a test that fails in these of its runs."""
    (path / "test_it.py").write_text(SUITE.replace("FAILS", str(fails)))
    return f"{path / 'test_it.py'}::test_fails_for_so_long"


def again(results: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "tests.support.again", str(results), *names)
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)


def ended(results: Path, name: str, *failed: str, status: int) -> None:
    (results / f"{name}.status").write_text(f"{status}\n")
    (results / f"{name}.failed").write_text("".join(f"{test}\n" for test in failed))


def test_what_passes_each_time_is_told_and_no_failure(tmp_path: Path) -> None:
    ended(tmp_path, "begins", status=0)
    ended(tmp_path, "computes", suite(tmp_path, fails=set()), status=1)
    run = again(tmp_path, "begins", "computes")
    assert run.returncode == 0, run
    assert run.stdout.count("1 passed") == TIMES
    last = run.stdout.strip().splitlines()[-2:]
    assert last[0].startswith("== FAILED beside others")
    assert last[1].endswith("test_fails_for_so_long")


@pytest.mark.parametrize("turn", range(1, TIMES + 1))
def test_what_fails_once_more_is_a_failure(tmp_path: Path, turn: int) -> None:
    ended(tmp_path, "computes", suite(tmp_path, fails={turn}), status=1)
    run = again(tmp_path, "computes")
    assert run.returncode == 1
    assert f"in turn {turn} " in run.stderr


def test_too_many_failures_are_not_tried_again(tmp_path: Path) -> None:
    ended(tmp_path, "begins", *[suite(tmp_path, fails=set())] * (MOST + 1), status=1)
    run = again(tmp_path, "begins")
    assert run.returncode == 1
    assert not run.stdout


@pytest.mark.parametrize(("status", "failed"), [(2, ["a"]), (1, []), (0, ["a"]), (-9, [])])
def test_a_process_that_ended_otherwise_is_a_failure(tmp_path: Path, status: int, failed: list[str]) -> None:
    ended(tmp_path, "begins", suite(tmp_path, fails=set()), status=1)
    ended(tmp_path, "computes", *failed, status=status)
    run = again(tmp_path, "begins", "computes")
    assert run.returncode == 1
    assert not run.stdout


def test_a_process_that_left_nothing_is_a_failure(tmp_path: Path) -> None:
    ended(tmp_path, "begins", suite(tmp_path, fails=set()), status=1)
    run = again(tmp_path, "begins", "computes")
    assert run.returncode == 1
    assert not run.stdout


def test_a_run_leaves_what_failed(tmp_path: Path) -> None:
    """As `make test` runs it: with the plugins of this suite."""
    suite(tmp_path, fails={1})
    results = tmp_path / "results"
    results.mkdir()
    options = ("-p", "tests.conftest", "--rootdir", str(tmp_path), "--junitxml", str(results / "begins.xml"))
    command = (sys.executable, "-m", "pytest", *options, str(tmp_path / "test_it.py"))
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run
    assert (results / "begins.failed").read_text() == "test_it.py::test_fails_for_so_long\n"
