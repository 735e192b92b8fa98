"""What two previews say otherwise."""

from __future__ import annotations

from typing import Any

from quadlog.splits.approve import SHOWN, differences


def preview(ends: dict[str, int], classes: dict[str, str], *, disputed: int = 0) -> dict[str, Any]:
    sides = [{"dcs": [dc], "last": {"index": index, "chain": f"{index:064x}"}} for dc, index in ends.items()]
    transactions = [{"id": one, "class": name} for one, name in classes.items()]
    branch = {"transactions": transactions, "disputed": disputed, "updates": len(classes)}
    return {"sides": sides, "branches": [branch]}


def test_equal_previews_have_no_difference() -> None:
    one = preview({"dc1": 7, "dc3": 9}, {"a": "commutes"})
    assert [*differences(one, one)] == []


def test_sides_updates_and_counts() -> None:
    before = preview({"dc1": 7, "dc2": 8, "dc3": 9}, {"a": "commutes", "b": "empty"})
    now = preview({"dc1": 9, "dc3": 9, "dc4": 1}, {"a": "opposite", "c": "empty"}, disputed=1)
    assert [*differences(before, now)] == [
        "dc1 has moved on from entry 7 to 9",
        "dc2 is no side any more",
        "dc4 is a side now",
        "a was commutes, and is opposite",
        "b was empty, and is not there",
        "c was not there, and is empty",
        "disputed quads and updates of each branch were [(0, 2)], and are [(1, 2)]",
    ]


def test_a_chain_is_compared_too() -> None:
    before, now = preview({"dc1": 7}, {}), preview({"dc1": 7}, {})
    now["sides"][0]["last"]["chain"] = "ff" * 32
    assert [*differences(before, now)] == ["dc1 has another entry 7"]


def test_only_so_many_updates_are_listed() -> None:
    before = preview({"dc1": 7}, {f"t{number}": "commutes" for number in range(SHOWN + 3)})
    now = preview({"dc1": 7}, {f"t{number}": "empty" for number in range(SHOWN + 3)})
    said = [*differences(before, now)]
    assert len(said) == SHOWN + 1
    assert said[-1] == "3 updates more"
