"""The classes of updates, and the canonical form of a plan."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from quadlog.core.model import LogPosition
from quadlog.core.records import Outcome
from quadlog.splits.plan import Comparison, PlanHash, UpdateClass, class_of

APPLIED, REJECTED = Outcome.APPLIED, Outcome.REJECTED


@pytest.mark.parametrize(
    ("outcome", "compared", "expected"),
    [
        (APPLIED, Comparison(), UpdateClass.COMMUTES),
        (APPLIED, Comparison(there=2, here=2), UpdateClass.COMMUTES),
        (APPLIED, Comparison(there=2, here=1), UpdateClass.COMMUTES),
        (APPLIED, Comparison(there=2, here=1, unmet=1), UpdateClass.DIFFERS),
        (APPLIED, Comparison(there=2, here=3, extra=1), UpdateClass.DIFFERS),
        (APPLIED, Comparison(here=1, extra=1), UpdateClass.DIFFERS),
        (APPLIED, Comparison(there=1, here=1, opposite=1, extra=1), UpdateClass.OPPOSITE),
        (APPLIED, Comparison(there=1, unmet=1), UpdateClass.EMPTY),
        (REJECTED, Comparison(there=1, unmet=1), UpdateClass.REJECTED),
        (None, Comparison(there=1), UpdateClass.WAITS),
    ],
)
def test_the_first_class_that_holds_counts(
    outcome: Outcome | None, compared: Comparison, expected: UpdateClass
) -> None:
    assert class_of(outcome, compared) is expected


def test_a_duplicate_is_nothing_else() -> None:
    assert class_of(None, Comparison(there=1), is_duplicate=True) is UpdateClass.DUPLICATE
    assert class_of(None, Comparison(), is_duplicate=True, is_foreseen=False) is UpdateClass.DUPLICATE


def test_what_is_not_foreseen_is_not_said_to_wait() -> None:
    assert class_of(None, Comparison(), is_foreseen=False) is UpdateClass.UNFORESEEN


def test_a_plan_is_lines_of_json() -> None:
    one, two = LogPosition(9, bytes(32)), LogPosition(7, b"\x01" * 32)
    plan = PlanHash("main", one, [(5, two)])
    plan.add_update(6, "aa" * 16, UpdateClass.COMMUTES, APPLIED, deleted=0, inserted=2)
    plan.add_update(7, "bb" * 16, UpdateClass.DUPLICATE, None, deleted=0, inserted=0)
    plan.add_ended(8, "cc" * 16)
    states = {"base": True, "winner": False, "branch": True, "result": True}
    plan.add_disputed('<urn:a> <urn:b> "é" .', states)
    lines = [
        (
            f'{{"branches":[{{"chain":"{"01" * 32}","fork":5,"index":7}}],"format":1,"repository":"main",'
            f'"winner":{{"chain":"{"00" * 32}","index":9}}}}'
        ),
        f'{{"class":"commutes","deleted":0,"id":"{"aa" * 16}","index":6,"inserted":2,"outcome":"APPLIED"}}',
        f'{{"class":"duplicate","deleted":0,"id":"{"bb" * 16}","index":7,"inserted":0,"outcome":null}}',
        f'{{"ended":"CONFIG","id":"{"cc" * 16}","index":8}}',
        r'{"base":true,"branch":true,"line":"<urn:a> <urn:b> \"é\" .","result":true,"winner":false}',
    ]
    text = "".join(f"{line}\n" for line in lines)
    assert plan.hexdigest() == blake2b(text.encode(), digest_size=32).hexdigest()
