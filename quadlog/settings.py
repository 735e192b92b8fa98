"""Settings: one TOML file, `QUADLOG_…` environment variables win.

Keys are the classic ones of an enterprise RDF cluster (`node-id`, `master-url`,
`peer.1.id`, …).  The environment is read here and nowhere else.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from enum import StrEnum
from math import inf
from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from quadlog import failpoints
from quadlog.core.catchup import FACTOR, MIN_S, SPEED
from quadlog.core.consistency import Consistency
from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

MIB = 1024 * 1024

LEAST_LAG: Final = 3
"""Idle rounds that `max-peer-lag` may last at least: who is out of reach is noticed after two and a half, and then
heard by way of another data centre."""
ADVISED_LAG: Final = 5
"""Idle rounds with which a slow link, or a busy machine, does not make it a split."""


def _listed(value: object) -> object:
    """A list as an environment variable has it: with blanks in between."""
    return tuple(value.split()) if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Role(StrEnum):
    """What a master is for."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"
    """A witness: it votes and keeps the log, takes no writes, and its data centre evaluates nothing."""
    MUTED = "muted"
    """It has no vote, and copies the log and the effects of another data centre for its workers."""


def _unless_off(value: object) -> object:
    return None if value == "off" else value


_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(value: object) -> float | None:
    if value is None or value == "off":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value))
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{value!r} is no duration: say it with a unit, as 7d, 12h, 30m or 45s, or off")
    return float(found[1]) * _UNITS[found[2]]


AnyRole = Annotated[Role, BeforeValidator(_lower)]


class Peer(BaseModel):
    """Another master, as `peer.N.…` in the TOML file."""

    model_config = ConfigDict(alias_generator=_kebab, populate_by_name=True, extra="forbid", frozen=True)

    id: str
    dc: str
    url: str
    kafka: str
    voting: bool = True
    """Whether it is a peer where the log begins; what became of that later the log says, and this is not changed."""
    role: AnyRole = Role.READ_WRITE
    """The same as in its own settings, and of all masters of its data centre."""


NO_LONGER: Final = {
    "incremental-update-limit": "a worker reckons with what each way takes, see catch-up",
    "manual-replication": "a worker that needs a copy takes one by itself, see catch-up",
    "remote-replication": "a worker copies one of its own data centre, by itself, see catch-up",
}
"""Settings of systems of this kind that mean nothing here, and what there is instead."""


class NodeSettings(BaseSettings):
    """What masters and workers have in common."""

    model_config = SettingsConfigDict(
        alias_generator=_kebab,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
    )

    node_id: str
    dc: str
    repository: str = "main"
    data_dir: Path
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)]
    kafka: str
    """Bootstrap servers of this data centre's own Kafka."""
    max_transaction_size: Annotated[int, Field(ge=1024)] = 64 * MIB
    """Bytes of one update's text (above it: 413), and of all that one update LOADs."""
    backups: Path | None = None
    """Directory of `quadlog backup`: a worker that nobody gives a copy takes one, a master keeps the log behind it."""
    spark_master: str = "local[2]"
    """Where Spark makes a worker's bundles, and a master's archive."""
    spark_memory: Annotated[int, Field(ge=512)] = 512
    """MB of heap, of its driver and of each executor."""
    log_level: str = "info"
    failpoint: str = ""
    """Where a test lets this process die, see `quadlog.failpoints`."""

    @field_validator("failpoint")
    @classmethod
    def _is_a_failpoint(cls, text: str) -> str:
        failpoints.parse(text)
        return text

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` passes in: it has already laid the environment over the file."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] | None = None) -> Self:
        """Read `path`, lay `QUADLOG_…` over it, validate.

        Raises:
            SetupError: names the file, each wrong key and what it should be.

        """
        try:
            values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # not there, not UTF-8, not TOML
            message = f"settings file {path} cannot be read: {error}"
            raise SetupError(message) from error
        environment = os.environ if environ is None else environ
        for name, instead in NO_LONGER.items():
            if name in values or f"QUADLOG_{name.upper().replace('-', '_')}" in environment:
                message = (
                    f"{name} is no longer supported: {instead}; take it out of {path} and of the environment"
                )
                raise SetupError(message)
        for name in cls.model_fields:
            value = environment.get(f"QUADLOG_{name.upper()}")
            if value is not None:
                values[_kebab(name)] = value
        try:
            return cls(**values)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            message = f"settings in {path} (and QUADLOG_… variables) are not usable: {wrong}"
            raise SetupError(message) from error


class MasterSettings(NodeSettings):
    """Settings of one master."""

    master_url: str
    voting: bool = True
    """Whether this master is a peer where the log begins; the same in what its peers' settings say of it."""
    role: AnyRole = Role.READ_WRITE
    """The same in what its peers' settings say of it: all have to know which data centres evaluate nothing."""
    peer: dict[str, Peer] = Field(default_factory=dict)
    follow: str = ""
    """Of a muted master: the data centre that it copies; unset, the first one by name that is read-write."""
    max_waiting: Annotated[int, Field(ge=1)] = 100_000
    """Transactions that may wait for the agreement, about 1 KB of memory each; above it: 503."""
    max_open_requests_size: Annotated[int, Field(ge=1024)] = 256 * MIB
    """Bytes that open updates may hold together, bodies and 16 KiB for each; above it: 503."""
    request_timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds after which a write that is not decided yet is answered with 503 and `/tx/{id}`."""
    round_window_ms: Annotated[float, Field(ge=0)] = 8.0
    """How long a busy master gathers news before it posts: trades latency for fewer rounds."""
    max_peer_lag: Annotated[float, Field(gt=0)] = inf
    """Seconds without a word from a peer after which it is given up: each side then goes on by itself.  None at all:
    nobody is.  At least `LEAST_LAG` idle rounds."""
    idle_round: Annotated[float, Field(ge=1, le=60)] = 1.0
    """Seconds between the posts of an idle master."""
    read_consistency: Consistency = Consistency.SESSION
    """What a read shows that does not say `Quadlog-Consistency`; the same at every master of a repository."""
    worker_timeout: Annotated[float, Field(gt=0)] = 2.0
    """Seconds without a heartbeat after which a worker counts as down."""
    max_worker_lag: Annotated[float, Field(gt=0)] = 3.0
    """Seconds for which a worker may lack what is decided, and an entry its effect, before an alarm tells."""
    log_max_size: Annotated[Annotated[int, Field(ge=1000)] | None, BeforeValidator(_unless_off)] = None
    """Entries that the topics of this data centre keep, with their effects; above it the oldest go.  `off`: none do."""
    log_max_depth: Annotated[float | None, BeforeValidator(_duration)] = None
    """Seconds, said with a unit (`7d`, `12h`, `30m`, `45s`), after which an entry goes.  `off`: never."""
    log_hard_max_size: Annotated[Annotated[int, Field(ge=1000)] | None, BeforeValidator(_unless_off)] = None
    """Entries above which no worker is waited for that lacks the oldest: it copies another one's store."""
    log_trim_every: Annotated[float, Field(gt=0)] = 60.0
    """Seconds between two looks at these limits."""
    log_archive: Path | None = None
    """Directory to which the log goes before it goes from Kafka, the same one for all masters of a data centre."""
    kafka_replication: Annotated[int, Field(ge=1)] = 1
    """Replication factor of topics that this master creates."""

    @model_validator(mode="after")
    def _peers_are_others(self) -> Self:
        ids = [self.node_id, *(peer.id for peer in self.peer.values())]
        if len(set(ids)) != len(ids):
            message = f"every master needs an id of its own, got {sorted(ids)}"
            raise ValueError(message)
        return self

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
            message = f"log-hard-max-size ({hard}) is below log-max-size ({size}): it is to be above"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _some_vote(self) -> Self:
        named = [(self.node_id, self.dc, self.voting), *((p.id, p.dc, p.voting) for p in self.peer.values())]
        if not any(votes for _, _, votes in named):
            message = "voting is false for all masters: with some of them the log begins, the others are added later"
            raise ValueError(message)
        masters = Counter(dc for _, dc, _ in named)
        for name, dc, votes in named:
            if not votes and masters[dc] > 1:
                message = (
                    f"voting is false for {name}, and {dc} has {masters[dc]} masters: a master that is added later is"
                    " the only one of its data centre"
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _some_write(self) -> Self:
        named = [(self.dc, self.role, self.voting), *((p.dc, p.role, p.voting) for p in self.peer.values())]
        if not any(votes and role is Role.READ_WRITE for _, role, votes in named):
            message = (
                "role is read-only for all masters that the log begins with: one of them has to be read-write, or"
                " nobody takes writes"
            )
            raise ValueError(message)
        for dc in sorted({dc for dc, _, _ in named}):
            if len({role for there, role, _ in named if there == dc}) > 1:
                message = (
                    f"role is read-only for one master of {dc} and read-write for another: a data centre evaluates, or"
                    " it does not, so all of its masters have one role"
                )
                raise ValueError(message)
        return self

    @property
    def source(self) -> str:
        """The data centre that a muted master copies."""
        return self.follow or min(peer.dc for peer in self.peer.values() if peer.role is Role.READ_WRITE)

    @model_validator(mode="after")
    def _muted_follow_others(self) -> Self:
        named = [
            (self.node_id, self.role, self.voting),
            *((p.id, p.role, p.voting) for p in self.peer.values()),
        ]
        for name, role, votes in named:
            if role is Role.MUTED and votes:
                message = (
                    f"role is muted for {name}, and it votes: set its voting to false in the settings of all"
                )
                raise ValueError(message)
        sources = sorted({peer.dc for peer in self.peer.values() if peer.role is not Role.MUTED})
        if self.follow and (self.role is not Role.MUTED or self.follow not in sources):
            message = (
                f"follow is {self.follow}: only a muted master follows, and only another data centre that is not muted"
                f" ({', '.join(sources) or 'none is named'})"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _nobody_is_given_up_too_soon(self) -> Self:
        if self.max_peer_lag < LEAST_LAG * self.idle_round:
            message = (
                f"max-peer-lag ({self.max_peer_lag:g} s) has to be at least {LEAST_LAG} times idle-round"
                f" ({self.idle_round:g} s): who is heard by way of another data centre would be given up before that is"
                f" begun. Set it to {ADVISED_LAG * self.idle_round:g} or more, or leave it out: then nobody is given up"
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


class WorkerSettings(NodeSettings):
    """Settings of one worker."""

    worker_url: str
    heartbeat: Annotated[float, Field(gt=0)] = 0.5
    """Seconds between heartbeats while nothing else is said."""
    update_timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that the evaluation of one update may take; above it: rejected."""
    update_memory: Annotated[int, Field(ge=64 * MIB)] = 2048 * MIB
    """Bytes of memory that the evaluation of one update may take; above it: rejected."""
    control_timeout: Annotated[float, Field(gt=0)] = 10.0
    """Seconds that all controls of one update may take together; above it: rejected."""
    load_from: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """What LOAD may fetch: beginnings of IRIs, each up to a `/`.  A worker stands inside the operator's network."""
    service_endpoints: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """What SERVICE in an update may ask: whole URLs."""
    load_timeout: Annotated[float, Field(gt=0)] = 10.0
    """Seconds in which all has to be there that one update LOADs, or asks a SERVICE: later updates wait for it."""
    scrub_period: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds between two recounts of all that is stored; 0: there are none."""
    scrub_share: Annotated[float, Field(ge=0.01, le=1)] = 0.1
    """Of a core, that a recount may take."""
    rebuild_pause: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds between two rebuilds of a store that was found wrong."""
    catch_up: Literal["auto", "incremental", "compacted", "full"] = "auto"
    """How it comes to the end of the log at its start: effect by effect, by a bundle, by a copy, or as seems best."""
    copy_bandwidth: Annotated[float, Field(gt=0)] = inf
    """Bytes/s at the most of a copy that this worker gives to another one."""
    copy_compression: Literal["auto", "zstd", "snappy", "none"] = "auto"
    """Of a copy that this worker takes; auto: by zstd, unless the way is faster than a core compresses."""
    copy_window: Annotated[int, Field(ge=MIB, le=1024 * MIB)] = 256 * MIB
    """Bytes that zstd looks back in a copy: who takes it lends so much memory, who gives it half as much again."""
    min_time_to_consider_full_replication: Annotated[float, Field(ge=0)] = MIN_S
    """Seconds that it has to take effect by effect before another way is considered."""
    net_speed_bits_per_sec: Annotated[float, Field(gt=0)] = SPEED
    """Of the network to other workers, until a copy of theirs has come through it."""
    full_replication_time_factor: Annotated[float, Field(gt=0)] = FACTOR
    """How many times as long that has to take as the other way."""
    query_timeout: Annotated[float, Field(gt=0)] = 60.0
    """Seconds that a client may wait for a query's work; a query's own `timeout` may only be lower."""
    query_memory: Annotated[int, Field(ge=128 * MIB)] = 1024 * MIB
    """Resident bytes of the process that runs a query, some 50 MB of which it needs for itself; above it: killed."""
    query_rows: Annotated[int, Field(ge=1)] | None = None
    """Rows of one answer, or triples; above it: an error, or a broken transfer.  Unset: any number."""
    query_processes: Annotated[int, Field(ge=1, le=256)] = 16
    """Queries that run at once, each in a process; one process is there at rest."""

    @field_validator("load_from")
    @classmethod
    def _end_where_names_end(cls, beginnings: tuple[str, ...]) -> tuple[str, ...]:
        for beginning in beginnings:
            # `http://host` would also be the beginning of `http://host.example/`.
            if re.fullmatch(r"https?://[^/?#@\\\s]+/([^?#\s]*/)?", beginning) is None:
                message = f"{beginning!r} does not begin with http:// or https:// and a host, or does not end with /"
                raise ValueError(message)
        return beginnings
