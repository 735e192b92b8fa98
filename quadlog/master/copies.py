"""Copies of effects: from the home's topic into every other data centre's, and into the home's from where the duty is.

A restart reads on where the oldest copy that was not acknowledged came from: it may copy twice, which consumers pass
over, and leaves nothing out.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from quadlog.envelope import EVALUATED_IN, MIRRORED

if TYPE_CHECKING:
    from producers.effects import EffectsMirror
    from quadlog.ports import Record


class Copies:
    """Owned by the node's thread; acknowledgements come on the producer's."""

    def __init__(self, mirror: EffectsMirror, *, dc: str, home: str) -> None:
        """Nothing is under way.

        Args:
            mirror: writes to the own data centre's topic.
            dc: this data centre.
            home: topic of the home, from which all others copy.

        """
        self._mirror, self._dc, self._home = mirror, dc.encode(), home
        self._sent: dict[str, deque[int]] = {}
        self._acked: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()

    def wants(self, record: Record) -> bool:
        """Is it to be copied: of the home's what was not written here, of the others' what was written there?"""
        if record.topic == self._home:
            return record.header(EVALUATED_IN) != self._dc
        return record.header(MIRRORED) is None

    def send(self, record: Record) -> None:
        """Copy it."""
        topic = record.topic

        def acked(offset: int) -> None:
            del offset
            self._acked[topic] += 1  # by the producer's thread alone

        self._sent.setdefault(topic, deque()).append(record.offset)
        self._mirror.copy(record, acked)

    def position(self, topic: str, heard: int) -> int:
        """Where a restart has to read on in a topic that was heard up to an offset."""
        sent = self._sent.get(topic)
        while sent and self._taken[topic] < self._acked[topic]:
            sent.popleft()
            self._taken[topic] += 1
        return min(sent[0], heard) if sent else heard
