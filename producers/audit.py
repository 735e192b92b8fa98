"""Producer of the violations that an audit finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import headers

if TYPE_CHECKING:
    from quadlog.core.records import Violation
    from quadlog.ports import Acked, Outlet


class ViolationProducer:
    """Producer of violations."""

    def __init__(self, outlet: Outlet, topic: str) -> None:
        """Write to `topic`."""
        self._outlet, self._topic = outlet, topic

    def publish(self, violation: Violation, acked: Acked, *, at: int) -> None:
        """Write one violation.  `at`: milliseconds since 1970."""
        key = key_of(violation)
        envelope = headers(event=key, source="audit", kind="quadlog.violation", at=at)
        self._outlet.produce(
            self._topic,
            key=key.encode(),
            values=[codec.encode(violation)],
            headers=envelope,
            acked=acked,
        )


def key_of(violation: Violation) -> str:
    """Return the key of the record, by which a violation is known."""
    return f"{violation.kind}/{violation.topic}/{violation.offset}"
