"""Topic records other than payloads and posts: entries, effects, evaluation duty, heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.model import GENESIS, START, LogPosition
from quadlog.core.synchronous import COMMIT_MODE, RESUMES, CommitMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.model import TransactionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEntry:
    """An entry as stored in the agreed topic: with its payload and its writer's lineage."""

    index: int
    kind: TransactionKind
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

    @property
    def is_synchronous(self) -> bool:
        """True if it asks to be synchronous."""
        return self.options.get(COMMIT_MODE) == CommitMode.SYNC or RESUMES in self.options


class Outcome(StrEnum):
    """Result of an entry."""

    APPLIED = "APPLIED"
    REJECTED = "REJECTED"
    ROLLED_BACK = "ROLLED_BACK"
    """A synchronous transaction that a ROLLBACK entry decides: it changes nothing."""
    SUSPENDED = "SUSPENDED"
    """A synchronous transaction that a side without a majority sets aside: it changes nothing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The change made by one entry.  Quads are canonical N-Quads lines, graphs are N-Quads terms."""

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
    """True for a chunk whose last line continues in the next chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """Record in an effects topic: the effect of an entry shows that it is synchronous, and no decision was received."""

    index: int
    id: bytes
    entry_chain: bytes
    term: bytes
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Record with which a worker takes over evaluation: what older attempts write after it is void."""

    term: bytes
    attempt: int
    worker: str


class Term(NamedTuple):
    """A term and where it began: two histories of effects are the same up to where their terms differ."""

    epoch: int
    """Epoch of the view that gave the term."""
    id: bytes
    """Id of that view."""
    after: int
    """Index of the last effect before the term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Record that gives the duty to evaluate to a data centre: what other terms write after it is void.

    A view gives the duty to its home; an EVALUATOR entry moves it within the view.
    """

    index: int
    """Index of the EVALUATOR entry that gives the duty; 0: the view gives it."""
    term: bytes
    """Chain hash of that entry, or the view's id."""
    dc: str
    start: int = 0
    """Offset in the effects topic of `dc` at which the term begins; 0: not determined yet, or `dc` is the home."""
    epoch: int = 1
    """Epoch of the view."""
    terms: tuple[Term, ...] = ()
    """Terms of the views that led to this one and of this view, oldest first, without that of the first view."""

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: of two handovers the greater one is newer."""
        return self.epoch, self.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Record in the agreed topic: the log continues after this entry; entries that followed it before are a branch."""

    epoch: int
    """Epoch of the view that its writer has installed; what writers of earlier views write after this is void."""
    lineage: bytes
    """Id of that view."""
    index: int
    chain: bytes
    """Chain hash of the entry at `index`, the last entry that both histories have."""


@dataclass(frozen=True, slots=True)
class Place:
    """The entry that a record of an agreed topic completes, the chain hash before it, and its writer's epoch."""

    epoch: int
    index: int
    chain: bytes
    previous: bytes

    @property
    def point(self) -> LogPosition:
        """Index and chain hash of the entry."""
        return LogPosition(self.index, self.chain)


@dataclass(frozen=True, slots=True)
class Reached:
    """Position up to which an agreed topic was read: a restart continues there and knows which later records count."""

    offset: int = 0
    """Offset after the last record that was processed."""
    end: LogPosition = START
    """The newest entry there that counts, or the entry named by a later cut."""
    epoch: int = 0
    """Epoch of the newest cut there."""
    held: int = 0
    """Index up to which the topic holds this master's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """Record in an effects topic: the state goes back to the state after this effect, and other effects follow."""

    epoch: int
    """Epoch of the view that its writer has installed; what writers of earlier views write after this is void."""
    index: int
    """Index of the last effect that stays."""
    term: bytes
    attempt: int
    """The effects that follow belong to this term and attempt, until a handover or a fence changes them."""
    cut: int
    """Epoch of the newest cut that the data centre's agreed topic has or will have; 0: no cut."""
    kept_at: int | None = None
    """When it was written, in milliseconds since 1970, if workers that had applied later effects by then keep them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The state with which the log begins instead of the empty state."""

    signature: bytes
    quads: int
    digest: bytes
    """Digest of the files of the shipped store, as one stream."""
    at: int
    """Milliseconds since 1970."""
    by: str
    sources: tuple[str, ...]

    @property
    def state(self) -> StateAfter:
        """The seed as the state after index 0."""
        return StateAfter(index=0, id=b"", entry_chain=GENESIS, signature=self.signature)


@dataclass(frozen=True, slots=True)
class EffectsPlace:
    """Position up to which an effects topic was read."""

    offset: int
    """Offset after the last record that was processed."""
    index: int
    """Index of the last effect."""
    attempt: int
    epoch: int
    """Epoch of the newest rewind; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """State that the agreed and effects topics of a data centre lack since they were shortened (decision 35)."""

    last: LogPosition
    """End of the log at that time; nothing up to there is ever cut."""
    reached: Reached
    """Position in the agreed topic."""
    effects: EffectsPlace
    duty: tuple[Handover, Handover] | None
    """Handover of the duty as agreed, and as the effects topic contains it; None: unchanged since the beginning."""
    seed: Seed | None
    agreed_id: str
    """Id of the topic to which `reached` refers."""
    effects_id: str
    """Id of the topic to which `effects` refers."""


class WorkerState(StrEnum):
    """State that a worker reports in its heartbeats."""

    STARTING = "STARTING"
    """The worker lacks the seed with which the log begins, or is still catching up, and does not serve yet."""
    SERVING = "SERVING"
    STOPPING = "STOPPING"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAfter:
    """State after an effect, as the effect reports it: every store that applied the effect must have this state."""

    index: int
    id: bytes
    entry_chain: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrub:
    """Result of the last recount of a worker's stored quads, in a copy of its store."""

    index: int
    """Index of the last effect applied in that copy."""
    at: int
    """End of the recount, in milliseconds since 1970."""
    expected: bytes
    """Signature that the worker recorded at that index."""
    found: bytes
    """Signature of the stored quads."""
    quads: int
    """Number of quads counted."""
    rewound: int = 1
    """Epoch of the newest rewind before the copy was made; used by the worker itself, heartbeats do not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpProgress:
    """Progress of a worker that takes a bundle or a copy before it serves."""

    way: str
    """Value of a `core.catchup.CatchUpMethod`."""
    behind: int
    """Effects that it lacked at the beginning; 0: the log does not reach back to its store."""
    percent: int
    """Approximate progress in percent."""
    left_s: int | None
    """Estimated seconds that remain; None: unknown."""
    obstacle: str = ""
    """What currently prevents it from continuing; empty: nothing."""

    def __str__(self) -> str:
        """Return a phrase for messages."""
        if self.obstacle:
            return f"{self.way}, but {self.obstacle}"
        left = "" if self.left_s is None else f", about {self.left_s} s to go"
        return f"{self.way}, {self.percent} %{left}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Report of a worker, sent after every applied batch and otherwise each second."""

    worker: str
    dc: str
    url: str
    state: WorkerState
    evaluating: bool
    attempt: int
    applied: LogPosition
    signature: bytes
    quads: int
    sent: int
    store: str = ""
    """Name of its store, which changes when the worker is rebuilt."""
    scrub: Scrub | None = None
    scrub_failure: str = ""
    """Why the last attempt to recount failed; empty: it did not."""
    mend: str = ""
    """Why it was not rebuilt when that was requested."""
    epoch: int = 0
    """Epoch of the newest rewind for which it went back; 0: none."""
    catching_up: CatchUpProgress | None = None
    """Progress of the catch-up before it serves."""
    unsaid: str = ""
    """Why the effects that it evaluated and published are not in the effects topic; empty: they are."""
    set_aside: str = ""
    """Its stores that were found damaged and set aside, and why; empty: there are none."""
    fork: int | None = None
    """Index of the last effect that its state shares with the log, if it keeps the branch of a side that gave way."""


class ViolationKind(StrEnum):
    """What an audit finds."""

    FOREIGN_RECORD = "FOREIGN_RECORD"
    """No record of quadlog's."""
    FORGED_ENTRY = "FORGED_ENTRY"
    """An entry whose digest or chain hash is not that of its content."""
    TWO_ENTRIES = "TWO_ENTRIES"
    """A view that has two entries at one index."""
    MISSING_ENTRY = "MISSING_ENTRY"
    """A topic that continues behind an index without its entry."""
    FORGED_EFFECT = "FORGED_EFFECT"
    """An effect whose signature, number of quads or chain hash is not that of its content."""
    TWO_EFFECTS = "TWO_EFFECTS"
    """An attempt that has two effects for one entry."""
    MISSING_EFFECT = "MISSING_EFFECT"
    """A topic that continues behind an index without its effect."""
    WITHOUT_ENTRY = "WITHOUT_ENTRY"
    """An effect of an entry that no data centre has."""
    WRONG_STATE = "WRONG_STATE"
    """A worker whose signature is that of no effect of the entry that it applied last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A record that contradicts others, or itself."""

    kind: ViolationKind
    dc: str
    topic: str
    offset: int
    """Of the record; with topic and kind it identifies the violation."""
    index: int
    """Of the entry that it concerns; 0: not known."""
    explanation: str
