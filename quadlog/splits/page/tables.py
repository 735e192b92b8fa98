"""Tables of a report that may have thousands of rows: their frames are markup, their rows are filled in by the script.

A row is the number of its branch, its class (or ""), 1 if its client has to be told of another outcome (or 0), and then
the text of each cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quadlog.splits.glossary import ANSWERS, CLASSES, OPEN, changes_outcome
from quadlog.splits.page.elements import element
from quadlog.splits.page.figures import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

Cell = TypeVar("Cell")
_MORE: Final = "quadlog split {kind} DIRECTORY --details NUMBER"
_TALL: Final = 10
"""Rows from which on a table has a height of its own, in which it scrolls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTable:
    """A table with filters."""

    name: str
    title: str
    columns: Sequence[tuple[str, str]]
    """Heading and kind of each column: a class of the style sheet."""
    rows: Sequence[Sequence[str | int]]
    total: int
    """Number of rows if all were listed."""
    more: str
    """Command that lists more."""
    branches: Sequence[str]
    classes: Sequence[str] = ()
    """Classes that rows have, if rows have classes."""

    def section(self) -> Element:
        """Return heading, filters, and the table without its rows."""
        columns = [element("col", class_=kind) for _, kind in self.columns]
        heads = [element("th", title, scope="col", class_=kind) for title, kind in self.columns]
        table = element(
            "table",
            element("colgroup", *columns),
            element("thead", element("tr", *heads)),
            element("tbody"),
            class_=self.name,
        )
        frame = element(
            "div",
            table,
            class_="frame tall" if len(self.rows) > _TALL else "frame",
            tabindex=0,
            role="region",
            aria_label=self.title,
        )
        no_script = element(
            "p", "These rows need JavaScript; all of them are in report.json, too.", class_="cut"
        )
        return element(
            "section",
            element("h2", self.title),
            self._note(),
            element("noscript", no_script),
            self._filters(),
            frame,
            self._pages(),
            id=self.name,
            class_="rows",
        )

    def _note(self) -> Element:
        if len(self.rows) == self.total:
            text = f"All {number(self.total)} are listed." if self.total > 1 else "It is listed."
            return element("p", text, class_="muted")
        listed = f"Listed: {number(len(self.rows))} of {number(self.total)}."
        return element("p", element("b", listed), " More: ", element("code", self.more), ".", class_="cut")

    def _filters(self) -> Element:
        fields = [_labelled("Text", element("input", type="search", autocomplete="off", spellcheck="false"))]
        if len(self.branches) > 1:
            options = [element("option", name, value=place) for place, name in enumerate(self.branches)]
            select = element("select", element("option", "all branches", value=""), *options)
            fields.append(_labelled("Branch", select))
        if self.classes:
            boxes = [_box(name, name, f"tag {name}") for name in self.classes]
            fields += [
                element("fieldset", element("legend", "Classes (none checked: all)"), *boxes),
                _box("Only those whose client was told something else", "changed", "changed"),
            ]
        return element("div", *fields, class_="filters", role="search", aria_label=f"Filters of {self.title}")

    def _pages(self) -> Element:
        buttons = [
            element("button", text, type="button", value=step, disabled="")
            for text, step in (("First", "first"), ("Previous", "-1"), ("Next", "1"), ("Last", "last"))
        ]
        state = element("output", f"{number(len(self.rows))} rows", aria_live="polite")
        return element("div", *buttons, state, class_="pages")


def update_table(report: Mapping[str, Any]) -> RowTable:
    """Return the table of the updates of all branches."""
    branches = report["branches"]
    names = [branch["name"] for branch in branches]
    classes = {one["class"] for branch in branches for one in branch["transactions"]}
    return RowTable(
        name="updates",
        title="Updates",
        columns=(
            *_if_several(names, ("branch", "branch code")), ("entry", "count"), ("class", "class"),
            ("told there", "word"), ("here", "word"), ("quads there", "change"), ("quads here", "change"),
            ("became entry", "count"), ("reason", "wide"), ("id", "code"),
        ),
        rows=[
            (place, one["class"], int(changes_outcome(one["told"], one["class"])),
             *_if_several(names, names[place]), *_cells(one))
            for place, branch in enumerate(branches) for one in branch["transactions"]
        ],
        total=sum(branch["updates"] for branch in branches),
        more=_MORE.format(**report),
        branches=names,
        classes=[name for name in CLASSES if name in classes],
    )  # fmt: skip


def disputed_table(report: Mapping[str, Any]) -> RowTable:
    """Return the table of the disputed quads of all branches."""
    branches = report["branches"]
    names = [branch["name"] for branch in branches]
    return RowTable(
        name="disputed",
        title="Disputed quads",
        columns=(
            *_if_several(names, ("branch", "branch code")), ("quad", "wide code"), ("at the fork", "state"),
            ("winner", "state"), ("branch", "state"), ("result", "state"), ("winner's entry", "count"),
            ("branch's entry", "count"),
        ),
        rows=[
            (place, "", 0, *_if_several(names, names[place]), one["line"],
             *("yes" if one[state] else "no" for state in ("base", "winner", "branch", "result")),
             number(one["winner_index"]), number(one["branch_index"]))
            for place, branch in enumerate(branches) for one in branch["disputed_quads"]
        ],
        total=sum(branch["disputed"] for branch in branches),
        more=_MORE.format(**report),
        branches=names,
    )  # fmt: skip


def _if_several(names: Sequence[str], cell: Cell) -> tuple[Cell, ...]:
    """Return the cell about the branch, unless there is only one branch."""
    return (cell,) if len(names) > 1 else ()


def _cells(one: Mapping[str, Any]) -> tuple[str, ...]:
    told = _without_status(one["told"])
    if one["outcome"]:
        outcome = _without_status(one["outcome"])
    else:
        outcome = "not known" if one["class"] in OPEN else "as the winner's"
    there = f"there: {one['reason_there']}" if one["reason_there"] else ""
    return (
        number(one["index"]),
        one["class"],
        f"{told}, synchronous" if one["synchronous"] else told,
        outcome,
        f"-{number(one['deleted_there'])} +{number(one['inserted_there'])}",
        f"-{number(one['deleted'])} +{number(one['inserted'])}",
        "" if one["became"] is None else number(one["became"]),
        "\n".join(reason for reason in (one["reason"], there) if reason),
        one["id"],
    )


def _without_status(told: str) -> str:
    return ANSWERS.get(told, told).split(" (")[0]


def _labelled(text: str, field: Element) -> Element:
    return element("label", element("span", text), field)


def _box(text: str, value: str, kind: str) -> Element:
    return element(
        "label",
        element("input", type="checkbox", value=value),
        element("span", text, class_=kind),
        class_="box",
    )
