"""Interfaces to Kafka, which `quadlog.broker` implements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from quadlog.errors import ForeignRecord

Headers = list[tuple[str, bytes]]
"""Kafka record headers, in order."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record in the only partition of a topic."""

    topic: str
    offset: int
    key: bytes
    value: bytes
    headers: Headers

    def header(self, name: str) -> bytes | None:
        """Return the last value of a header; None if the record does not have it."""
        newest = None
        for key, value in self.headers:
            if key == name:
                newest = value
        return newest

    def number(self, name: str) -> int | None:
        """Return the last value of a header as a number; None if the record does not have it.

        Raises:
            ForeignRecord: the value is no number.

        """
        value = self.header(name)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise self.foreign(f"its header {name} is no number") from None

    def foreign(self, why: str) -> ForeignRecord:
        """Return the error for a record that quadlog did not write."""
        return ForeignRecord(f"{self.topic} at {self.offset}: {why}; does another program write there?")


Acked = Callable[[int], None]
"""Callback with a record's offset, once all in-sync replicas have the record; on the producer's thread."""


Together = Callable[[], AbstractContextManager[Callable[[], None]]]
"""Context that holds records back and sends them at its end, in one request per topic.

Its value is a function that sends the records held back so far.
"""


def apart() -> AbstractContextManager[Callable[[], None]]:
    """Return a context that holds nothing back; a `Together`."""
    return nullcontext(lambda: None)


class Outlet(Protocol):
    """Producer for one data centre's Kafka: ``acks=all``, records in order, each once."""

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Hand over one value, or all chunks of one; they are retried until the broker has them.

        The chunks of one call are adjacent in the topic.  `acked` is called once, for the last chunk.
        """
        ...


class Renewable(Outlet, Protocol):
    """An outlet to a topic that may accept no more records.  Times are steady milliseconds.

    Of the records produced between two renewals, the topic contains a prefix, and all of it before later records.
    """

    @property
    def waits_since(self) -> float | None:
        """Time since which records wait and none was accepted; None if no record waits, or after `give_up`."""
        ...

    @property
    def refusal(self) -> str:
        """Reason why a record was refused permanently; empty if none was, or after `give_up`."""
        ...

    @property
    def is_settled(self) -> bool:
        """True if it is known of every record whether it is in the topic, and none can arrive there any more."""
        ...

    def give_up(self) -> None:
        """Discard further records until `renew`; earlier ones may still be accepted."""
        ...

    def renew(self) -> None:
        """Send further records again.  All earlier records must be settled before."""
        ...


Hear = Callable[[Sequence[Record]], None]
"""Callback with a tail's next records, in topic order; on the tail's thread."""


Backwards = Callable[[str, int], Iterator[Record]]
"""Function that iterates over the records of a topic before an offset, newest first, back to the topic's beginning."""
