"""What a master asks of the process that makes reports of splits, and what that answers: one JSON text each.

The request is the standard input of that process, because it has logins, which must not be in arguments; see
`quadlog/splits/unattended/report_process.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from quadlog.settings.kafka_security import KafkaCredentials, SecurityProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class EndedSide(NamedTuple):
    """A side that gave way, as one of its masters posts it."""

    node: str
    dc: str
    at: int
    """Milliseconds since 1970."""
    fork: int
    """Index of the last entry of its own log that stayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """The sides whose reports are missing, and where and how to make them."""

    directory: str
    """Each report becomes a directory in this one."""
    repository: str
    kafkas: Mapping[str, str]
    """Bootstrap servers, by data centre."""
    credentials: Mapping[str, KafkaCredentials]
    """By bootstrap servers."""
    archive: str | None
    """As in `log-archive`."""
    spark_master: str
    spark_memory: int
    """MB of heap."""
    scratch: str
    sides: tuple[EndedSide, ...]
    urgent: tuple[EndedSide, ...]
    """Those of them whose report must not wait for what is missing in it: there is no later attempt."""
    known: tuple[str, ...]
    """Names of the branches that have a report."""

    def to_json(self) -> str:
        """Return the text, which has the secrets of the logins."""
        logins = {
            servers: {"protocol": found.protocol.value, "values": dict(found.values)}
            for servers, found in self.credentials.items()
        }
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "kafkas": dict(self.kafkas), "credentials": logins})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the request that `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["credentials"] = {
            servers: KafkaCredentials(protocol=SecurityProtocol(one["protocol"]), values=one["values"])
            for servers, one in fields["credentials"].items()
        }
        for name in ("sides", "urgent"):
            fields[name] = tuple(EndedSide(*one) for one in fields[name])
        fields["known"] = tuple(fields["known"])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutcome:
    """What became of a request."""

    made: tuple[str, ...] = ()
    """Names of the new reports."""
    missing: tuple[tuple[EndedSide, str], ...] = ()
    """Sides of which something is not there yet, each with the reason."""
    failed: tuple[tuple[EndedSide, str], ...] = ()
    """Sides of which no report could be made, each with the reason."""
    error: str = ""
    """Why no side was examined; empty if all were."""

    def to_json(self) -> str:
        """Return the text, in one line."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the outcome that `to_json` wrote.

        Raises:
            ValueError: the text is none.

        """
        try:
            fields: dict[str, Any] = json.loads(text)
            lists = {
                name: tuple((EndedSide(*side), str(reason)) for side, reason in fields[name])
                for name in ("missing", "failed")
            }
            return cls(made=tuple(fields["made"]), error=fields["error"], **lists)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no outcome: {text[:200]}") from error
