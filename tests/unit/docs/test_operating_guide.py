"""docs/operating.md names every error and every field of every status, so that none is met unexplained."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from quadlog.core.messages import TwoOrdersError
from quadlog.errors import QuadlogError, UserError
from quadlog.master.http import status
from quadlog.master.workers import alarms
from quadlog.worker import app

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def tree(root: type[QuadlogError]) -> list[type[QuadlogError]]:
    return [root, *(below for child in root.__subclasses__() for below in tree(child))]


def keys_of(source: str) -> set[str]:
    """Text keys of all dictionaries that a module writes out."""
    return {
        key.value
        for node in ast.walk(ast.parse(Path(source).read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


@pytest.mark.parametrize("error", [e for e in tree(QuadlogError) if e.__module__.startswith("quadlog.")])
def test_every_error_stands_in_the_guide(error: type[QuadlogError]) -> None:
    assert re.search(rf"\| {error.__name__} \|", GUIDE)
    if error.status != 500 or issubclass(error, UserError):
        assert f"| {error.status} | {error.__name__} |" in GUIDE


def test_two_orders_stand_in_the_guide() -> None:
    assert TwoOrdersError.__name__ in GUIDE


@pytest.mark.parametrize("module", [status, alarms, app])
def test_every_field_of_a_status_stands_in_the_guide(module: object) -> None:
    source = getattr(module, "__file__", "")
    fields = {key for key in keys_of(source) if key.isidentifier()}
    assert len(fields) >= 7
    missing = {field for field in fields if f"`{field}`" not in GUIDE}
    assert not missing


@pytest.mark.parametrize("name", alarms.AlarmName)
def test_every_alarm_stands_in_the_guide(name: alarms.AlarmName) -> None:
    assert re.search(rf"(?m)^\| `{name}` \|", GUIDE)


def test_the_files_that_the_guide_names_are_there() -> None:
    for name in re.findall(r"\]\(([^)]+)\)", GUIDE):
        assert (ROOT / "docs" / name).exists()
