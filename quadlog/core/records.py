"""What processes tell each other through topics, beside payloads and posts: entries, effects, who evaluates, beats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.model import GENESIS, START, Point

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEntry:
    """An entry as the agreed topic holds it: with its payload, and with its writer's lineage."""

    index: int
    kind: Kind
    id: bytes
    timestamp: int
    digest: bytes
    options: Mapping[str, str]
    previous: bytes
    chain: bytes
    epoch: int
    lineage: bytes
    origin: str
    created: int
    media_type: str
    body: bytes
    traceparent: str = ""


class Outcome(StrEnum):
    """What became of an entry."""

    APPLIED = "APPLIED"
    REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one entry did.  Quads are canonical N-Quads lines, graphs are N-Quads terms."""

    index: int
    id: bytes
    entry_chain: bytes
    term: bytes
    attempt: int
    outcome: Outcome
    reason: str | None = None
    deleted: tuple[str, ...] = ()
    inserted: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    quads: int
    signature_before: bytes
    signature_after: bytes
    chain: bytes
    continues: bool = False
    """Of a chunk: its last line goes on in the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A worker takes over evaluation: what older attempts write after this is void."""

    term: bytes
    attempt: int
    worker: str


class Term(NamedTuple):
    """Who decided, from where on: two histories of effects are the same up to where their terms differ."""

    epoch: int
    """Of the view that gave it."""
    id: bytes
    """Of that view."""
    after: int
    """Index of the last effect before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The duty to evaluate goes to a data centre: what other terms write after this is void.

    A view gives it to its home; an EVALUATOR entry moves it on within the view.
    """

    index: int
    """Of the EVALUATOR entry that says so; 0: the view does."""
    term: bytes
    """Chain hash of that entry, or the view's id."""
    dc: str
    start: int = 0
    """Offset in the effects topic of `dc` behind which the term begins; 0: not said yet, or in the home."""
    epoch: int = 1
    """Of the view."""
    terms: tuple[Term, ...] = ()
    """Of the views that led to this one, and of itself; oldest first, the first view's left out."""

    @property
    def order(self) -> tuple[int, int]:
        """The greater one is the newer one."""
        return self.epoch, self.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """In the agreed topic: what follows stands behind this entry; what stood behind it until now is a branch."""

    epoch: int
    """Of the view that its writer has installed; what writers of earlier views say after this is void."""
    lineage: bytes
    """Id of that view."""
    index: int
    chain: bytes
    """Of the entry at `index`; the last one that both histories have."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which entry is whole with a record of an agreed topic, on which one it stands, and its writer's epoch."""

    epoch: int
    index: int
    chain: bytes
    previous: bytes

    @property
    def point(self) -> Point:
        """The entry's."""
        return Point(self.index, self.chain)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far an agreed topic was followed: a restart goes on there, and knows what counts behind it."""

    offset: int = 0
    """Behind the last record that was taken in."""
    end: Point = START
    """The newest entry there that counts, or the one that was cut behind since."""
    epoch: int = 0
    """Of the newest cut there."""
    held: int = 0
    """Index up to which the topic holds the own log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """In an effects topic: the state goes back to what it was after this effect, and other effects follow."""

    epoch: int
    """Of the view that its writer has installed; what writers of earlier views say after this is void."""
    index: int
    """Of the last effect that stays."""
    term: bytes
    attempt: int
    """What follows is of this term and attempt, until a handover or a fence says otherwise."""
    cut: int | None = None
    """Epoch of the newest cut that the agreed topic beside has or is to have; 0: of none; None: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """What the log begins with instead of the empty state."""

    signature: bytes
    quads: int
    digest: bytes
    """Of the files of the store that was shipped, as one stream."""
    at: int
    """Milliseconds since 1970."""
    by: str
    sources: tuple[str, ...]

    @property
    def state(self) -> StateAfter:
        """As the state after index 0."""
        return StateAfter(index=0, id=b"", entry_chain=GENESIS, signature=self.signature)


@dataclass(frozen=True, slots=True)
class EffectsPlace:
    """How far an effects topic was followed."""

    offset: int
    """Behind the last record that was taken in."""
    index: int
    """Of the last effect."""
    attempt: int
    epoch: int
    """Of the newest rewind; 0: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the agreed and the effects topic of a data centre lack since they were shortened (decision 35)."""

    last: Point
    """The end of the log at that time; up to there nothing is ever cut."""
    reached: Reached
    """In the agreed topic."""
    effects: EffectsPlace
    duty: tuple[Handover, Handover] | None
    """Who is to evaluate: as agreed, and as the effects tell; None: as it was at first."""
    seed: Seed | None
    """What the log begins with."""
    agreed_id: str
    """Of the topic in which `reached` is a place."""
    effects_id: str
    """So too."""


class WorkerState(StrEnum):
    """What a worker says of itself."""

    STARTING = "STARTING"
    """It lacks the seed that the log begins with, or catches up, and does not serve before it has it."""
    SERVING = "SERVING"
    STOPPING = "STOPPING"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAfter:
    """What an effect says of the state after it: every store that applied it has to be that."""

    index: int
    id: bytes
    entry_chain: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrub:
    """What the last recount of a worker's stored quads found, in a copy of its store."""

    index: int
    """Applied in that copy."""
    at: int
    """When it ended; milliseconds since 1970."""
    expected: bytes
    """The signature that was applied at that index."""
    found: bytes
    """The signature of what is stored."""
    quads: int
    """That were counted."""
    rewound: int = 1
    """Epoch of the newest rewind that the copy was made behind; for the worker itself, heartbeats do not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchingUp:
    """How far a worker is that takes a bundle or a copy before it serves."""

    way: str
    """As `core.catchup.Way` has it."""
    behind: int
    """Effects that it lacked when it began; 0: the log does not go back to its store."""
    percent: int
    """Of the way, about."""
    left_s: int | None
    """Seconds to go, about; None: nobody knows."""
    obstacle: str = ""
    """What keeps it from going on now."""

    def __str__(self) -> str:
        """For a sentence."""
        if self.obstacle:
            return f"{self.way}, but {self.obstacle}"
        left = "" if self.left_s is None else f", about {self.left_s} s to go"
        return f"{self.way}, {self.percent} %{left}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a worker says of itself, after every applied batch and each second otherwise."""

    worker: str
    dc: str
    url: str
    state: WorkerState
    evaluating: bool
    attempt: int
    applied: Point
    signature: bytes
    quads: int
    sent: int
    store: str = ""
    """Name of its store: another one once the worker was rebuilt.  Empty: it is too old to say."""
    scrub: Scrub | None = None
    scrub_failure: str = ""
    """Why the last try to recount came to nothing."""
    mend: str = ""
    """Why it was not rebuilt when it was asked to be."""
    epoch: int = 0
    """Of the newest rewind that it went back for; 0: none."""
    catching_up: CatchingUp | None = None
    """What it does before it serves."""
    unsaid: str = ""
    """Why what it is to evaluate is not in the effects topic, though it said that; empty: it is."""
    set_aside: str = ""
    """Which of its stores were found damaged and set aside, and why; empty: none is there."""
