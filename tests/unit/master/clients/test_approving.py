"""Bodies of approvals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quadlog.core.approval import LONGEST_DROP, Approval
from quadlog.core.model import LogPosition
from quadlog.errors import UserError
from quadlog.master.clients.approving import approval_of

GOOD: dict[str, Any] = {"plan": "ab" * 32, "index": 7, "chain": "cd" * 32, "drop": ["ef" * 16]}


def test_a_body() -> None:
    after = LogPosition(7, bytes.fromhex("cd" * 32))
    expected = Approval(bytes.fromhex("ab" * 32), after, frozenset({bytes.fromhex("ef" * 16)}))
    assert approval_of(json.dumps(GOOD).encode()) == expected
    without = {name: value for name, value in GOOD.items() if name != "drop"}
    assert approval_of(json.dumps(without).encode()) == Approval(expected.plan, after)


@pytest.mark.parametrize(
    "other",
    [
        {"plan": "ab"},
        {"plan": None},
        {"plan": "x" * 64},
        {"index": "7"},
        {"index": True},
        {"index": -1},
        {"chain": "cd" * 31},
        {"drop": ["ef"]},
        {"drop": "ef"},
        {"drop": 1},
        {"drop": [f"{number:032x}" for number in range(LONGEST_DROP + 1)]},
        {"more": 1},
    ],
)
def test_a_wrong_body(other: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="nothing was logged"):
        approval_of(json.dumps({**GOOD, **other}).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
def test_no_object(body: bytes) -> None:
    with pytest.raises(UserError, match="nothing was logged"):
        approval_of(body)
