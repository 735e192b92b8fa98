"""Where tests stand, and what they have in common: whoever changes a test changes that test alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PLACES = (TESTS.parent / "quadlog", TESTS.parent, TESTS)
"""What `tests/unit` mirrors."""


@pytest.mark.parametrize("part", ["unit", "integration", "e2e", "bench", "support"])
def test_no_module_imports_tests(part: str) -> None:
    imported = {
        f"{path.relative_to(TESTS)}: {node.module}"
        for path in (TESTS / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and "test_" in (node.module or "")
    }
    assert imported == set()


def test_unit_mirrors_the_packages() -> None:
    parts = {path.parent.relative_to(TESTS / "unit") for path in (TESTS / "unit").rglob("test_*.py")}
    assert len(parts) > 1
    assert [part for part in parts if not any((place / part).is_dir() for place in PLACES)] == []
