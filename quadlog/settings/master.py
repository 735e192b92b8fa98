"""Settings of a master."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from quadlog.core.cluster_settings import SETTINGS, ClusterSettings, SplitApproval, SplitRecovery
from quadlog.core.consistency import Consistency  # noqa: TC001 - pydantic reads the annotation
from quadlog.errors import UserError
from quadlog.settings.membership import MembershipSettings, Role
from quadlog.settings.units import MIB


def _unless_off(value: object) -> object:
    return None if value == "off" else value


_SHARED: Final = ClusterSettings()
LEAST_LAG: Final = 3
"""Minimum of `max-peer-lag` in idle rounds.

An unreachable data centre is noticed after two and a half, and then heard by way of another one.
"""
ADVISED_LAG: Final = 5
"""Advised idle rounds: a slow link or a busy machine does not cause a split then."""


class MasterSettings(MembershipSettings):
    """Settings of one master."""

    master_url: str
    """URL at which clients and other masters reach it."""
    max_waiting: Annotated[int, Field(ge=1)] = 100_000
    """Maximum transactions that wait for the agreement, about 1 KB of memory each; above it: 503."""
    max_open_requests_size: Annotated[int, Field(ge=1024)] = 256 * MIB
    """Maximum bytes that open updates may occupy together, bodies and 16 KiB for each; above it: 503."""
    request_timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds after which a write that is not decided yet is answered with 504 and `/tx/{id}`."""
    round_window_ms: Annotated[float, Field(ge=0)] = 8.0
    """Milliseconds for which a busy master gathers news before it posts: trades latency for fewer rounds."""
    # Those from here to `full_replication_time_factor` count until an entry of the log sets them: `ClusterSettings`.
    split_recovery: SplitRecovery = _SHARED.split_recovery
    split_approval: SplitApproval = _SHARED.split_approval
    max_peer_lag: float = _SHARED.max_peer_lag
    read_consistency: Consistency = _SHARED.read_consistency
    log_max_size: int | None = _SHARED.log_max_size
    log_max_depth: float | None = _SHARED.log_max_depth
    min_time_to_consider_full_replication: float = _SHARED.min_time_to_consider_full_replication
    sync_graphs: tuple[str, ...] = _SHARED.sync_graphs
    synchro_quorum: str = _SHARED.synchro_quorum
    synchro_timeout: float = _SHARED.synchro_timeout
    net_speed_bits_per_sec: float = _SHARED.net_speed_bits_per_sec
    full_replication_time_factor: float = _SHARED.full_replication_time_factor
    idle_round: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Seconds between the posts of an idle master."""
    worker_timeout: Annotated[float, Field(gt=0)] = 2.0
    """Seconds without a heartbeat after which a worker counts as down."""
    max_worker_lag: Annotated[float, Field(gt=0)] = 3.0
    """Seconds for which a worker may lack a decided entry, or an entry its effect, before an alarm is raised."""
    log_hard_max_size: Annotated[Annotated[int, Field(ge=200)] | None, BeforeValidator(_unless_off)] = None
    """Entries above which the log is not kept for a worker that lacks the oldest: it copies another worker's store.

    At least 200; `off`: no limit.
    """
    log_trim_every: Annotated[float, Field(gt=0)] = 60.0
    """Seconds between two checks of these limits."""
    log_archive: Path | None = None
    """Archive directory for entries that will be deleted; the same for all masters of a data centre."""
    split_reports: Annotated[int, Field(ge=0, le=1000)] = 20
    """Reports of splits that this master keeps, the newest ones; 0: it makes none, and starts no Spark for them."""
    kafka_replication: Annotated[int, Field(ge=1)] = 1
    """Replication factor of topics that this master creates."""

    @property
    def cluster(self) -> ClusterSettings:
        """The settings that all masters share."""
        fields = [setting.field for setting in SETTINGS.values()]
        return ClusterSettings(**{field: getattr(self, field) for field in fields})

    def with_cluster(self, shared: ClusterSettings) -> Self:
        """Return these settings with other values of those that all masters share.

        Raises:
            UserError: they do not go with the other settings of this master.

        """
        given = self.model_dump(by_alias=True) | {name: shared.text(name) for name in SETTINGS}
        try:
            return self.model_validate(given)
        except ValidationError as error:
            reasons = "; ".join(one["msg"] for one in error.errors())
            raise UserError(f"{self.node_id} cannot take this: {reasons}") from None

    @model_validator(mode="after")
    def _limits_mean_something(self) -> Self:
        size, hard = self.log_max_size, self.log_hard_max_size
        is_any = size is not None or self.log_max_depth is not None
        if is_any and self.role is Role.MUTED:
            raise ValueError(
                "a muted master's topics are not shortened: take log-max-size and log-max-depth out"
            )
        if self.log_archive is not None and not is_any:
            raise ValueError("log-archive says where the log goes: set log-max-size or log-max-depth, too")
        if hard is not None and not is_any:
            raise ValueError(
                "log-hard-max-size says how long workers are waited for: set log-max-size or log-max-depth, too"
            )
        if hard is not None and size is not None and hard < size:
            raise ValueError(f"log-hard-max-size ({hard}) must be greater than log-max-size ({size})")
        return self

    @model_validator(mode="after")
    def _nobody_is_given_up_too_soon(self) -> Self:
        if self.max_peer_lag < LEAST_LAG * self.idle_round:
            raise ValueError(
                f"max-peer-lag ({self.max_peer_lag:g} s) has to be at least {LEAST_LAG} times idle-round"
                f" ({self.idle_round:g} s): a master that is heard by way of another data centre would be given up"
                f" before that starts. Set it to {ADVISED_LAG * self.idle_round:g} or more, or to off:"
                " then no master is given up"
            )
        return self

    @model_validator(mode="after")
    def _largest_fits(self) -> Self:
        if self.max_open_requests_size < self.max_transaction_size * 3 + MIB:
            raise ValueError(
                f"max-open-requests-size ({self.max_open_requests_size}) has to be at least three times"
                f" max-transaction-size ({self.max_transaction_size}) and 1 MiB, or the largest update never fits"
            )
        return self
