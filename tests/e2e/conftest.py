"""One real cluster for the tests that leave it as they found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import Cluster
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three data centres with a broker, a master and two workers each."""
    with running_lab(tmp_path_factory.mktemp("cluster") / "lab", dcs=3, workers=2) as lab:
        yield Cluster(lab)
