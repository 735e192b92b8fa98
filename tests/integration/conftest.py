"""What several of these tests begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.branches import Logs
from tests.integration.copies import Taker, new_taker
from tests.integration.rehearsal import Log, Worker
from tests.integration.sides import COMMON, OURS, THEIRS, Split

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log() -> Log:
    """Topics as lists, without anything in them."""
    return Log()


@pytest.fixture
def worker(tmp_path: Path, log: Log) -> Worker:
    """It evaluates."""
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    return worker


@pytest.fixture
def logs() -> Logs:
    """Two logs that part."""
    return Logs()


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Each side has gone on by itself."""
    return Split(tmp_path, COMMON, OURS, THEIRS)


@pytest.fixture
def taker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taker:
    """It has a store, at index 3."""
    return new_taker(tmp_path, monkeypatch)


@pytest.fixture
def anyio_backend() -> str:
    """What asynchronous tests run on."""
    return "asyncio"
