"""What tests of several files begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.master.clients.desk import Desk
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
def desk(log: Log) -> Desk:
    return Desk(log.store)
