"""What tests have in common stands in tests/support, so that whoever changes a test changes that test alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.parametrize("part", ["core", "integration", "e2e", "bench", "support"])
def test_no_module_imports_tests(part: str) -> None:
    imported = {
        f"{path.relative_to(TESTS)}: {node.module}"
        for path in (TESTS / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and "test_" in (node.module or "")
    }
    assert imported == set()
