"""Producer of the violations that an audit finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from producers import Producer
from quadlog import codec

if TYPE_CHECKING:
    from quadlog.core.records import Violation
    from quadlog.ports import Acked, Outlet


class ViolationProducer(Producer):
    """Producer of violations."""

    def __init__(self, outlet: Outlet, topic: str) -> None:
        """Write to `topic`."""
        super().__init__(outlet, topic, "audit")

    def publish(self, violation: Violation, acked: Acked, *, at: int) -> None:
        """Write one violation.  `at`: milliseconds since 1970."""
        key = key_of(violation)
        self._write("violation", [codec.encode(violation)], key=key, event=key, at=at, acked=acked)


def key_of(violation: Violation) -> str:
    """Return the key of the record, by which a violation is known."""
    return f"{violation.kind}/{violation.topic}/{violation.offset}"
