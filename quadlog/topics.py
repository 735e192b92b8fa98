"""Names of the topics of one repository in one data centre."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topics:
    """Every topic has one partition: its order is the point.

    >>> Topics("main", "dc1").agreed
    'main.dc1.agreed'
    """

    repository: str
    dc: str

    def _name(self, what: str) -> str:
        return f"{self.repository}.{self.dc}.{what}"

    @property
    def payloads(self) -> str:
        """Transactions as given, this DC's own and the peers' as mirrored."""
        return self._name("payloads")

    @property
    def rounds(self) -> str:
        """Posts of this DC's masters."""
        return self._name("rounds")

    @property
    def agreed(self) -> str:
        """The synchronised queue."""
        return self._name("agreed")

    @property
    def effects(self) -> str:
        """What each entry did."""
        return self._name("effects")

    @property
    def status(self) -> str:
        """Heartbeats of this DC's workers."""
        return self._name("status")

    @property
    def checkpoint(self) -> str:
        """What the log lacks since it was shortened, by the master that said so; compacted."""
        return self._name("checkpoint")

    @property
    def followed(self) -> tuple[str, ...]:
        """Those in which an offset means something after a restart, or to another data centre."""
        return self.payloads, self.rounds, self.agreed, self.effects

    def all(self) -> tuple[str, ...]:
        """All of them."""
        return *self.followed, self.status, self.checkpoint
