"""Each mutant changes text that is there, once: else the run of all of them ends at it, after minutes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MUTANTS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "mutants" / "mutants.toml").read_text())[
    "mutant"
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_what_a_mutant_changes_is_there_once(mutant: dict[str, Any]) -> None:
    for edit in mutant["edit"]:
        assert (ROOT / edit["file"]).read_text().count(edit["old"]) == 1, edit["file"]
        assert edit["new"] != edit["old"]


def test_no_two_have_one_name() -> None:
    names = [mutant["name"] for mutant in MUTANTS]
    assert len(names) == len(set(names))
