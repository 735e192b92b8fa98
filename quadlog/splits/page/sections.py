"""Sections of a report in HTML, in the order in which an operator needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadlog.splits.glossary import ANSWERS, CLASSES, changes_outcome
from quadlog.splits.page.elements import element
from quadlog.splits.page.figures import counted, duration, enumerated, number, period, size
from quadlog.splits.page.picture import picture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element


def sides(report: Mapping[str, Any]) -> Element | None:
    """Return the picture, the data centres that are behind or were not reached, and the figures of the sides."""
    if not report["sides"]:
        lanes: list[Element] = []
    else:
        caption = (
            "Grey: the common log. Green: the log that stays. Red: branches, whose updates follow behind it."
        )
        lanes = [element("figure", picture(report), element("figcaption", caption)), _side_table(report)]
    behind = [
        f"{one['dc']} is behind: it ends at entry {number(one['index'])},"
        f" and lacks {counted(one['entries'], 'entry', 'entries')}."
        for one in report["behind"]
    ]
    away = [
        f"{one['dc']} was not reached ({one['reason']}). {one['unknown']}" for one in report["unreachable"]
    ]
    notes = [element("ul", *(element("li", text) for text in (*away, *behind)), class_="notes")]
    return _section("sides", "Sides and forks", *lanes, *(notes if behind or away else []))


def _side_table(report: Mapping[str, Any]) -> Element:
    rows = [
        (
            ", ".join(side["dcs"]), "wins" if side["wins"] else "gives way",
            number(side["fork"]) if side["fork"] is not None else "", number(side["last"]["index"]),
            number(side["length"]), period(side["first_at"], side["last_at"]), _rank(side["rank"]),
            ", ".join(side["masters"]),
        )
        for side in report["sides"]
    ]  # fmt: skip
    columns = (
        ("side", "name"), ("", "word"), ("fork", "count"), ("last entry", "count"), ("entries after the fork", "count"),
        ("received", "name"), ("rank", "name"), ("masters in its view", "name"),
    )  # fmt: skip
    return _table("Sides", columns, rows)


def _rank(rank: Mapping[str, Any] | None) -> str:
    if rank is None:
        return "none"
    decided = "" if rank["decided"] else ", peers undecided"
    return f"majority of epoch {rank['epoch']}, {counted(rank['members'], 'master')}{decided}"


def reasons(report: Mapping[str, Any]) -> Element | None:
    """Return why the winner wins."""
    return _listed("reasons", "Why", report["reasons"])


def classes(report: Mapping[str, Any]) -> Element | None:
    """Return a bar for each class of each branch."""
    cards = [
        element(
            "article",
            element("h3", f"Branch {branch['name']}"),
            element("p", f"{enumerated(branch['dcs'])}: {_contents(branch)}", class_="muted"),
            element(
                "ul", *(_bar(branch, name) for name in CLASSES if branch["classes"].get(name)), class_="bars"
            ),
            *_absent(branch),
        )
        for branch in report["branches"]
    ]
    return (
        _section("classes", "What becomes of the updates", element("div", *cards, class_="cards"))
        if cards
        else None
    )


def _contents(branch: Mapping[str, Any]) -> str:
    parts = [
        counted(branch["updates"], "update"),
        counted(branch["decisions"], "decision"),
        f"{number(len(branch['ended']))} CONFIG",
    ]
    return f"entries {number(branch['fork']['index'] + 1)} to {number(branch['last']['index'])}; {', '.join(parts)}"


def _absent(branch: Mapping[str, Any]) -> list[Element]:
    """Return a line with the classes that no update has; none if each has some."""
    names = [name for name in CLASSES if not branch["classes"].get(name)]
    return [element("p", f"None: {', '.join(names)}.", class_="muted")] if names else []


def _bar(branch: Mapping[str, Any], name: str) -> Element:
    count, listed = branch["classes"][name], branch["shown"].get(name, 0)
    share = 100 * count / max(1, branch["updates"])
    figures = number(count) + (f" ({share:.0f} %)" if share >= 1 else "")
    cut = f" Listed: {number(listed)} of {number(count)}." if listed < count else ""
    bar = element(
        "svg",
        element("rect", width="100%", height=10, class_="whole"),
        element("rect", width="3", height=10, class_=name),
        element("rect", width=f"{share:.2f}%", height=10, class_=name),
        width="100%",
        height=10,
        aria_hidden="true",
    )
    said = element("p", CLASSES[name], element("b", cut), class_="meaning")
    return element(
        "li", element("span", name, class_=f"tag {name}"), element("span", figures, class_="count"), bar, said
    )


def answers(report: Mapping[str, Any]) -> Element | None:
    """Return, for each branch, what clients had been told there, by class."""
    parts = [part for branch in report["branches"] if branch["answers"] for part in _matrix(branch)]
    hint = element(
        "p", "Marked: the client was told something else than what becomes of its update.", class_="muted"
    )
    return _section("answers", "What clients had been told", hint, *parts) if parts else None


def _matrix(branch: Mapping[str, Any]) -> list[Element]:
    told = [
        *(name for name in ANSWERS if name in branch["answers"]),
        *sorted({*branch["answers"]} - {*ANSWERS}),
    ]
    names = [name for name in CLASSES if any(branch["answers"][one].get(name) for one in told)]
    heads = [element("th", name, scope="col", class_="count") for name in ("told", *names, "all")]
    rows = [
        element(
            "tr",
            element("th", ANSWERS.get(one, one), scope="row"),
            *(_cell(one, name, branch["answers"][one].get(name, 0)) for name in names),
            element("td", number(sum(branch["answers"][one].values())), class_="count all"),
        )
        for one in told
    ]
    table = element(
        "table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="matrix"
    )
    return [element("h3", f"Branch {branch['name']}"), _frame(f"Told on branch {branch['name']}", table)]


def _cell(told: str, name: str, count: int) -> Element:
    if not count:
        return element("td", "·", class_="count none")
    if changes_outcome(told, name):
        return element("td", element("mark", f"▲ {number(count)}"), class_="count")
    return element("td", number(count), class_="count")


def ended(report: Mapping[str, Any]) -> Element | None:
    """Return the settings, controls and peers that end with the branches."""
    rows = [
        (branch["name"], number(one["index"]), one["what"], one["id"])
        for branch in report["branches"]
        for one in branch["ended"]
    ]
    columns = (("branch", "code"), ("entry", "count"), ("what ends", "wide"), ("id", "code"))
    hint = element(
        "p",
        "They were agreed on a branch and end with it: set them again if they are wanted.",
        class_="muted",
    )
    return (
        _section("ended", "Settings and controls that end", hint, _table("Ended", columns, rows))
        if rows
        else None
    )


def workers(report: Mapping[str, Any]) -> Element | None:
    """Return what the way back costs each worker."""
    rows = [
        (
            one["worker"], one["dc"], number(one["applied"]), number(one["back"]), number(one["forward"]),
            size(one["bytes"]), duration(one["seconds"]),
        )
        for one in report["workers"]
    ]  # fmt: skip
    columns = (
        ("worker", "name"), ("data centre", "name"), ("applied", "count"), ("effects to undo", "count"),
        ("effects to apply", "count"), ("bytes", "count"), ("estimated time", "count"),
    )  # fmt: skip
    return (
        _section("workers", "Cost for workers", _table("Cost for workers", columns, rows)) if rows else None
    )


def _listed(name: str, title: str, texts: Sequence[str]) -> Element | None:
    return _section(name, title, element("ul", *(element("li", text) for text in texts))) if texts else None


def _section(name: str, title: str, *parts: Element) -> Element:
    return element("section", element("h2", title), *parts, id=name)


def _table(title: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> Element:
    heads = [element("th", text, scope="col", class_=kind) for text, kind in columns]
    lines = [
        element(
            "tr", *(element("td", text, class_=kind) for text, (_, kind) in zip(row, columns, strict=True))
        )
        for row in rows
    ]
    return _frame(title, element("table", element("thead", element("tr", *heads)), element("tbody", *lines)))


def _frame(title: str, table: Element) -> Element:
    return element("div", table, class_="frame", tabindex=0, role="region", aria_label=title)
