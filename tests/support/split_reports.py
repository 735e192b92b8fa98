"""Reports on splits, small ones, as docs/split-report.schema.json describes them."""

from __future__ import annotations

from typing import Any


def report(*branches: dict[str, Any], kind: str = "preview", **others: object) -> dict[str, Any]:
    """Return a report: dc1 and dc2 win over those of the branches."""
    winner = side("dc1", "dc2", wins=True, last=position(250), length=40, rank=rank(9))
    losers = [side(*one["dcs"], last=one["last"], length=one["entries"], rank=rank(8)) for one in branches]
    return {
        "format": 1, "kind": kind, "repository": "main", "made_at": "2026-11-29T16:02:11.532Z", "plan": "ab" * 32,
        "strategy": "Smart", "sides": [winner, *losers], "reasons": ["dc1, dc2 wins."], "behind": [],
        "unreachable": [], "branches": list(branches),
        "workers": [
            {
                "worker": "w3", "dc": "dc3", "applied": 230, "back": 20, "forward": 60, "bytes": 2_097_152,
                "seconds": 90.4,
            }
        ],
        **others,
    }  # fmt: skip


def position(index: int) -> dict[str, Any]:
    return {"index": index, "chain": f"{index:064x}"}


def rank(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "decided": True, "members": 2, "ids": ["m1", "m2"]}


def side(*dcs: str, **others: object) -> dict[str, Any]:
    return {
        "dcs": list(dcs), "wins": False, "fork": 210, "first_at": "2026-11-29T14:03:12Z",
        "last_at": "2026-11-29T14:31:09Z", "masters": ["m1", "m2"], **others,
    }  # fmt: skip


def branch(*transactions: dict[str, Any], more: int = 0, **others: object) -> dict[str, Any]:
    """Return a branch of dc3 with these updates, and `more` others of the first one's class that are not listed."""
    classes = dict[str, int]()
    answers = dict[str, dict[str, int]]()
    for one in (*transactions, *transactions[:1] * more):
        classes[one["class"]] = classes.get(one["class"], 0) + 1
        told = answers.setdefault(one["told"], {})
        told[one["class"]] = told.get(one["class"], 0) + 1
    shown = {name: sum(one["class"] == name for one in transactions) for name in classes}
    return {
        "name": f"210-{230:012x}", "dcs": ["dc3"], "fork": position(210), "last": position(230), "entries": 20,
        "updates": len(transactions) + more, "decisions": 3, "classes": classes, "answers": answers, "ended": [],
        "transactions": list(transactions), "shown": shown, "disputed": 0, "disputed_quads": [], **others,
    }  # fmt: skip


def update(index: int, update_class: str, told: str = "APPLIED", **others: object) -> dict[str, Any]:
    outcome = {"duplicate": None, "waits": None, "unforeseen": None, "rejected": "REJECTED"}.get(
        update_class, "APPLIED"
    )
    return {
        "index": index, "id": f"{index:032x}", "class": update_class, "told": told, "reason_there": None,
        "outcome": outcome, "reason": None, "became": None, "deleted": 0, "inserted": 1, "deleted_there": 2,
        "inserted_there": 3, "synchronous": False, **others,
    }  # fmt: skip


def disputed(line: str, **others: object) -> dict[str, Any]:
    return {
        "line": line, "base": True, "winner": False, "branch": True, "result": True, "winner_index": 215,
        "branch_index": 217, **others,
    }  # fmt: skip
