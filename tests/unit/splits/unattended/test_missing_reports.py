"""What a list of reports shows of one, and when a report is not complete."""

from __future__ import annotations

from typing import Any

from quadlog.splits.unattended.missing_reports import missing_in, summary_of


def branch(name: str, dcs: list[str], fork: int, classes: dict[str, int]) -> dict[str, Any]:
    updates = sum(classes.values())
    return {
        "name": name,
        "dcs": dcs,
        "fork": {"index": fork, "chain": "00"},
        "entries": updates + 1,
        "updates": updates,
        "classes": classes,
        "disputed": 1,
        "transactions": [{}],
    }


def report(*branches: dict[str, Any]) -> dict[str, Any]:
    return {
        "plan": "p",
        "made_at": "2026-01-01T00:00:00+00:00",
        "kind": "report",
        "branches": [*branches],
        "unreachable": [{"dc": "dc4", "reason": "r", "unknown": "u"}],
    }


def test_a_summary_has_the_totals_of_all_branches() -> None:
    one = branch("7-0a", ["dc2"], 7, {"commutes": 2, "empty": 1})
    other = branch("5-0b", ["dc3", "dc2"], 5, {"commutes": 1})
    summary = summary_of(report(one, other), "5-0b")
    assert summary == {
        "name": "5-0b",
        "plan": "p",
        "made_at": "2026-01-01T00:00:00+00:00",
        "kind": "report",
        "fork": 5,
        "entries": 6,
        "dcs": ["dc2", "dc3"],
        "classes": {"commutes": 3, "empty": 1},
        "branches": [
            {
                "name": "7-0a",
                "dcs": ["dc2"],
                "fork": 7,
                "entries": 4,
                "updates": 3,
                "classes": {"commutes": 2, "empty": 1},
                "disputed": 1,
            },
            {
                "name": "5-0b",
                "dcs": ["dc3", "dc2"],
                "fork": 5,
                "entries": 2,
                "updates": 1,
                "classes": {"commutes": 1},
                "disputed": 1,
            },
        ],
        "unreachable": ["dc4"],
    }


def test_updates_that_wait_are_missing() -> None:
    assert not missing_in(report(branch("7-0a", ["dc2"], 7, {"commutes": 2})))
    reason = missing_in(report(branch("7-0a", ["dc2"], 7, {"waits": 2}), branch("5-0b", ["dc3"], 5, {})))
    assert reason == "2 updates of 7-0a are not evaluated again yet"
