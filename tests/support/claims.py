"""Modules of tests that several processes of pytest share: whichever is free claims the next one.

A pytest plugin, with `--claims DIRECTORY`.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Claims:
    """In a directory that is empty when the first process begins."""

    def __init__(self, directory: Path) -> None:
        """Nothing is claimed by this process yet."""
        self._directory: Final = directory
        self._own: Final = set[str]()

    def claim(self, name: str) -> bool:
        """Whether no other process had claimed it."""
        if name not in self._own:
            try:
                (self._directory / name.replace("/", ".")).touch(exist_ok=False)
            except FileExistsError:
                return False
            self._own.add(name)
        return True

    def of(self, items: list[pytest.Item]) -> Iterator[pytest.Item]:
        """Tests of modules that this process claims, one after the other."""
        for name, some in groupby(items, key=shared_name):
            if self.claim(name):
                yield from some

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """As pytest's own one, for what is claimed."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        claimed = self.of(session.items)
        item = next(claimed, None)
        while item is not None:
            following = next(claimed, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True


def shared_name(item: pytest.Item) -> str:
    """What is claimed as a whole: what waits of a module, its rest, or all that have a cluster or a Spark session."""
    module, _, _ = item.nodeid.partition("::")
    package, _, _ = module.rpartition("/")
    if "spark" in getattr(item, "fixturenames", ()):
        return "tests with the Spark session"
    name = package if package.endswith("/shared") else module
    return f"{name} waits" if item.get_closest_marker("waits") else name


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--claims`."""
    parser.addoption(
        "--claims", type=Path, metavar="DIRECTORY", help="run modules that no other process runs"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Only where it is asked for."""
    if (directory := config.getoption("--claims")) is not None:
        config.pluginmanager.register(Claims(directory), "claims")
