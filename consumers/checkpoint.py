"""Checkpoints: where a master without a disk goes on, behind what its data centre's topics lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.records import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.ports import Record


def hear(record: Record) -> Checkpoint | None:
    """The checkpoint in a record; what else may stand on the topic some day is passed over.

    Raises:
        ForeignRecord: another program wrote it.

    """
    said = codec.decode(record.value)
    return said if isinstance(said, Checkpoint) else None


def furthest(said: Iterable[Checkpoint | None]) -> Checkpoint | None:
    """The one that counts.  A master that leads no more may have said an older one last."""
    found = [checkpoint for checkpoint in said if checkpoint is not None]
    return max(found, key=lambda checkpoint: (checkpoint.last.index, checkpoint.effects.offset), default=None)
