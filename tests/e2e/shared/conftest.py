"""One real cluster for the tests that leave it as they found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.shared_brokers import BROKERS
from tests.support.web import Web, running_web

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def web() -> Iterator[Web]:
    """Documents that the cluster may LOAD: those in /open/."""
    with running_web() as web:
        yield web


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory, web: Web) -> Iterator[Cluster]:
    """Three data centres with a broker, a master and two workers each."""
    directory = tmp_path_factory.mktemp("cluster") / "lab"
    settings = {
        "QUADLOG_LOAD_FROM": f"{web.url}/open/",
        "QUADLOG_SERVICE_ENDPOINTS": f"{web.url}/open/sparql",
        "QUADLOG_IDLE_ROUND": "1",  # the default: so is what is said of links that are slow
    }
    with BROKERS.lab(directory, dcs=3, workers=2, environment=settings, repository="main") as lab:
        yield Cluster(lab)
