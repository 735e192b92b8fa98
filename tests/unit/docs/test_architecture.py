"""ARCHITECTURE.md, and the docs that say more of it, are true: what they name is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MORE = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("internals.md", "agreement.md")]
LINES = [line for text in (TEXT, *MORE) for line in text.splitlines() if "`" in line]
MOST_LINES, MOST_WORDS = 300, 25
TOPS = ("quadlog", "producers", "consumers", "schemas", "tests")
OTHERS = frozenset(("Location",))
"""Names like those of classes, of other things."""
SUFFIXES = {".py", ".txt", ".toml", ".avsc", ".md"}
MEMBER = re.compile(r"(_?[A-Z]\w*[a-z]\w*)\.(\w+)")
PATH = re.compile(r"[\w/.-]+\.(py|txt|toml|avsc|md)")
CLASS = re.compile(r"_?[A-Z][a-z]\w+")
FUNCTION = re.compile(r"([a-z][a-z_0-9]+)\.(_?[a-z]\w+)")
MUTANT = re.compile(r"[a-z]+(-[a-z]+)+")


def rows(section: str) -> list[list[str]]:
    """Cells of the table in a section, without its head."""
    body = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def marks(text: str) -> list[str]:
    """What stands in code marks."""
    return re.findall(r"`([^`]+)`", text)


@cache
def members() -> dict[str, set[str]]:
    """Names that are defined in classes, by the name of the class."""
    found = defaultdict[str, set[str]](set)
    for top in TOPS:
        for path in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].update(_defined_in(node))
    return found


def _defined_in(node: ast.ClassDef) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
        elif isinstance(one, ast.Attribute):
            yield one.attr
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id


@cache
def functions() -> dict[str, str]:
    """Text of the modules of a name."""
    found = defaultdict[str, str](str)
    for top in TOPS:
        for path in (ROOT / top).rglob("*.py"):
            name = path.parent.name if path.stem == "__init__" else path.stem
            found[name] += path.read_text(encoding="utf-8")
    return found


@cache
def files() -> frozenset[str]:
    """Paths of all files that a text may name."""
    found = [path for top in (*TOPS, "docs") for path in (ROOT / top).rglob("*")]
    there = [path for path in (*found, *ROOT.glob("*")) if path.suffix in SUFFIXES]
    return frozenset(f"/{path.relative_to(ROOT)}" for path in there)


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES
    assert len(rows("Words")) <= MOST_WORDS


def test_each_package_has_a_row() -> None:
    mapped = set[str]()
    for first, *rest in rows("Code map"):
        [package, *_] = [mark.rstrip("/") for mark in marks(first)]
        mapped.add(package)
        mapped.update(f"{package}/{mark.rstrip('/')}" for mark in marks(rest[0]) if mark.endswith("/"))
    inits = [init.parent for top in TOPS[:-1] for init in (ROOT / top).rglob("__init__.py")]
    there = {str(package.relative_to(ROOT)) for package in inits}
    assert there - mapped == {"quadlog"}, "only this one's modules are mapped by themselves"


@pytest.mark.parametrize("row", rows("Code map"), ids=lambda row: row[0])
def test_the_modules_of_a_row_are_there(row: list[str]) -> None:
    directory = ROOT / marks(row[0])[0].removesuffix("*.py")
    modules = list(directory.rglob("*.py"))
    functions = re.findall(r"^\s*(?:async )?def (\w+)", "\n".join(map(Path.read_text, modules)), re.MULTILINE)
    there = {"quadlog", *functions, *(path.stem for path in modules), *(path.parent.name for path in modules)}
    assert {mark for mark in marks(row[1]) if re.fullmatch(r"[a-z_0-9]+", mark)} <= there


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:60])
def test_what_a_line_names_is_there(line: str) -> None:
    for mark in marks(line):
        if PATH.fullmatch(mark):
            assert any(path.endswith(f"/{mark}") for path in files()), mark
        elif found := MEMBER.fullmatch(mark):
            assert found[2] in members().get(found[1], set()), mark
        elif found := FUNCTION.fullmatch(mark):
            assert found[1] not in functions() or re.search(rf"\b{found[2]}\b", functions()[found[1]]), mark
        elif CLASS.fullmatch(mark):
            assert mark in members() or mark in OTHERS, mark


def test_the_mutants_that_claims_name_are_there() -> None:
    mutants = tomllib.loads((ROOT / "tests/mutants/mutants.toml").read_text())["mutant"]
    claims = [row[-1] for row in rows("What must hold, and what holds it")]
    parts = [part for claim in claims for part in re.findall(r"mutants? (.*)", claim)]
    named = {mark for part in parts for mark in marks(part) if MUTANT.fullmatch(mark)}
    assert named
    assert named <= {one["name"] for one in mutants}
