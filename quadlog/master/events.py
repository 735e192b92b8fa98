"""What happens to a node: the inputs of its thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from quadlog.master.effects.copying import Found
from quadlog.master.log.joining import Forked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.anchors import Gap
    from quadlog.core.model import Payload
    from quadlog.core.records import Cut, Handover, LoggedEntry, Place
    from quadlog.master.clients.desk import Waiter
    from quadlog.ports import Record


@dataclass(frozen=True, slots=True)
class Offered:
    """A client gave a transaction."""

    payload: Payload
    waiter: Waiter


@dataclass(frozen=True, slots=True)
class Left:
    """Whoever waited for a transaction was told to ask again later."""

    transaction_id: bytes
    waiter: Waiter


@dataclass(frozen=True, slots=True)
class Durable:
    """A payload of this master's own is durable in its data centre."""

    payload: Payload
    offset: int


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A peer's payload is durable in this data centre."""

    payload: Payload
    offset: int
    source: str
    source_offset: int


@dataclass(frozen=True, slots=True)
class Published:
    """An entry or a cut is in the agreed topic, where no other master writes."""

    place: Place | Cut
    offset: int


@dataclass(frozen=True, slots=True)
class Told:
    """Records that a tail read."""

    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class Recognised:
    """A tail saw which topic it reads."""

    topic: str
    identity: str | None
    """That Kafka gave it; None: it is gone."""
    is_other: bool
    """Offsets that are known are of another one, that was there before."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """A tail saw that a topic does not go on where it was read up to."""

    topic: str
    gap: Gap


@dataclass(frozen=True, slots=True)
class Located:
    """Where the effects of a data centre end that is to evaluate: what a handover lacked."""

    handover: Handover


@dataclass(frozen=True, slots=True)
class Regained:
    """Entries that only the agreed topic still has, behind a cut: the one that was looked for, and what follows it."""

    entries: Sequence[LoggedEntry]


@dataclass(frozen=True, slots=True)
class Dismissed:
    """An operator says that a worker will not come back."""

    worker: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The process ends."""


Event: TypeAlias = (
    Offered
    | Left
    | Durable
    | Mirrored
    | Published
    | Told
    | Recognised
    | Lacking
    | Located
    | Found
    | Forked
    | Regained
    | Dismissed
    | Stop
)
