"""World: everything that a node uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadlog.broker import KafkaOutlet, RenewableOutlet
    from quadlog.master.effects.copy_start import CopyStartFinder
    from quadlog.master.node.inbox import Inbox
    from quadlog.master.retention.topic_monitor import TopicMonitor
    from quadlog.master.topics.sites import Sites
    from quadlog.master.topics.tails import Tails
    from quadlog.master.workers.worker_client import WorkerClient
    from quadlog.masterstore.store import MasterStore
    from quadlog.settings import MasterSettings
    from quadlog.web.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Environment of a node: settings, store, Kafka and server."""

    settings: MasterSettings
    sites: Sites
    store: MasterStore
    outlet: KafkaOutlet
    effects: RenewableOutlet
    """Producer for the local effects topic only, which may be full."""
    inbox: Inbox
    tails: Tails
    server: Server
    """Runs what takes longer than a turn of the node."""
    sources: CopyStartFinder
    monitor: TopicMonitor
    """Monitor of the local topics."""
    worker_client: WorkerClient
    payloads_end: int
    """End offset of the local payloads topic at this start."""
