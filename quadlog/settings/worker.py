"""What a worker is set to."""

from __future__ import annotations

import re
from math import inf
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from quadlog.core.catchup import FACTOR, MIN_S, SPEED
from quadlog.settings.common import NodeSettings
from quadlog.settings.units import MIB


def _listed(value: object) -> object:
    """A list as an environment variable has it: with blanks in between."""
    return tuple(value.split()) if isinstance(value, str) else value


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
