"""Fixtures that all tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab_helpers import running_broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One real broker for all tests of the run: its bootstrap string.  Use topics of your own."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite`: the scenarios' answers are written anew, for review."""
    parser.addoption("--rewrite", action="store_true", help="write the scenarios' answers anew")
