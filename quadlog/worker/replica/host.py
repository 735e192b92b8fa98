"""What a replica has of its process: where to say things, and what to do that it cannot do itself."""

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
    from quadlog.worker.evaluate.voice import Voice
    from quadlog.worker.replica.rates import Stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Mouths:
    """Where a worker says what."""

    effects: EffectsProducer
    """What it evaluated."""
    status: StatusProducer
    """How it is."""
    settle: Callable[[], None] | None = None
    """Waits until all that was said is acknowledged; for failpoints."""
    together: Together = apart
    """What effects are said within, so that those of a turn go in one request."""
    voice: Voice | None = None
    """Whether effects are taken; None: they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the process does for its replica."""

    failed: Callable[[str], None]
    """Ends, with a reason."""
    rebuild: Callable[[str], None]
    """Ends for a process with an empty store, with a reason; raises what keeps it from that."""
    backwards: Backwards
    """Reads the worker's topics backwards."""
    agreed_end: Callable[[], int]
    """Offset behind the last record of the agreed topic; raises Unavailable where no broker tells."""
    lacks: Callable[[Seed], bool] = lambda _: False
    """Is told of the seed that the log begins with; whether the store was not made of it."""
    lacks_records: Callable[[Hole], None] = lambda _: None
    """Is told of records that the log does not have any more, without which nothing can be applied."""
    stretch: Stretch | None = None
    """Measures how fast effects are applied."""
