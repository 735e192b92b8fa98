"""Settings of a worker."""

from __future__ import annotations

import re
from math import inf
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from quadlog.core.catchup import FACTOR, MIN_S, SPEED
from quadlog.settings.common import NodeSettings
from quadlog.settings.units import MIB


def _listed(value: object) -> object:
    """Split the value of an environment variable, a list separated by blanks."""
    return tuple(value.split()) if isinstance(value, str) else value


class WorkerSettings(NodeSettings):
    """Settings of one worker."""

    worker_url: str
    """URL at which masters and other workers of its data centre reach it."""
    heartbeat: Annotated[float, Field(gt=0)] = 0.5
    """Seconds between heartbeats while nothing else is published."""
    update_timeout: Annotated[float, Field(gt=0)] = 30.0
    """Maximum seconds for the evaluation of one update; above it: rejected."""
    update_memory: Annotated[int, Field(ge=64 * MIB)] = 2048 * MIB
    """Maximum bytes of memory for the evaluation of one update; above it: rejected."""
    control_timeout: Annotated[float, Field(gt=0)] = 10.0
    """Maximum seconds for all controls of one update together; above it: rejected."""
    load_from: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Prefixes of IRIs that LOAD may fetch, each up to a `/`.  A worker runs inside the operator's network.

    In a variable they are separated by blanks.
    """
    service_endpoints: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Whole URLs that SERVICE in an update may query.  In a variable they are separated by blanks."""
    load_timeout: Annotated[float, Field(gt=0)] = 10.0
    """Maximum seconds until all that one update LOADs or queries from a SERVICE has arrived: later updates wait."""
    scrub_period: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds between two recounts of all stored quads; 0: no recounts."""
    scrub_share: Annotated[float, Field(ge=0.01, le=1)] = 0.1
    """Share of a core that a recount may use."""
    rebuild_pause: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds between two rebuilds of a store that was found wrong."""
    catch_up: Literal["auto", "incremental", "compacted", "full"] = "auto"
    """Way to the end of the log at its start: effect by effect, by a bundle, by a copy, or the best of these."""
    copy_bandwidth: Annotated[float, Field(gt=0)] = inf
    """Maximum bytes/s of a copy that this worker sends to another one."""
    copy_compression: Literal["auto", "zstd", "snappy", "none"] = "auto"
    """Compression of a copy that this worker receives; auto: zstd, unless the link is faster than a core compresses."""
    copy_window: Annotated[int, Field(ge=MIB, le=1024 * MIB)] = 256 * MIB
    """Bytes that zstd looks back in a copy: memory for the receiver; the sender needs half as much again."""
    # These three count until an entry of the log sets them: `ClusterSettings`.
    min_time_to_consider_full_replication: float = MIN_S
    net_speed_bits_per_sec: float = SPEED
    full_replication_time_factor: float = FACTOR
    query_timeout: Annotated[float, Field(gt=0)] = 60.0
    """Maximum seconds for which a client may wait for a query's work; a query's own `timeout` may only be lower."""
    query_memory: Annotated[int, Field(ge=128 * MIB)] = 1024 * MIB
    """Maximum resident bytes that a query adds to its process, which itself needs some 50 MB; above it: killed."""
    query_rows: Annotated[int, Field(ge=1)] | None = None
    """Maximum rows or triples of one answer; above it: an error, or a broken transfer.  Unset: no limit."""
    query_processes: Annotated[int, Field(ge=1, le=256)] = 16
    """Maximum queries that run at once, each in its own process; one process is kept when idle."""

    @field_validator("load_from")
    @classmethod
    def _end_where_names_end(cls, beginnings: tuple[str, ...]) -> tuple[str, ...]:
        for beginning in beginnings:
            # `http://host` is also a prefix of `http://host.example/`.
            if re.fullmatch(r"https?://[^/?#@\\\s]+/([^?#\s]*/)?", beginning) is None:
                raise ValueError(
                    f"{beginning!r} does not begin with http:// or https:// and a host, or does not end with /"
                )
        return beginnings
