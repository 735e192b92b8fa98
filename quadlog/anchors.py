"""Anchors: the last record that was read of a topic.  While it is at its offset, the topic has not gone back.

Kafka gives a re-created topic another id.  A topic whose broker was restarted with an older copy of its data keeps its
id.  If more records were written to it since, its end does not show the loss either: another record is at the offset
of the last one that was read (decision 47).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quadlog.ports import Record

DIGEST_SIZE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A record that was read."""

    offset: int
    digest: bytes

    @staticmethod
    def of(record: Record) -> Anchor:
        """Return the anchor at a record.  The digest includes the headers, which contain a time and an id."""
        return Anchor(offset=record.offset, digest=digest_of(record))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A topic that does not continue where it was read up to."""

    read: int
    """Offset after the last record that was read."""
    begins: int
    """Offset of the first record in the topic."""
    ends: int
    """Offset after the last record in the topic."""
    is_front: bool = False
    """True if only records that were not read yet were deleted; the remaining records are unchanged."""

    def __str__(self) -> str:
        """Return what is wrong, as text that follows the topic's name.

        >>> str(Gap(read=7, begins=0, ends=5))
        'went back: it was read up to offset 7, and ends at 5'
        >>> str(Gap(read=7, begins=0, ends=9))
        'went back: it was read up to offset 7, ends at 9, and has another record at 6 than the one that was read'
        >>> str(Gap(read=7, begins=8, ends=9, is_front=True))
        'begins at offset 8, and was read up to 7 only: what is between was deleted'
        """
        if self.is_front:
            return f"begins at offset {self.begins}, and was read up to {self.read} only: what is between was deleted"
        if self.ends < self.read:
            return f"went back: it was read up to offset {self.read}, and ends at {self.ends}"
        return (
            f"went back: it was read up to offset {self.read}, ends at {self.ends}, and has another record at"
            f" {self.read - 1} than the one that was read"
        )


def digest_of(record: Record) -> bytes:
    """Return a hash of a record's key, value and headers."""
    found = blake2b(digest_size=DIGEST_SIZE)
    parts = [record.key, record.value]
    for name, value in record.headers:
        parts += [name.encode(), value or b""]
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()
