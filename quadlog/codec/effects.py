"""Encoding of effects: lists of lines, in chunks."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from quadlog.codec.wire import CHUNK, EFFECT, EFFECT_2, write
from quadlog.core.records import Effect, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def encode_effect(effect: Effect) -> list[bytes]:
    """Return the records of one effect; its lists are the concatenated lists of the records."""
    record = {name: getattr(effect, name) for name in _FIELDS}
    version = EFFECT if effect.outcome in {Outcome.APPLIED, Outcome.REJECTED} else EFFECT_2
    if _is_small(effect):
        record.update(continues=False, chunk=0, chunks=1)
        return [write(version, record)]
    parts = list(_lists(effect))
    return [
        write(version, record | part | {"chunk": chunk, "chunks": len(parts)})
        for chunk, part in enumerate(parts)
    ]


_FIELDS: Final = tuple(field.name for field in fields(Effect) if field.name != "continues")
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}
LISTS: Final = ("deleted", "inserted", "emptied", "filled", "dropped")
_PIECE: Final = CHUNK // 4
"""Maximum characters in a piece of a line that is longer than a chunk: UTF-8 uses up to four bytes for one."""


def _is_small(effect: Effect) -> bool:
    """Return whether the effect certainly fits in one chunk, as nearly all do."""
    return sum([len(line) for name in LISTS for line in getattr(effect, name)]) <= _PIECE


def _lists(effect: Effect) -> Iterator[dict[str, Any]]:
    """Yield the lists of each chunk; a line that is too long for one chunk is split into pieces, one per chunk."""
    part: dict[str, Any] = {}
    size = 0
    for name in LISTS:
        for line in getattr(effect, name):
            length = len(line) if line.isascii() else len(line) * 4
            if size and size + length > CHUNK:
                yield _part(part)
                part, size = {}, 0
            if length > CHUNK:
                pieces = [line[at : at + _PIECE] for at in range(0, len(line), _PIECE)]
                for piece in pieces[:-1]:
                    yield _part({name: [piece], "continues": True})
                part, size = {name: [pieces[-1]]}, length % CHUNK
            else:
                part.setdefault(name, []).append(line)
                size += length
    yield _part(part)


def _part(lists: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {name: [] for name in LISTS}
    return empty | {"continues": False} | lists


def effect_of(record: dict[str, Any]) -> Effect:
    """Return the effect, or the chunk of one, in a decoded record."""
    for name in LISTS:
        record[name] = tuple(record[name])
    record["outcome"] = _OUTCOMES[record["outcome"]]
    del record["chunk"], record["chunks"]
    return Effect(**record)


def joined(parts: Sequence[Effect]) -> Effect:
    """Return the effect that consecutive chunks make up."""
    lists: dict[str, Any] = {name: tuple(_lines(parts, name)) for name in LISTS}
    return replace(parts[0], **lists, continues=False)


def _lines(parts: Sequence[Effect], name: str) -> list[str]:
    """Return one list of an effect from its chunks, with split lines joined."""
    lines: list[list[str]] = []
    goes_on = False
    for part in parts:
        for line in getattr(part, name):
            if goes_on:
                lines[-1].append(line)
            else:
                lines.append([line])
            goes_on = False
        goes_on = part.continues and bool(getattr(part, name))
    return ["".join(pieces) for pieces in lines]
