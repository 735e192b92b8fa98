"""Texts that people read use standard technical English, and commits have subjects that say what they do."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CODE = [
    path
    for top in ("quadlog", "producers", "consumers", "schemas")
    for path in sorted((ROOT / top).rglob("*.py"))
]
HISTORY = {"CHANGELOG.md", "CONTRIBUTING.md"}
"""The first is as it was written; the second has examples of what not to write."""
WORDS = re.compile(
    r"\banew\b|\bso too\b|\bof use\b|\b(?:is|are) to be\b|\b(?:whoever|somebody)\b"
    r"|\b(?:crew|scribe|chores)\b|(?:^|[.:;] )Who\b|\bthe ears\b|\bmouths?\b",
    re.IGNORECASE | re.MULTILINE,
)
ADOPTED = "2059766"
"""The rule for subjects of commits counts after this one."""
SUBJECT = re.compile(r"[a-z0-9_.-]+(?:[ ,/][a-z0-9_., -]+)?: [a-z].*[^.]")
MOST = 72


def texts(path: Path) -> Iterator[str]:
    """What of a module people read: docstrings, errors and other sentences."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", [p for p in DOCS if p.name not in HISTORY], ids=lambda path: path.name)
def test_docs_are_in_plain_words(path: Path) -> None:
    text = re.sub(r"`[^`\n]*`|```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not [found[0] for found in WORDS.finditer(text)]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_and_errors_are_in_plain_words(path: Path) -> None:
    assert not [found[0] for text in texts(path) for found in WORDS.finditer(re.sub(r"`[^`\n]*`", "", text))]


def test_subjects_of_commits_say_what_they_do() -> None:
    log = ["git", "log", "--no-merges", "--format=%s", f"{ADOPTED}.."]
    asked = subprocess.run(log, check=False, cwd=ROOT, capture_output=True, text=True)
    if asked.returncode:
        pytest.skip(f"the history is not here: {asked.stderr.strip()}")
    wrong = [one for one in asked.stdout.splitlines() if len(one) > MOST or not SUBJECT.fullmatch(one)]
    assert not wrong, "`area: imperative`, at most 72 characters"
