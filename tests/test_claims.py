"""Processes of pytest that share modules."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST: Final = """
pytest_plugins = ["tests.support.claims"]

def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)
"""

MODULE: Final = """
import time, pytest

@pytest.fixture(scope="module")
def ran(): yield; time.sleep(0.01)

@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.waits), 2, 3])
def test_it(ran, number): time.sleep(0.02); print("ran", __name__, number)
"""


def test_each_test_is_run_once_and_what_belongs_together_by_one_process(tmp_path: Path) -> None:
    """One takes what waits and then the rest, the other one only the rest."""
    tests = tmp_path / "tests"
    (shared := tests / "shared").mkdir(parents=True)
    (tests / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = waits\n")
    names = [f"test_{number}" for number in range(20)]
    for name in names:
        (tests / f"{name}.py").write_text(MODULE)
        (shared / f"{name}s.py").write_text(MODULE)
    (claims := tmp_path / "claims").mkdir()
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", f"--claims={claims}"]
    running = [
        subprocess.Popen(
            [*command, *only, "tests"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for only in ([], ["-m", "not waits"])
    ]
    said = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    ran = [[line.partition("ran ")[2] for line in text.splitlines() if "ran " in line] for text in said]
    assert sorted(ran[0] + ran[1]) == sorted(
        f"{n}{s} {m}" for n in names for s in ("", "s") for m in range(4)
    )
    rest = [{line.split(" ")[0] for line in lines if not line.endswith(" 1")} for lines in ran]
    assert not rest[0] & rest[1], "a module is run by one process"
    assert min(map(len, rest)) > 1, "both had something to do"
    shares = [{name for name in some if name.endswith("s")} for some in rest]
    assert {f"{name}s" for name in names} in shares, "who takes a shared cluster is run by one process"
