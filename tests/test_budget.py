"""A test that takes long says why.  It runs last in each lane."""

from __future__ import annotations

import pytest

from tests.support.record import BUDGET_S, Record


@pytest.mark.parametrize("_lane", [pytest.param("waits", marks=pytest.mark.waits), "computes"])
def test_whoever_takes_long_says_why(_lane: str, pytestconfig: pytest.Config) -> None:
    record = pytestconfig.pluginmanager.get_plugin("record")
    assert isinstance(record, Record)
    assert record.over_budget == {}, (
        f"above {BUDGET_S:g} s: make them shorter, their long version to soak; or mark them long, with a reason"
    )
