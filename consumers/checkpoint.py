"""Consumer of checkpoints: where a master without a disk continues, after the records that its topics lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.records import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.ports import Record


def hear(record: Record) -> Checkpoint | None:
    """Return the checkpoint in a record; None for any other record, which the topic may contain in future.

    Raises:
        ForeignRecord: another program wrote the record.

    """
    said = codec.decode(record.value)
    return said if isinstance(said, Checkpoint) else None


def furthest(said: Iterable[Checkpoint | None]) -> Checkpoint | None:
    """Return the checkpoint that counts.  A master that no longer leads may have written an older one last."""
    found = [checkpoint for checkpoint in said if checkpoint is not None]
    return max(found, key=lambda checkpoint: (checkpoint.last.index, checkpoint.effects.offset), default=None)
