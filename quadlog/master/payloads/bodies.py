"""Bodies of what waits: in memory as far as there is room, in the store all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from quadlog.core.model import Payload
    from quadlog.masterstore.store import MasterStore

ROOM: Final = 64 * MIB
"""Bytes of saved payloads kept to be published.  In a healthy cluster none of them waits for a second,
so this is a second of a fast link; behind a silent master they wait for hours, on disk."""

BESIDE: Final = 1024
"""Bytes that a payload takes beside its body: objects, ids, digests (some 800 measured)."""


class Bodies:
    """Payloads by key (id and digest).  What is not saved yet is always here."""

    def __init__(self, store: MasterStore, *, room: int = ROOM) -> None:
        """`store` has what was saved."""
        self._store: Final = store
        self._room = room
        self._unsaved: dict[tuple[bytes, bytes], Payload] = {}
        self._kept: dict[tuple[bytes, bytes], Payload] = {}

    def __contains__(self, key: tuple[bytes, bytes]) -> bool:
        """Is this payload in memory?"""
        return key in self._unsaved or key in self._kept

    def __getitem__(self, key: tuple[bytes, bytes]) -> Payload:
        """A payload that waits, or is not published yet."""
        payload = self._unsaved.get(key) or self._kept.get(key)
        if payload is None:
            payload = self._store.payload(key)
            if payload is None:
                raise KeyError(key)
            self._keep(payload)
        return payload

    def add(self, payload: Payload) -> None:
        """A payload that is to be saved."""
        self._unsaved[payload.transaction.key] = payload

    def saved(self) -> None:
        """The store has all that was added."""
        for payload in self._unsaved.values():
            self._keep(payload)
        self._unsaved = {}

    def _keep(self, payload: Payload) -> None:
        """Where there is room: the first come are the first published, so nothing is pushed out."""
        size = _size(payload)
        if size <= self._room:
            self._room -= size
            self._kept[payload.transaction.key] = payload

    def drop(self, key: tuple[bytes, bytes]) -> None:
        """Nobody will ask for it again."""
        self._unsaved.pop(key, None)
        if payload := self._kept.pop(key, None):
            self._room += _size(payload)


def _size(payload: Payload) -> int:
    return len(payload.body) + BESIDE
