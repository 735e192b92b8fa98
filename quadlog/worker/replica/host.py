"""Interface between a replica and its process: producers, and callbacks for what only the process can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadlog.ports import apart

if TYPE_CHECKING:
    from collections.abc import Callable

    from producers.effects import EffectsProducer
    from producers.status import StatusProducer
    from quadlog.broker import Hole
    from quadlog.core.records import Seed
    from quadlog.ports import Backwards, Together
    from quadlog.worker.evaluate.publish_health import PublishHealth
    from quadlog.worker.replica.rates import StartMeter


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishers:
    """Producers of a worker's records."""

    effects: EffectsProducer
    """Producer of the effects that the worker evaluates, and of its fences."""
    status: StatusProducer
    """Producer of its heartbeats."""
    settle: Callable[[], None] | None = None
    """Waits until all effects produced so far are acknowledged; for failpoints."""
    together: Together = apart
    """Context within which the effects of a turn are produced, so that they are sent in one request."""
    publish_health: PublishHealth | None = None
    """Monitor of whether the effects topic accepts records; None: it is assumed to accept them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Callbacks of the process for its replica."""

    failed: Callable[[str], None]
    """Ends the process, with a reason."""
    rebuild: Callable[[str], None]
    """Restarts the process with an empty store, for a reason; raises an error if something prevents that."""
    backwards: Backwards
    """Reads the worker's topics backwards."""
    agreed_end: Callable[[], int]
    """Returns the offset after the last record of the agreed topic; raises Unavailable if no broker reports it."""
    lacks: Callable[[Seed], bool] = lambda _: False
    """Receives the seed that the log begins with; returns True if the store was not made of it."""
    lacks_records: Callable[[Hole], None] = lambda _: None
    """Receives the offsets of records that the log no longer has, and without which nothing can be applied."""
    stretch: StartMeter | None = None
    """Measurement of how fast effects are applied; None: it is not measured."""
