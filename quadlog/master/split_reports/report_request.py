"""What a master asks of the process that makes reports of splits, and what that answers: one JSON text each.

The request is the standard input of that process, because it has logins, which must not be in arguments; see
`quadlog/splits/unattended/report_process.py`.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import NamedTuple

from pydantic import BaseModel

from quadlog.settings.kafka_security import KafkaCredentials  # noqa: TC001 - pydantic reads the annotation


class EndedSide(NamedTuple):
    """A side that gave way, as one of its masters posts it."""

    node: str
    dc: str
    at: int
    """Milliseconds since 1970."""
    fork: int
    """Index of the last entry of its own log that stayed."""


class WantedReports(BaseModel, frozen=True):
    """The sides whose reports are missing."""

    sides: tuple[EndedSide, ...]
    urgent: tuple[EndedSide, ...]
    """Those of them whose report must not wait for what is missing in it: there is no later attempt."""
    known: tuple[str, ...]
    """Names of the branches that have a report."""


class ReportRequest(WantedReports, frozen=True, hide_input_in_errors=True):
    """What is wanted, and where and how to make it.  Its JSON has the secrets of the logins."""

    directory: Path
    """Each report becomes a directory in this one."""
    repository: str
    kafkas: Mapping[str, str]
    """Bootstrap servers, by data centre."""
    credentials: Mapping[str, KafkaCredentials]
    """By bootstrap servers."""
    archive: Path | None
    """As in `log-archive`."""
    spark_master: str
    spark_memory: int
    """MB of heap."""
    scratch: Path


class ReportOutcome(BaseModel, frozen=True):
    """What became of a request."""

    made: tuple[str, ...] = ()
    """Names of the new reports."""
    missing: tuple[tuple[EndedSide, str], ...] = ()
    """Sides of which something is not there yet, each with the reason."""
    failed: tuple[tuple[EndedSide, str], ...] = ()
    """Sides of which no report could be made, each with the reason."""
    error: str = ""
    """Why no side was examined; empty if all were."""
