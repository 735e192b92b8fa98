"""`quadlog audit report`: what audits have found, as their topic has it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.broker import end_of, last_records
from quadlog.core.records import Violation
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.ports import Record


def violations_in(kafka: str, topic: str) -> list[Violation]:
    """Return all violations in a topic, oldest first.

    Raises:
        SetupError: the topic does not exist.
        Unavailable: no broker answers.

    """
    end, _ = end_of(kafka, topic, count=0)
    return violations_of(last_records(kafka, topic, count=end))


def violations_of(records: Iterable[Record]) -> list[Violation]:
    """Return the violations that these records are; records of other programs are ignored."""
    found = list[Violation]()
    for record in records:
        with suppress(ForeignRecord):
            if isinstance(said := codec.decode(record.value), Violation):
                found.append(said)
    return found


def lines_of(found: Iterable[Violation]) -> list[str]:
    """Return lines for a reader: the number of each kind, and each violation."""
    all_of_them = [*found]
    if not all_of_them:
        return ["no violations"]
    counts = Counter(one.kind for one in all_of_them)
    return [
        ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())),
        *(
            f"{one.kind} {one.dc} {one.topic}@{one.offset}, entry {one.index}: {one.explanation}"
            for one in all_of_them
        ),
    ]
