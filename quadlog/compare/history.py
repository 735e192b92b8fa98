"""Effects of entries, and the last entry that touched a quad, from the effects topic."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from consumers.effects_ledger import EffectsLedger
from quadlog import codec
from quadlog.broker import last_records
from quadlog.codec.envelope import INDEX
from quadlog.core.records import Effect

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from quadlog.ports import Record

_EMPTY: Final = "# empty graph "


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """Change of a quad or an empty graph by an entry."""

    index: int
    id: bytes
    did: str


def touches(records: Iterable[Record], lines: Container[str]) -> dict[str, Touch]:
    """Find the last effect that counts and names each of these lines."""
    found: dict[str, Touch] = {}
    for effect in counted(records):
        for line, did in _named(effect):
            if line in lines:
                found[line] = Touch(index=effect.index, id=effect.id, did=did)
    return found


def counted(records: Iterable[Record]) -> Iterator[Effect]:
    """Yield the effects that count, complete."""
    ledger, chunks = EffectsLedger(is_whole=False), codec.ChunkJoiner()
    for record in records:
        before = ledger.index
        ledger.on_record(record)
        effect = chunks.join(record.value)
        if isinstance(effect, Effect) and ledger.index != before:
            yield effect


BEFORE: Final = 1_000
"""Entries to read before the first one of interest: they determine which effects count."""


def effects_from(bootstrap: str, topic: str, index: int) -> Iterator[Effect]:
    """Yield the effects that count from an index on, as far as the topic has them now.

    Raises:
        Unavailable: the broker does not answer.

    """
    count, start = 4 * BEFORE, -1
    while True:
        with closing(last_records(bootstrap, topic, count=count)) as records:
            head = list(islice(records, 16))
            indexes = [int(said) for record in head if (said := record.header(INDEX)) is not None]
            is_all = not head or head[0].offset in {0, start}
            if is_all or (indexes and indexes[0] <= index - BEFORE):
                yield from (effect for effect in counted(chain(head, records)) if effect.index >= index)
                return
        count, start = 4 * count, head[0].offset


def _named(effect: Effect) -> Iterator[tuple[str, str]]:
    for line in effect.deleted:
        yield line, "deleted"
    for line in effect.inserted:
        yield line, "inserted"
    for graph in effect.emptied:
        yield _EMPTY + graph, "emptied"
    for graph in (*effect.filled, *effect.dropped):
        yield _EMPTY + graph, "filled or dropped"
