"""Brokers that are slow, or full, and what was said to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Acked, Headers


class Spout:
    """An outlet as it tells of itself."""

    def __init__(self) -> None:
        self.waits_since: float | None = None
        self.refusal = ""
        self.is_settled = True
        self.said: list[str] = []
        self.given_up = 0
        self.renewed = 0

    def produce(self, topic: str, **_: object) -> None:
        self.said.append(topic)

    def give_up(self) -> None:
        self.given_up += 1
        self.waits_since, self.refusal = None, ""

    def renew(self) -> None:
        self.renewed += 1


@dataclass
class Broker:
    """An outlet that keeps what is said, and acknowledges when it is told to."""

    payloads: list[bytes] = field(default_factory=list)
    unanswered: list[Acked] = field(default_factory=list)

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Keep payloads."""
        del headers, values
        if topic == "payloads":
            self.payloads.append(key)
            if acked:
                self.unanswered.append(acked)

    def answer(self) -> None:
        """Acknowledge all."""
        for acked in self.unanswered:
            acked(0)
        self.unanswered.clear()
