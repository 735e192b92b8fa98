"""The masters and their roles; these settings are the same at all masters."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from quadlog.settings.common import NodeSettings, lower
from quadlog.settings.environment import kebab
from quadlog.settings.kafka_security import KafkaCredentials, KafkaSecuritySettings


class Role(StrEnum):
    """Role of a master."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"
    """A witness: it votes and keeps the log, accepts no writes, and its data centre evaluates nothing."""
    MUTED = "muted"
    """It has no vote, and copies the log and the effects of another data centre for its workers."""


AnyRole = Annotated[Role, BeforeValidator(lower)]


class PeerSettings(KafkaSecuritySettings):
    """Another master, `peer.N.…` in the TOML file."""

    model_config = ConfigDict(alias_generator=kebab, populate_by_name=True, extra="forbid", frozen=True)

    id: str
    """Its `node-id`."""
    dc: str
    """Its data centre."""
    url: str
    """Its `master-url`."""
    kafka: str
    """Bootstrap servers of its data centre's Kafka."""
    voting: bool = True
    """True if it is a peer at the beginning of the log.

    The log records later changes; this setting stays as it is.
    """
    role: AnyRole = Role.READ_WRITE
    """Role as in its own settings; the same for all masters of its data centre."""


class MembershipSettings(NodeSettings):
    """Settings of one master in relation to the others."""

    voting: bool = True
    """True if this master is a peer at the beginning of the log; the same in its peers' settings of it."""
    role: AnyRole = Role.READ_WRITE
    """Role, also in its peers' settings: all masters must know which data centres evaluate nothing."""
    peer: dict[str, PeerSettings] = Field(default_factory=dict)
    """The other masters, also those of its own data centre; N only tells them apart.

    In variables: `QUADLOG_PEER__2__URL` is `peer.2.url`.
    """
    follow: str = ""
    """For a muted master: the data centre that it copies; unset, the first read-write one by name."""

    @classmethod
    def peer_fields(cls) -> frozenset[str]:
        """Return the settings of each peer."""
        return frozenset(kebab(name) for name in PeerSettings.model_fields)

    @property
    def source(self) -> str:
        """The data centre that a muted master copies."""
        return self.follow or min(peer.dc for peer in self.peer.values() if peer.role is Role.READ_WRITE)

    @cached_property
    def kafka_credentials(self) -> dict[str, KafkaCredentials]:
        """Those of the peers' Kafkas, too; see `NodeSettings.kafka_credentials`."""
        found = super().kafka_credentials
        for key, peer in self.peer.items():
            try:
                credentials = peer.credentials(self)
            except ValueError as error:
                raise ValueError(f"peer.{key}: {error}") from None
            if found.setdefault(peer.kafka, credentials) != credentials:
                raise ValueError(
                    f"peer.{key}: other settings have other credentials for {peer.kafka}: give one"
                )
        return found

    @model_validator(mode="after")
    def _peers_are_others(self) -> Self:
        ids = [self.node_id, *(peer.id for peer in self.peer.values())]
        if len(set(ids)) != len(ids):
            raise ValueError(f"every master needs an id of its own, got {sorted(ids)}")
        return self

    @model_validator(mode="after")
    def _some_vote(self) -> Self:
        named = [(self.node_id, self.dc, self.voting), *((p.id, p.dc, p.voting) for p in self.peer.values())]
        if not any(votes for _, _, votes in named):
            raise ValueError(
                "voting is false for all masters: with some of them the log begins, the others are added later"
            )
        masters = Counter(dc for _, dc, _ in named)
        for name, dc, votes in named:
            if not votes and masters[dc] > 1:
                raise ValueError(
                    f"voting is false for {name}, and {dc} has {masters[dc]} masters: a master that is added later is"
                    " the only one of its data centre"
                )
        return self

    @model_validator(mode="after")
    def _some_write(self) -> Self:
        named = [(self.dc, self.role, self.voting), *((p.dc, p.role, p.voting) for p in self.peer.values())]
        if not any(votes and role is Role.READ_WRITE for _, role, votes in named):
            raise ValueError(
                "role is read-only for all masters that the log begins with: one of them has to be read-write, or"
                " nobody takes writes"
            )
        for dc in sorted({dc for dc, _, _ in named}):
            if len({role for there, role, _ in named if there == dc}) > 1:
                raise ValueError(
                    f"role is read-only for one master of {dc} and read-write for another: a data centre evaluates, or"
                    " it does not, so all of its masters have one role"
                )
        return self

    @model_validator(mode="after")
    def _muted_follow_others(self) -> Self:
        named = [
            (self.node_id, self.role, self.voting),
            *((p.id, p.role, p.voting) for p in self.peer.values()),
        ]
        for name, role, votes in named:
            if role is Role.MUTED and votes:
                raise ValueError(
                    f"role is muted for {name}, and it votes: set its voting to false in the settings of all"
                )
        sources = sorted({peer.dc for peer in self.peer.values() if peer.role is not Role.MUTED})
        if self.follow and (self.role is not Role.MUTED or self.follow not in sources):
            raise ValueError(
                f"follow is {self.follow}: only a muted master follows, and only another data centre that is not muted"
                f" ({', '.join(sources) or 'none is named'})"
            )
        return self
