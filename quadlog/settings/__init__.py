"""Settings: one TOML file; `QUADLOG_…` environment variables take precedence.

Keys are the classic ones of an enterprise RDF cluster (`node-id`, `master-url`, `peer.1.id`, …).
"""

from __future__ import annotations

from quadlog.settings.common import NO_LONGER
from quadlog.settings.master import MasterSettings
from quadlog.settings.membership import PeerSettings, Role
from quadlog.settings.worker import WorkerSettings

__all__ = ["NO_LONGER", "MasterSettings", "PeerSettings", "Role", "WorkerSettings"]
