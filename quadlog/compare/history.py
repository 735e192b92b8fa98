"""Which entry last touched a quad, as the effects topic tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from consumers.effects import EffectsLedger
from quadlog import codec
from quadlog.broker import last_records
from quadlog.core.model import Effect

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from quadlog.ports import Record

_EMPTY: Final = "# empty graph "


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """What an entry did to a quad or an empty graph."""

    index: int
    id: bytes
    did: str


def last_touches(bootstrap: str, topic: str, lines: Container[str], look_back: int) -> dict[str, Touch]:
    """Of each of these lines the last effect that names it, among the last `look_back` records.

    Raises:
        Unavailable: the broker does not answer.

    """
    return touches(last_records(bootstrap, topic, count=look_back), lines)


def touches(records: Iterator[Record], lines: Container[str]) -> dict[str, Touch]:
    """Of each of these lines the last effect that names it, and that counts."""
    ledger, chunks = EffectsLedger(is_whole=False), codec.Chunks()
    found: dict[str, Touch] = {}
    for record in records:
        before = ledger.index
        ledger.hear(record)
        effect = chunks.join(record.value)
        if not isinstance(effect, Effect) or ledger.index == before:
            continue
        for line, did in _named(effect):
            if line in lines:
                found[line] = Touch(index=effect.index, id=effect.id, did=did)
    return found


def _named(effect: Effect) -> Iterator[tuple[str, str]]:
    for line in effect.deleted:
        yield line, "deleted"
    for line in effect.inserted:
        yield line, "inserted"
    for graph in effect.emptied:
        yield _EMPTY + graph, "emptied"
    for graph in (*effect.filled, *effect.dropped):
        yield _EMPTY + graph, "filled or dropped"
