"""docs/log-events.md has each event that is logged, with its levels and fields; each is a key."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[3]
TABLES: Final = (ROOT / "docs" / "log-events.md").read_text(encoding="utf-8")
CODE: Final = [path for part in ("quadlog", "producers", "consumers") for path in (ROOT / part).rglob("*.py")]
LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
"""Of each method of a logger."""
KEY: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LOGGER: Final = re.compile(r".*get_logger\(.*")
ASKED: Final = re.compile(r"\blogged\(\s*\w+,\s*\"([^\"]*)\"")
"""An event that a test looks for in the log of a cluster."""
LONGEST_CELL: Final = 120


@dataclass
class Event:
    """What all calls of one event have in common, or what its row says."""

    levels: set[str] = field(default_factory=set[str])
    fields: set[str] = field(default_factory=set[str])
    is_open: bool = False
    """Whether a call has a dictionary of fields."""


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Each call of a logger: of `log`, or of what `quadlog.lean.logger` gives."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="log") | ast.Call(func=ast.Name(id="logger")), attr=method
                )
            ) if method in LEVELS:
                yield node
            case _:
                pass


def names(node: ast.expr) -> list[str]:
    """The event, or both of a conditional expression; the expression itself where it is no literal."""
    match node:
        case ast.Constant(value=str() as name):
            return [name]
        case ast.IfExp(body=one, orelse=other):
            return names(one) + names(other)
        case _:
            return [ast.unparse(node)]


def logged() -> dict[str, Event]:
    found: dict[str, Event] = {}
    for path in CODE:
        for call in calls(ast.parse(path.read_text(encoding="utf-8"))):
            assert isinstance(call.func, ast.Attribute)
            for name in names(call.args[0]):
                event = found.setdefault(name, Event())
                event.levels.add(LEVELS[call.func.attr])
                event.fields |= {keyword.arg for keyword in call.keywords if keyword.arg} - {"exc_info"}
                event.is_open |= any(keyword.arg is None for keyword in call.keywords)
    return found


def rows() -> list[list[str]]:
    """Of all tables: event, levels, fields, meaning."""
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in TABLES.splitlines()
        if line.startswith("| `")
    ]


def test_each_event_is_a_key() -> None:
    found = logged()
    assert len(found) > 100
    assert [name for name in found if not KEY.fullmatch(name)] == []


def test_each_logger_is_called_log() -> None:
    """Else its events would not be found here."""
    lines = {line for path in CODE for line in LOGGER.findall(path.read_text(encoding="utf-8"))}
    assert lines == {"log = structlog.get_logger()", "    return structlog.get_logger()"}


def test_each_event_that_a_test_looks_for_is_logged() -> None:
    """Else it would be a test of nothing where there is to be none."""
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    asked = {event for text in tests for event in ASKED.findall(text)}
    assert len(asked) > 10
    assert asked <= set(logged())


def test_each_event_has_one_row() -> None:
    assert sorted(row[0] for row in rows()) == sorted(f"`{name}`" for name in logged())


def test_its_row_has_its_levels_and_fields() -> None:
    found = logged()
    for name, levels, fields, _ in rows():
        event, told = found[name.strip("`")], set(re.findall(r"`(\w+)`", fields))
        assert event.levels == set(levels.split(", ")), name
        assert told >= event.fields if event.is_open else told == event.fields, name


def test_each_cell_is_short() -> None:
    assert [row[0] for row in rows() if max(map(len, row)) > LONGEST_CELL] == []
