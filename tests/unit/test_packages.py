"""A stranger finds where a line belongs: small packages, each with a sentence of its own."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = [
    init.parent
    for top in ("quadlog", "producers", "consumers", "schemas")
    for init in sorted((ROOT / top).rglob("__init__.py"))
]
MOST = 15


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_has_at_most_fifteen_modules_and_says_what_it_is(package: Path) -> None:
    modules = [path.stem for path in package.glob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MOST, sorted(modules)
    says = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    assert says.splitlines()[0].endswith("."), "no sentence"


def test_all_modules_stand_in_packages() -> None:
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            assert path.parent in PACKAGES, f"{path}: its directory has no __init__.py"


def test_no_class_name_stands_for_two_things() -> None:
    defined = Counter(
        node.name
        for package in PACKAGES
        for path in package.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in defined.items() if count > 1]
