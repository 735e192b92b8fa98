"""Events: the inputs of a node's thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from quadlog.master.effects.effects_copying import CopyStart
from quadlog.master.log.joining import ForkFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.anchors import Gap
    from quadlog.core.model import Payload
    from quadlog.core.records import Cut, Handover, LoggedEntry, Place
    from quadlog.master.clients.pending_requests import Waiter
    from quadlog.ports import Record


@dataclass(frozen=True, slots=True)
class TransactionOffered:
    """A client submitted a transaction."""

    payload: Payload
    waiter: Waiter


@dataclass(frozen=True, slots=True)
class ClientLeftEarly:
    """The client that waited for a transaction was told to ask again later."""

    transaction_id: bytes
    waiter: Waiter


@dataclass(frozen=True, slots=True)
class PayloadDurable:
    """A payload of this master is durable in its data centre."""

    payload: Payload
    offset: int


@dataclass(frozen=True, slots=True)
class PayloadMirrored:
    """A peer's payload is durable in this data centre."""

    payload: Payload
    offset: int
    source: str
    source_offset: int


@dataclass(frozen=True, slots=True)
class EntryPublished:
    """An entry or a cut is in the agreed topic, to which no other master writes."""

    place: Place | Cut
    offset: int


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """Records that a tail read."""

    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class TopicIdentified:
    """A tail found which topic it reads."""

    topic: str
    identity: str | None
    """Id that Kafka gave to the topic; None: the topic is gone."""
    is_other: bool
    """True if the known offsets belong to another topic, which existed before."""


@dataclass(frozen=True, slots=True)
class TopicShortened:
    """A tail found that a topic does not continue where it was read up to."""

    topic: str
    gap: Gap


@dataclass(frozen=True, slots=True)
class EffectsEndLocated:
    """A handover, completed with the end of the effects of the data centre that must evaluate."""

    handover: Handover


@dataclass(frozen=True, slots=True)
class EntriesRegained:
    """Entries after a cut that only the agreed topic still has: the requested one and those that follow it."""

    entries: Sequence[LoggedEntry]


@dataclass(frozen=True, slots=True)
class WorkerDismissed:
    """An operator states that a worker will not come back."""

    worker: str


@dataclass(frozen=True, slots=True)
class PromotionAsked:
    """An operator asks this master to propose the decisions on synchronous transactions that are due."""

    until: float
    """Steady milliseconds until which it does."""


@dataclass(frozen=True, slots=True)
class StopNode:
    """The process ends."""


Event: TypeAlias = (
    TransactionOffered
    | ClientLeftEarly
    | PayloadDurable
    | PayloadMirrored
    | EntryPublished
    | RecordsRead
    | TopicIdentified
    | TopicShortened
    | EffectsEndLocated
    | CopyStart
    | ForkFound
    | EntriesRegained
    | WorkerDismissed
    | PromotionAsked
    | StopNode
)
