"""What users build on changes only when somebody says so: `pytest --rewrite` fills the list in for review."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import consumers
import producers
import schemas
from quadlog import errors
from quadlog.cli import app
from quadlog.failpoints import Failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    import pytest

LIST = Path(__file__).parent / "api_surface.txt"


def commands(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - typer's own copy of click
    """Commands with their options, as users type them."""
    if inner := getattr(command, "commands", {}):
        for name, one in inner.items():
            yield from commands(one, f"{path} {name}")
        return
    words = sorted(word for one in command.params for word in one.opts if word != "--help")
    yield f"command  {path} {' '.join(words)}".rstrip()


def names(module: ModuleType) -> Iterator[str]:
    """Public classes and functions of a module, with the methods of the classes."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", "") != module.__name__:
            continue
        if inspect.isclass(thing):
            inner = [one for one in vars(thing) if not one.startswith("_")]
            yield f"class    {module.__name__}.{name}: {' '.join(sorted(inner))}".rstrip(": ")
        elif inspect.isfunction(thing):
            yield f"function {module.__name__}.{name}{inspect.signature(thing)}"


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def surface() -> Iterator[str]:
    """All of it."""
    yield from commands(typer.main.get_command(app), "quadlog")
    for module in (errors, schemas, *modules(consumers), *modules(producers)):
        yield from names(module)
    yield from (f"schema   {number} {name}" for number, name in schemas.IDS.items())
    yield from (f"failpoint {one.value}" for one in Failpoint)


def test_the_surface_is_as_reviewed(request: pytest.FixtureRequest) -> None:
    there = "".join(f"{line}\n" for line in sorted(surface()))
    if request.config.getoption("--rewrite"):
        LIST.write_text(there, encoding="utf-8")
    assert there == LIST.read_text(encoding="utf-8"), "run pytest --rewrite, and look at the difference"
