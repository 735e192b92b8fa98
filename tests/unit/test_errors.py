"""The tree of errors is drawn as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quadlog import errors
from quadlog.errors import QuadlogError

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAWN = re.compile(r"^ {4}(?P<branches>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +(?P<status>\d{3}))?")


def drawn() -> Iterator[tuple[str, str, int | None]]:
    """Each error, the one above it, and its status where the drawing gives one."""
    above = list[str]()
    for line in (errors.__doc__ or "").splitlines():
        if found := DRAWN.match(line):
            depth = len(found["branches"]) // 4
            del above[depth:]
            status = int(found["status"]) if found["status"] else None
            yield found["name"], above[-1] if above else "Exception", status
            above.append(found["name"])


def defined(base: type[QuadlogError]) -> Iterator[type[QuadlogError]]:
    """The errors of that module below one."""
    for error in base.__subclasses__():
        if error.__module__ == errors.__name__:
            yield error
            yield from defined(error)


def test_the_drawing_has_every_error_where_it_is() -> None:
    there = {error.__name__: error.__bases__[0].__name__ for error in defined(QuadlogError)}
    assert {name: above for name, above, _ in drawn()} == {"QuadlogError": "Exception", **there}


def test_each_status_is_that_of_its_class() -> None:
    told = {name: status for name, _, status in drawn() if status is not None}
    assert len(told) > 15
    assert told == {name: getattr(errors, name).status for name in told}
