"""Bodies of waiting payloads: all of them in the store, and in memory as far as there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.approval import implied_payload
from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from quadlog.core.model import Payload
    from quadlog.masterstore.store import MasterStore

ROOM: Final = 64 * MIB
"""Maximum bytes of saved payloads that are kept in memory to be published.

In a healthy cluster, no payload waits for a second, so this is a second of a fast link; if a master is
silent, payloads wait for hours, on disk.
"""

BESIDE: Final = 1024
"""Bytes that a payload occupies in addition to its body: objects, ids, digests (some 800 measured)."""


class Bodies:
    """Payloads by key (id and digest).  Those that are not saved yet are always in memory."""

    def __init__(self, store: MasterStore, *, room: int = ROOM) -> None:
        """Start without payloads in memory; `store` contains the saved ones."""
        self._store: Final = store
        self._room = room
        self._unsaved: dict[tuple[bytes, bytes], Payload] = {}
        self._kept: dict[tuple[bytes, bytes], Payload] = {}

    def __contains__(self, key: tuple[bytes, bytes]) -> bool:
        """Return whether this payload is in memory."""
        return key in self._unsaved or key in self._kept

    def __getitem__(self, key: tuple[bytes, bytes]) -> Payload:
        """Return a payload that waits or is not published yet, from memory or from the store.

        That of a decision or of a dropped update is determined by the key.
        """
        if (implied := implied_payload(key)) is not None:
            return implied
        payload = self._unsaved.get(key) or self._kept.get(key)
        if payload is None:
            payload = self._store.payload(key)
            if payload is None:
                raise KeyError(key)
            self._keep(payload)
        return payload

    def add(self, payload: Payload) -> None:
        """Add a payload that must be saved."""
        self._unsaved[payload.transaction.key] = payload

    def saved(self) -> None:
        """Note that the store has saved all added payloads."""
        for payload in self._unsaved.values():
            self._keep(payload)
        self._unsaved = {}

    def _keep(self, payload: Payload) -> None:
        """Keep a payload if there is room: payloads are published in order of arrival, so none is evicted."""
        size = _size(payload)
        if size <= self._room:
            self._room -= size
            self._kept[payload.transaction.key] = payload

    def drop(self, key: tuple[bytes, bytes]) -> None:
        """Remove a payload that will not be requested again."""
        self._unsaved.pop(key, None)
        if payload := self._kept.pop(key, None):
            self._room += _size(payload)


def _size(payload: Payload) -> int:
    return len(payload.body) + BESIDE
