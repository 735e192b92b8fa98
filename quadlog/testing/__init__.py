"""Clusters for tests of programs that use quadlog: on containers, or as processes where there is no Docker.

Needs the extra: `pip install quadlog[testing]`.

    QuadlogContainer  one container with everything in it
    QuadlogCluster    a cluster with faults: cuts, slow links, killed and paused processes
    fixtures          for pytest: `pytest_plugins = ["quadlog.testing.fixtures"]`
"""

from quadlog.testing.cluster import AppliedState, Backend, QuadlogCluster
from quadlog.testing.container import QuadlogContainer

__all__ = ["AppliedState", "Backend", "QuadlogCluster", "QuadlogContainer"]
