"""The cluster as one master knows it at one moment: values that any thread may read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.cluster_settings import ClusterSettings
    from quadlog.core.model import HardState, LogPosition, Peer, RejoinReport, View


class KnownMaster(NamedTuple):
    """What a master's posts have shown."""

    base: LogPosition
    """Its merge base."""
    incarnation: bytes
    rejoined: RejoinReport | None
    """What it gave up when it gave way last, as its last post says."""


@dataclass(frozen=True, slots=True)
class UndecidedTransaction:
    """A synchronous transaction without a decision."""

    index: int
    id: bytes
    since: float
    """Steady milliseconds at which this master had it agreed, or started; infinite: just now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimboView:
    """The undecided synchronous transactions, and what they wait for."""

    length: int
    first: tuple[UndecidedTransaction, ...]
    """The first ones, in the order of the log."""
    quorum: int
    """Number of data centres that must have a transaction."""
    confirmations: Mapping[str, int]
    """By data centre in the view, the index up to which it has the log durably."""
    last_decision: tuple[int, str, int] | None
    """Index, kind and target of the newest decision that is remembered."""


class JoinPhase(StrEnum):
    """Phase of a master that gives way to a stronger side, in their order; `docs/agreement.md` explains them."""

    NONE = "none"
    """It gives way to no other side."""
    JOINING = "joining"
    """It asks to be let in, and searches for the entry at which the logs part."""
    READING = "beside-begun"
    """It reads the other side's log next to its own."""
    VOTED = "vote-saved"
    """It has voted for a view that lets it in."""
    INSTALLED = "installed"
    """Its log is that of the view; effects of its branch are not revoked in its data centre's topic yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """State of the agreement after a turn, made by `Agreement.cluster`; its properties explain the fields."""

    node: str
    standing: HardState
    peers: tuple[Peer, ...]
    undecided: frozenset[str]
    is_peer: bool
    has_majority: bool
    is_half: bool
    """True if the members are exactly half of the voting data centres, so that no other side is a majority."""
    may_agree: bool
    """False if this side waits for others: by `split-recovery` it adds nothing to the log without a majority."""
    held: View | None
    """View of a stronger side that this master does not join, because nobody has approved it."""
    settings: ClusterSettings
    """The settings that all masters share."""
    limbo: LimboView
    last: LogPosition
    incoming: int
    """Length of the incoming queue."""
    beside: LogPosition | None
    """Position up to which the log of the side to join was read."""
    is_branch: bool
    """True if effects of a branch are in this data centre's topic, and not revoked."""
    masters: Mapping[str, KnownMaster]
    """The masters that have posted, including this one."""
    heard_at: Mapping[str, float]
    """Steady milliseconds."""
    last_heard: Mapping[str, float]
    """Steady milliseconds at which each other member of the view was heard last, or at which the view began."""
    ignored: Mapping[str, int]
    """Number of posts that were ignored, by their master."""
    idle: float
    """Milliseconds between two posts of a master without news."""

    @property
    def view(self) -> View:
        """The installed view."""
        return self.standing.view

    @property
    def is_together(self) -> bool:
        """True if all peers are in the installed view, and no change of it is under way."""
        standing = self.standing
        is_settled = standing.joining is None and standing.pending is None and not standing.given_up
        return is_settled and {peer.node for peer in self.peers} == {*standing.view.members}

    @property
    def join_phase(self) -> JoinPhase:
        """How far this master has given way to a stronger side."""
        joining, ballot = self.standing.joining, self.standing.pending
        if joining is None:
            return JoinPhase.INSTALLED if self.is_branch else JoinPhase.NONE
        if ballot is not None and joining.id in {ballot.parent, ballot.id}:  # else it is its own side's
            return JoinPhase.VOTED
        return JoinPhase.JOINING if self.beside is None else JoinPhase.READING
