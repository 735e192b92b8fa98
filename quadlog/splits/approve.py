"""`quadlog split approve`: makes the preview again and, if it is what was approved, lets the weaker sides give way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from quadlog.errors import PlanOutdated, QuadlogError, UserError
from quadlog.splits.job import run_split
from quadlog.web.master_client import request_master

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from quadlog.splits.topics import SplitOptions

PATH: Final = "/cluster/splits/approve"
_ELSE: Final = "The approval may be agreed: see split in /cluster/status of this master."


def approve(
    wanted: SplitOptions, plan: str, masters: Sequence[str], before: Path | None, say: Callable[[str], None]
) -> None:
    """Approve the plan of the split of now, first at the winner, then at each side that gives way.

    The directory of `wanted` is not used.  `masters` are URLs: of a master of each side.  `before` is the directory of
    the preview with the hash `plan`, to say what is another now; None: it is not at hand.

    Raises:
        UserError: a side has no master among these.
        PlanOutdated: the plan is another one now; or a side moved on meanwhile.
        QuadlogError: the preview or a request failed.

    """
    names = {_dc_of(url): url for url in masters}
    with TemporaryDirectory(prefix="quadlog-approve-", dir=wanted.spark.scratch) as made:
        now = run_split(replace(wanted, directory=Path(made) / "preview"))
    if not now["branches"]:
        raise PlanOutdated("no side gives way: there is nothing to approve")
    if now["plan"] != plan:
        known = None if before is None else json.loads((before / "report.json").read_text(encoding="utf-8"))
        difference = "; ".join(differences(known, now)) if known else "see it with `quadlog split preview`"
        raise PlanOutdated(
            f"the plan is {now['plan']} now, and not {plan}: {difference}. Nothing was approved"
        )
    sides = [now["sides"][0], *now["branches"]]
    urls = [next((names[dc] for dc in side["dcs"] if dc in names), None) for side in sides]
    if missing := [", ".join(side["dcs"]) for side, url in zip(sides, urls, strict=True) if url is None]:
        raise UserError(f"name a master of {' and of '.join(missing)} with --master; nothing was approved")
    for number, (side, url) in enumerate(zip(sides, urls, strict=True)):
        assert url is not None
        drop = [one for one in sorted(wanted.drop) if number and one in _ids_of(side)]
        body = {"plan": plan, **side["last"], "drop": drop}
        try:
            answer = request_master(url, "POST", PATH, unsure=_ELSE, json=body).json()
        except QuadlogError as error:
            if not number:
                raise
            done = ", ".join(dc for one in sides[:number] for dc in one["dcs"])
            raise type(error)(f"{error}. Before it {done} approved, which lapses within seconds") from error
        say(f"{', '.join(side['dcs'])}: approved by entry {answer['index']}")
    say("the sides come together now: see split in /cluster/status, and `quadlog split report` afterwards")


def _ids_of(branch: Mapping[str, Any]) -> set[str]:
    """Return the ids of a branch's updates that are dropped; all of them are listed."""
    return {one["id"] for one in branch["transactions"] if one["class"] == "dropped"}


def _dc_of(url: str) -> str:
    return str(request_master(url, "GET", "/cluster/status").json()["dc"])


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what two previews say otherwise, first of the sides, then of the updates that both list."""
    ends = [{tuple(side["dcs"]): side["last"] for side in one["sides"]} for one in (before, now)]
    for dcs in dict.fromkeys((*ends[0], *ends[1])):
        old, new = (one.get(dcs) for one in ends)
        name = ", ".join(dcs)
        if old is None or new is None:
            yield f"{name} {'is a side now' if old is None else 'is no side any more'}"
        elif old["index"] != new["index"]:
            yield f"{name} has moved on from entry {old['index']} to {new['index']}"
        elif old != new:
            yield f"{name} has another entry {old['index']}"
    updates = [
        {one["id"]: one["class"] for branch in each["branches"] for one in branch["transactions"]}
        for each in (before, now)
    ]
    other = [
        f"{key} was {updates[0].get(key, 'not there')}, and is {updates[1].get(key, 'not there')}"
        for key in dict.fromkeys((*updates[0], *updates[1]))
        if updates[0].get(key) != updates[1].get(key)
    ]
    yield from other[:SHOWN]
    if len(other) > SHOWN:
        yield f"{len(other) - SHOWN} updates more"
    counts = [[(one["disputed"], one["updates"]) for one in each["branches"]] for each in (before, now)]
    if counts[0] != counts[1]:
        yield f"disputed quads and updates of each branch were {counts[0]}, and are {counts[1]}"


SHOWN: Final = 10
"""Updates of which a difference is printed."""
