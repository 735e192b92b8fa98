"""docs/http-api.md has the routes of the three doors, all of them and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest
from starlette.routing import BaseRoute, Mount, Route

from quadlog.master.http import app as master
from quadlog.master.muted import app as muted
from quadlog.master.seeds.seeding import Seeding
from quadlog.worker import app as worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.applications import Starlette

GUIDE = (Path(__file__).parents[3] / "docs" / "http-api.md").read_text(encoding="utf-8")
NAMED = re.compile(r"^(?:###|\|) `([A-Z, ]+) (/[^`]*)`", re.MULTILINE)
REGISTRY = "/registry"


def doors() -> dict[str, Starlette]:
    """Each one's application; whatever it would ask is not there."""
    anything = MagicMock()
    return {
        "Masters": master.make_app(
            anything, anything, peers={}, seeding=Seeding(anything, anything, anything)
        ),
        "Muted masters": muted.make_app(anything, anything),
        "Workers": worker.make_app(
            anything, anything, anything, anything, anything, seeds=anything, donor=anything, forks=anything
        ),
    }


def served(routes: Iterable[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Method and path of each route.  Where GET is, Starlette adds HEAD."""
    for route in routes:
        if isinstance(route, Mount):
            yield from served(route.routes, prefix + route.path)
        else:
            assert isinstance(route, Route)
            path = re.sub(r":\w+}", "}", prefix + route.path)
            yield from ((method, path) for method in (route.methods or set()) - {"HEAD"})


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def told(title: str) -> list[tuple[str, str]]:
    """Method and path of each route that a section names, as often as it does."""
    found = NAMED.findall(section(title))
    return [(method, path) for methods, path in found for method in methods.split(", ")]


@pytest.mark.parametrize("title", ["Masters", "Muted masters", "Workers"])
def test_every_route_stands_in_the_document_once(title: str) -> None:
    named = told(title)
    there = set(served(doors()[title].routes))
    if title == "Muted masters":  # said in one line
        there = {(method, path) for method, path in there if not path.startswith(REGISTRY)}
    assert set(named) == there
    assert len(named) == len(set(named))


def test_a_muted_master_answers_every_request_that_a_master_takes() -> None:
    """If only to refuse it with the URLs of others: 404 and 405 would say that it is wrong everywhere."""
    found = doors()
    assert set(served(found["Masters"].routes)) <= set(served(found["Muted masters"].routes))


@pytest.mark.parametrize("title", ["Masters", "Workers"])
def test_every_route_has_an_example(title: str) -> None:
    for part in section(title).split("\n### ")[1:]:
        assert re.search(r"```\ncurl .*(MASTER|WORKER)/", part), part.splitlines()[0]
