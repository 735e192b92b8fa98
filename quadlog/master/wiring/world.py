"""What a node stands in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.broker import KafkaOutlet, RenewableOutlet
    from quadlog.master.effects.sources import Sources
    from quadlog.master.node.inbox import Inbox
    from quadlog.master.retention.topic_monitor import TopicMonitor
    from quadlog.master.topics.sites import Sites
    from quadlog.master.topics.tails import Tails
    from quadlog.master.workers.doors import Doors
    from quadlog.masterstore.store import MasterStore
    from quadlog.settings import MasterSettings
    from quadlog.web.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a node stands in."""

    settings: MasterSettings
    sites: Sites
    store: MasterStore
    outlet: KafkaOutlet
    effects: RenewableOutlet
    """To the own effects alone: they may be full."""
    inbox: Inbox
    tails: Tails
    server: Server
    """Runs what takes longer than a turn."""
    sources: Sources
    monitor: TopicMonitor
    """Of the own topics."""
    doors: Doors
    payloads_end: int
    """Where the own payloads ended at this start."""


def chain_in(store: MasterStore) -> Callable[[int], bytes | None]:
    """Chain hash of the own entry at an index."""

    def chain_at(index: int) -> bytes | None:
        entry = store.entry(index)
        return None if entry is None else entry[0]

    return chain_at
