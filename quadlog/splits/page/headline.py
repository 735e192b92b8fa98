"""What happened or will happen, for a person who reads nothing else of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadlog.splits.glossary import CLASSES, OPEN, changes_outcome, is_gained, is_lost
from quadlog.splits.page.elements import element
from quadlog.splits.page.figures import counted, enumerated, moment, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from xml.etree.ElementTree import Element


def headline(report: Mapping[str, Any]) -> Element:
    """Return what happened or will happen, for a person who reads nothing else, and the plan hash."""
    is_preview = report["kind"] == "preview"
    strategy = report["strategy"] or "not agreed: that of the settings files, or the default"
    facts = (
        ("Plan hash", element("code", report["plan"], class_="hash")),
        ("Kind", report["kind"]),
        ("Repository", report["repository"]),
        ("Made", moment(report["made_at"])),
        ("split-recovery", strategy),
    )
    return element(
        "header",
        element(
            "p",
            "Preview: nothing of this has happened yet" if is_preview else "Report: this has happened",
            class_=f"kind {report['kind']}",
        ),
        element("h1", _headline(report)),
        element("ul", *_summary(report), class_="summary"),
        element("dl", *(element("div", element("dt", name), element("dd", fact)) for name, fact in facts)),
    )


def _headline(report: Mapping[str, Any]) -> str:
    is_preview = report["kind"] == "preview"
    if not report["sides"]:
        return "No side is known: no data centre was reached."
    winner, branches = report["sides"][0], report["branches"]
    name = enumerated(winner["dcs"])
    if not branches:
        reached = " among the data centres that were reached" if report["unreachable"] else ""
        return (
            f"There is no split{reached}: {name} {'has' if len(winner['dcs']) == 1 else 'have'} the only log."
        )
    if winner["wins"]:
        begin = f"{name} {'will win' if is_preview else 'won'}"
    else:
        begin = f"No side wins by rank, and {name} is named first"
    updates = sum(branch["updates"] for branch in branches)
    changed = sum(_told(branch, changes_outcome) for branch in branches)
    one = f"{counted(updates, 'update')} of the other {'side' if len(branches) == 1 else 'branches'}"
    verb = "will have" if is_preview else "has" if changed == 1 else "have"
    if not changed:
        known = (
            "known outcome"
            if any(branch["classes"].get(name) for branch in branches for name in OPEN)
            else "outcome"
        )
        verb = "will differ" if is_preview else "differs"
        return f"{begin}: no {known} of {one} {verb} from what clients were told."
    return f"{begin}: {number(changed)} of {one} {verb} another outcome than clients were told."


def _summary(report: Mapping[str, Any]) -> Iterator[Element]:
    for branch in report["branches"]:
        lost = [
            branch["answers"].get("APPLIED", {}).get(name, 0) * is_lost("APPLIED", name) for name in CLASSES
        ]
        listed = ", ".join(
            f"{number(count)} {name}" for name, count in zip(CLASSES, lost, strict=True) if count
        )
        figures = (
            ("Told applied, but refused or changed", sum(lost), f" ({listed})"),
            ("Told not applied, but it changes quads", _told(branch, is_gained), ""),
            ("Outcome not known yet", sum(branch["classes"].get(name, 0) for name in OPEN), ""),
            ("Settings, controls and peers that end", len(branch["ended"]), ""),
            ("Disputed quads", branch["disputed"], ""),
        )
        said = [f" {title}: {number(count)}{more}." for title, count, more in figures if count]
        begin = f", branch {branch['name']}, {counted(branch['updates'], 'update')}."
        yield element(
            "li", element("b", enumerated(branch["dcs"])), begin, *(said or [" Nothing differs for clients."])
        )
    if report["unreachable"]:
        names = enumerated([one["dc"] for one in report["unreachable"]])
        yield element(
            "li", element("b", f"Not reached: {names}."), " What is unknown because of that is listed below."
        )


def _told(branch: Mapping[str, Any], holds: Callable[[str, str], bool]) -> int:
    return sum(
        count
        for told, classes in branch["answers"].items()
        for name, count in classes.items()
        if holds(told, name)
    )
