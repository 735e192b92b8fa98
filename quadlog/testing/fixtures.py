"""Fixtures for pytest: `pytest_plugins = ["quadlog.testing.fixtures"]` in the topmost `conftest.py`.

A cluster is started once for a run, and reset before each test.  Its size: a fixture `quadlog_shape` of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from quadlog.testing.cluster import Backend, QuadlogCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ClusterShape(TypedDict, total=False):
    """Arguments of `QuadlogCluster`."""

    dcs: int
    masters: int
    workers: int
    settings: Mapping[str, Any]
    backend: Backend
    image: str | None


@pytest.fixture(scope="session")
def quadlog_shape() -> ClusterShape:
    """Return the arguments for the cluster of the run; override it for others than those of `QuadlogCluster`."""
    return {}


@pytest.fixture(scope="session")
def quadlog_session_cluster(quadlog_shape: ClusterShape) -> Iterator[QuadlogCluster]:
    """Start the cluster of the run; tests use `quadlog_cluster`."""
    with QuadlogCluster(**quadlog_shape) as cluster:
        yield cluster


@pytest.fixture
def quadlog_cluster(quadlog_session_cluster: QuadlogCluster) -> QuadlogCluster:
    """Return the cluster of the run, healed and without quads: `QuadlogCluster.reset`."""
    quadlog_session_cluster.reset()
    return quadlog_session_cluster
