"""Settings that all masters of a cluster must share: what a split does, and when it begins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SplitRecovery(StrEnum):
    """What the sides of a split do while they are apart, and when they are together again."""

    QUORUM = "Quorum"
    """A side without a majority agrees on nothing, so nothing is undone afterwards."""
    SMART = "Smart"
    """Both sides continue; then the weaker side gives way, and its transactions are agreed again as new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Values of these settings."""

    split_recovery: SplitRecovery = SplitRecovery.QUORUM
    max_peer_lag: float = 20.0
    """Seconds of silence after which a member of the view is given up; infinite: none is."""

    @property
    def lag_ms(self) -> float:
        """`max_peer_lag` in milliseconds, as the agreement counts time."""
        return self.max_peer_lag * 1000
