"""What tests of several files begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.master.clients.pending_requests import PendingRequests
from quadlog.masterstore.store import MasterStore
from tests.support.masters.desks import Log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    store = MasterStore(tmp_path)
    yield Log(store)
    store.close()


@pytest.fixture
def pending_requests(log: Log) -> PendingRequests:
    return PendingRequests(log.store)
