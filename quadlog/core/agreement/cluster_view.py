"""The cluster as one master knows it at one moment: values that any thread may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.model import HardState, LogPosition, Peer, View


class KnownMaster(NamedTuple):
    """What a master's posts have shown."""

    base: LogPosition
    """Its merge base."""
    incarnation: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """State of the agreement after a turn; `Agreement.cluster` makes it, and explains each field."""

    node: str
    standing: HardState
    peers: tuple[Peer, ...]
    undecided: frozenset[str]
    is_peer: bool
    has_majority: bool
    last: LogPosition
    incoming: int
    """Length of the incoming queue."""
    masters: Mapping[str, KnownMaster]
    """The masters that have posted, including this one."""
    heard_at: Mapping[str, float]
    """Steady milliseconds."""
    ignored: Mapping[str, int]
    """Number of posts that were ignored, by their master."""
    idle: float
    """Milliseconds between two posts of a master without news."""

    @property
    def view(self) -> View:
        """The installed view."""
        return self.standing.view
