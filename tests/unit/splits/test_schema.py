"""The published schema of reports, with which the tests on Kafka check each report."""

from __future__ import annotations

from typing import Any

import pytest

from quadlog.splits.plan import UpdateClass
from tests.support.json_schema import SPLIT_REPORT, errors_in
from tests.support.split_reports import branch, disputed, report, update


def errors(made: dict[str, Any]) -> list[str]:
    return [*errors_in(made, SPLIT_REPORT, SPLIT_REPORT)]


def test_the_reports_of_these_tests_are_as_the_schema_says() -> None:
    updates = [update(number, update_class.value) for number, update_class in enumerate(UpdateClass)]
    made = report(branch(*updates, disputed=1, disputed_quads=[disputed("<urn:a> <urn:b> <urn:c> .")]))
    assert errors(made) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"kind": "guess"}, ".kind: 'guess' is none of those that are allowed"),
        ({"format": 2}, ".format: 2 is none of those that are allowed"),
        ({"plan": "ab"}, ".plan: 'ab' does not match"),
        ({"sides": {}}, ".sides: {} is no array"),
        ({"more": 1}, ": more is not known"),
        ({"behind": [{"dc": "dc2", "index": True, "entries": 1}]}, ".behind[0].index: True is no integer"),
        ({"behind": [{"dc": "dc2", "index": 1}]}, ".behind[0]: entries is missing"),
    ],
)
def test_what_is_not_as_the_schema_says_is_named(change: dict[str, Any], expected: str) -> None:
    assert expected in errors(report(**change))
