"""What the parts ask of the world: the shapes that `broker` and `store` fill."""

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
    """A record as a topic's only partition holds it."""

    topic: str
    offset: int
    key: bytes
    value: bytes
    headers: Headers

    def header(self, name: str) -> bytes | None:
        """The newest value of a header."""
        newest = None
        for key, value in self.headers:
            if key == name:
                newest = value
        return newest

    def number(self, name: str) -> int | None:
        """The newest value of a header that says a number.

        Raises:
            ForeignRecord: it says something else.

        """
        value = self.header(name)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise self.foreign(f"its header {name} is no number") from None

    def foreign(self, why: str) -> ForeignRecord:
        """What is raised where a record is none of ours."""
        return ForeignRecord(f"{self.topic} at {self.offset}: {why}; does another program write there?")


Acked = Callable[[int], None]
"""Called with the record's offset once all in-sync replicas have it; on the producer's thread."""


Together = Callable[[], AbstractContextManager[Callable[[], None]]]
"""What is said within it goes at its end, in one request for each topic; what it gives lets go of all before."""


def apart() -> AbstractContextManager[Callable[[], None]]:
    """A `Together` that holds nothing back."""
    return nullcontext(lambda: None)


class Outlet(Protocol):
    """Where records go: one data centre's Kafka, ``acks=all``, in order, each once."""

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Hand over one value, or all chunks of one; they are retried until the broker has them.

        Chunks of one call stand next to each other.  `acked` is called once, for the last of them.
        """
        ...


class Renewable(Outlet, Protocol):
    """An outlet to a topic that may take no more records.  Times are steady milliseconds.

    Of what is said between two renewals the topic gets a beginning, and all of that stands before what is said later.
    """

    @property
    def waits_since(self) -> float | None:
        """Since when something waits and nothing was taken; None: nothing waits, or it was given up."""
        ...

    @property
    def refusal(self) -> str:
        """Why a record was refused for good; empty: none was, or it was given up."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether it is known of all that was said whether it is in the topic, and nothing of it can come any more."""
        ...

    def give_up(self) -> None:
        """Say nothing more, until it is renewed; what was said may still be taken."""
        ...

    def renew(self) -> None:
        """What is said from here on goes out; not before all that was said is settled."""
        ...


Hear = Callable[[str, Sequence[Record]], None]
"""Called with a tail's name and its next records, in topic order; on the tail's thread."""


Backwards = Callable[[str, int], Iterator[Record]]
"""The records of a topic before an offset, the newest first, as far back as the topic goes."""
