"""Fixtures that all tests share."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from quadlog.kafka.ports import PORTS, bounds
from tests.lab_helpers import running_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.terminal import TerminalReporter

SLOWEST = 50


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One real broker for all tests of the run: its bootstrap string.  Use topics of your own."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap


settings.register_profile("shared", deadline=None)  # on a machine that others use a test may wait for a core
settings.load_profile("shared")


def pytest_configure() -> None:
    """Processes of pytest that run side by side have ports of their own: whoever is down keeps its port."""
    process, count = os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    if process is not None:
        lowest, highest = bounds()
        share = (highest - lowest) // int(count)
        lowest += share * int(process.removeprefix("gw"))
        os.environ[PORTS] = f"{lowest}-{lowest + share}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole clusters first, since they take longest, and the shared one last of them: it idles to the end."""
    shared = {item.path for item in items if "cluster" in getattr(item, "fixturenames", ())}

    def place(item: pytest.Item) -> int:
        if item.path in shared:
            return 2 if item.get_closest_marker("spoils") else 1
        return 0 if item.nodeid.startswith("tests/e2e/") else 3

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """With `--junitxml`: a table of the slowest tests, in seconds with set-up and teardown, next to that file."""
    if not (xml := terminalreporter.config.getoption("xmlpath", None)):
        return
    took = defaultdict[str, float](float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[report.nodeid] += report.duration
    slowest = sorted(took.items(), key=lambda of: -of[1])[:SLOWEST]
    lines = [f"{seconds:8.1f}  {test}\n" for test, seconds in slowest]
    table = Path(xml).with_suffix(".txt")
    table.write_text("".join([f"{sum(took.values()):8.1f}  all {len(took)} tests\n", *lines]))
    terminalreporter.write_line(f"the slowest tests: {table}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite`: the scenarios' answers are written anew, for review."""
    parser.addoption("--rewrite", action="store_true", help="write the scenarios' answers anew")
