"""Processes of pytest that share modules."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple, cast

from tests.support.claims import shared_name

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TEST = """
import pathlib, time, pytest

@pytest.fixture(scope="module")
def ran(): yield; time.sleep(0.01)

@pytest.mark.parametrize("number", range(3))
def test_it(ran, number): time.sleep(0.02); print("ran", __name__, number)
"""


def test_each_module_is_run_once_and_as_a_whole(tmp_path: Path) -> None:
    (tests := tmp_path / "tests").mkdir()
    (tests / "conftest.py").write_text('pytest_plugins = ["tests.support.claims"]')
    for number in range(20):
        (tests / f"test_some{number}.py").write_text(TEST)
    (claims := tmp_path / "claims").mkdir()
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-s",
        "-p",
        "no:cacheprovider",
        f"--claims={claims}",
        tests,
    ]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    ran = [[line.partition("ran ")[2] for line in text.splitlines() if "ran " in line] for text in said]
    assert sorted(ran[0] + ran[1]) == sorted(f"test_some{n} {m}" for n in range(20) for m in range(3))
    modules = [{line.partition(" ")[0] for line in lines} for lines in ran]
    assert not modules[0] & modules[1]
    assert min(map(len, modules)) > 1, "both had something to do"


class Named(NamedTuple):
    """As a test is."""

    nodeid: str


def test_what_shares_a_cluster_is_claimed_as_a_whole() -> None:
    nodeids = (
        "tests/e2e/shared/test_a.py::test_a[::]",
        "tests/e2e/shared/test_b.py::test_b",
        "tests/test_c.py::test_c",
    )
    names = [shared_name(cast("pytest.Item", Named(nodeid))) for nodeid in nodeids]
    assert names == ["tests/e2e/shared", "tests/e2e/shared", "tests/test_c.py"]
