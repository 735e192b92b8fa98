"""Settings of a master."""

from __future__ import annotations

import re
from enum import StrEnum  # noqa: TC003 - pydantic reads the annotation
from math import inf
from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from quadlog.core.cluster_settings import ClusterSettings, SplitRecovery
from quadlog.core.consistency import Consistency
from quadlog.settings.membership import MembershipSettings, Role
from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable


def _unless_off(value: object) -> object:
    return None if value == "off" else value


def _unless_off_ever(value: object) -> object:
    return inf if value == "off" else value


def _of(kinds: type[StrEnum]) -> Callable[[object], object]:
    """Return a validator that finds a value of an enumeration whatever its case, and names all if there is none."""

    def found(value: object) -> object:
        for kind in kinds:
            if str(value).strip().lower() == kind.value.lower():
                return kind
        raise ValueError(f"{value!r} is none of {', '.join(kinds)}")

    return found


_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(value: object) -> float | None:
    if value is None or value == "off":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value))
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{value!r} is no duration: say it with a unit, as 7d, 12h, 30m or 45s, or off")
    return float(found[1]) * _UNITS[found[2]]


LEAST_LAG: Final = 3
"""Minimum of `max-peer-lag` in idle rounds.

An unreachable data centre is noticed after two and a half, and then heard by way of another one.
"""
ADVISED_LAG: Final = 5
"""Advised idle rounds: a slow link or a busy machine does not cause a split then."""


class MasterSettings(MembershipSettings):
    """Settings of one master."""

    master_url: str
    max_waiting: Annotated[int, Field(ge=1)] = 100_000
    """Maximum transactions that wait for the agreement, about 1 KB of memory each; above it: 503."""
    max_open_requests_size: Annotated[int, Field(ge=1024)] = 256 * MIB
    """Maximum bytes that open updates may occupy together, bodies and 16 KiB for each; above it: 503."""
    request_timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds after which a write that is not decided yet is answered with 504 and `/tx/{id}`."""
    round_window_ms: Annotated[float, Field(ge=0)] = 8.0
    """Milliseconds for which a busy master gathers news before it posts: trades latency for fewer rounds."""
    split_recovery: Annotated[SplitRecovery, BeforeValidator(_of(SplitRecovery))] = SplitRecovery.QUORUM
    """What the sides of a split do; the same at every master.

    `Quorum`: a side without a majority of the voting data centres accepts no writes, and nothing is undone
    afterwards.  `Smart`: each side continues on its own; then the weaker side gives way.
    """
    max_peer_lag: Annotated[float, BeforeValidator(_unless_off_ever), Field(gt=0)] = 20.0
    """Seconds without a post from a peer after which it is given up; `off`: no peer is given up, all wait for it.

    The same at every master.  At least `LEAST_LAG` idle rounds.
    """
    idle_round: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Seconds between the posts of an idle master."""
    read_consistency: Consistency = Consistency.SESSION
    """Consistency of a read without a `Quadlog-Consistency` header; the same at every master of a repository."""
    worker_timeout: Annotated[float, Field(gt=0)] = 2.0
    """Seconds without a heartbeat after which a worker counts as down."""
    max_worker_lag: Annotated[float, Field(gt=0)] = 3.0
    """Seconds for which a worker may lack a decided entry, or an entry its effect, before an alarm is raised."""
    log_max_size: Annotated[Annotated[int, Field(ge=200)] | None, BeforeValidator(_unless_off)] = None
    """Maximum entries, with effects, in this data centre's topics; older ones are deleted.  `off`: no limit."""
    log_max_depth: Annotated[float | None, BeforeValidator(_duration)] = None
    """Seconds, with a unit (`7d`, `12h`, `30m`, `45s`), after which an entry is deleted.  `off`: never."""
    log_hard_max_size: Annotated[Annotated[int, Field(ge=200)] | None, BeforeValidator(_unless_off)] = None
    """Entries above which the log is not kept for a worker that lacks the oldest: it copies another worker's store."""
    log_trim_every: Annotated[float, Field(gt=0)] = 60.0
    """Seconds between two checks of these limits."""
    log_archive: Path | None = None
    """Archive directory for entries that will be deleted; the same for all masters of a data centre."""
    kafka_replication: Annotated[int, Field(ge=1)] = 1
    """Replication factor of topics that this master creates."""

    @property
    def cluster(self) -> ClusterSettings:
        """The settings that all masters share."""
        return ClusterSettings(split_recovery=self.split_recovery, max_peer_lag=self.max_peer_lag)

    @model_validator(mode="after")
    def _limits_mean_something(self) -> Self:
        size, hard = self.log_max_size, self.log_hard_max_size
        is_any = size is not None or self.log_max_depth is not None
        if is_any and self.role is Role.MUTED:
            message = "a muted master's topics are not shortened: take log-max-size and log-max-depth out"
            raise ValueError(message)
        if self.log_archive is not None and not is_any:
            message = "log-archive says where the log goes: set log-max-size or log-max-depth, too"
            raise ValueError(message)
        if hard is not None and not is_any:
            message = "log-hard-max-size says how long workers are waited for: set log-max-size or log-max-depth, too"
            raise ValueError(message)
        if hard is not None and size is not None and hard < size:
            message = f"log-hard-max-size ({hard}) must be greater than log-max-size ({size})"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _nobody_is_given_up_too_soon(self) -> Self:
        if self.max_peer_lag < LEAST_LAG * self.idle_round:
            message = (
                f"max-peer-lag ({self.max_peer_lag:g} s) has to be at least {LEAST_LAG} times idle-round"
                f" ({self.idle_round:g} s): a master that is heard by way of another data centre would be given up"
                f" before that starts. Set it to {ADVISED_LAG * self.idle_round:g} or more, or to off:"
                " then no master is given up"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _largest_fits(self) -> Self:
        if self.max_open_requests_size < self.max_transaction_size * 3 + MIB:
            message = (
                f"max-open-requests-size ({self.max_open_requests_size}) has to be at least three times"
                f" max-transaction-size ({self.max_transaction_size}) and 1 MiB, or the largest update never fits"
            )
            raise ValueError(message)
        return self
