"""Names of the topics of one repository in one data centre."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of the topics.  Every topic has one partition, because the order of all its records matters.

    >>> Topics("main", "dc1").agreed
    'main.dc1.agreed'
    """

    repository: str
    dc: str

    def _name(self, what: str) -> str:
        return f"{self.repository}.{self.dc}.{what}"

    @property
    def payloads(self) -> str:
        """Transactions as received from clients: this data centre's, and mirrored copies of the peers'."""
        return self._name("payloads")

    @property
    def rounds(self) -> str:
        """Posts of this data centre's masters."""
        return self._name("rounds")

    @property
    def agreed(self) -> str:
        """The synchronised queue."""
        return self._name("agreed")

    @property
    def effects(self) -> str:
        """Effects of the entries."""
        return self._name("effects")

    @property
    def status(self) -> str:
        """Heartbeats of this data centre's workers."""
        return self._name("status")

    @property
    def checkpoint(self) -> str:
        """Checkpoints, which replace the deleted beginning of the log; keyed by the writing master, and compacted."""
        return self._name("checkpoint")

    @property
    def audit(self) -> str:
        """Violations that `quadlog audit run` has found; only it makes this topic, in one data centre."""
        return self._name("audit")

    @property
    def followed(self) -> tuple[str, ...]:
        """Topics whose offsets matter after a restart, or to another data centre."""
        return self.payloads, self.rounds, self.agreed, self.effects

    def all(self) -> tuple[str, ...]:
        """Return the names of all topics that masters make."""
        return *self.followed, self.status, self.checkpoint
