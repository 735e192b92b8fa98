"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from quadlog.kafka.ports import PORTS, bounds
from tests.support.labs import running_broker
from tests.support.record import Record
from tests.support.shared_brokers import BROKERS

pytest_plugins = ["tests.support.claims"]
os.environ.setdefault(
    "TESTCONTAINERS_RYUK_DISABLED", "true"
)  # before it is imported: its image may not be there

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One real broker for all tests of the run: its bootstrap string.  Use topics of your own.

    A run that has labs, too, uses one of their brokers: another one would idle beside them.
    """
    if any(item.nodeid.startswith("tests/e2e/") for item in request.session.items):
        yield BROKERS.bootstrap()
    else:
        with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker.bootstrap


WAITING = ("tests/e2e/", "tests/integration/", "tests/bench/")
"""Where tests that wait are; the processes that begin with them collect no others."""

settings.register_profile("shared", deadline=None)  # on a machine that others use a test may wait for a core
settings.load_profile("shared")


def pytest_configure(config: pytest.Config) -> None:
    """Processes of pytest that run beside each other have ports of their own: whoever is down keeps its port."""
    config.pluginmanager.register(Record(), "record")
    number, _, count = os.environ.get("TEST_LANE", "0/1").partition("/")
    lowest, highest = bounds()
    share = (highest - lowest) // int(count)
    lowest += share * int(number)
    os.environ[PORTS] = f"{lowest}-{lowest + share}"


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Brokers that labs had in common end with the run."""
    BROKERS.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a cluster wait; what waits comes first.

    Of that, what measures a part; then the shared cluster, and what spoils it behind what does not.
    """
    for item in items:
        if item.nodeid.startswith("tests/e2e/"):
            item.add_marker(pytest.mark.waits)
        if item.get_closest_marker("waits"):
            assert item.nodeid.startswith(WAITING), (
                f"{item.nodeid}: not where `make test` looks for what waits"
            )
        for mark in item.iter_markers("long"):
            assert mark.args, f"{item.nodeid}: long needs a reason"

    def place(item: pytest.Item) -> int:
        if item.nodeid.startswith("tests/e2e/shared/"):
            return 2 if item.get_closest_marker("spoils") else 1
        if item.nodeid.startswith("tests/e2e/"):
            return 3
        return 0 if item.get_closest_marker("waits") else 4

    items.sort(key=place)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite`: the expected texts of scenarios and of the API surface are written again, for review."""
    parser.addoption("--rewrite", action="store_true", help="write the expected texts again")
