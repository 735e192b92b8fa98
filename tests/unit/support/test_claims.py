"""What processes of pytest claim as a whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.claims import shared_name


def item(nodeid: str, *fixtures: str, marker: str = "") -> Any:  # noqa: ANN401 - as pytest has it
    return SimpleNamespace(
        nodeid=nodeid, fixturenames=fixtures, get_closest_marker=lambda name: name == marker or None
    )


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (item("tests/e2e/shared/test_a.py::t"), item("tests/e2e/shared/test_b.py::t"), True),
        (item("tests/integration/test_a.py::t"), item("tests/integration/test_b.py::t"), False),
        (
            item("tests/integration/test_a.py::t", "spark"),
            item("tests/integration/test_b.py::t", "spark"),
            True,
        ),
        (item("tests/integration/test_a.py::t", "spark"), item("tests/integration/test_a.py::u"), False),
        (item("tests/bench/test_a.py::t", marker="waits"), item("tests/bench/test_a.py::u"), False),
    ],
)
def test_tests_that_share_something_are_claimed_together(one: Any, other: Any, together: bool) -> None:  # noqa: ANN401, FBT001
    assert (shared_name(one) == shared_name(other)) is together
