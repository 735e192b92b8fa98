"""The cluster of the tests: three data centres with a worker each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from quadlog.testing.fixtures import ClusterShape

pytest_plugins = ["quadlog.testing.fixtures"]


@pytest.fixture(scope="session")
def quadlog_shape() -> ClusterShape:
    return {"dcs": 3, "workers": 1, "settings": {"max-peer-lag": 3}}
