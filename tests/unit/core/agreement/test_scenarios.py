"""Every scenario's answers are as its text says.  `pytest --rewrite` fills them in for review."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agreement.scenario import Scenario

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    actual = Scenario().run(text)
    if request.config.getoption("--rewrite"):
        path.write_text(actual)
    assert actual == path.read_text()
