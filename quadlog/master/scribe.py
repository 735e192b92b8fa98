"""The scribe: brings the synchronised queue into the agreed topic, or stands by to do so."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from quadlog.core.model import LoggedEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.model import Entry, Payload
    from quadlog.ports import Acked

Key = tuple[bytes, bytes]
"""A payload: id and digest."""


class Scribe:
    """Owned by the node's thread.

    Every entry is kept here, and its payload in the store, until the topic is known to hold it: its
    record was acknowledged, or was heard there because another master of this data centre wrote it.
    So whoever takes over says what is missing, and nothing that anybody could know to be there.
    """

    def __init__(
        self,
        *,
        say: Callable[[LoggedEntry, Acked], None],
        payload: Callable[[Key], Payload],
        written: Callable[[int], None],
    ) -> None:
        """Nothing is unsaid, and it is another's turn.

        Args:
            say: sends an entry to the topic.
            payload: the body of an entry that is saved.
            written: told the index of an entry whose record was acknowledged; on any thread.

        """
        self._say, self._payload, self._written = say, payload, written
        self._unsaid: deque[Entry] = deque()
        self.leads = False

    def __len__(self) -> int:
        """Count of entries that the topic is not known to hold."""
        return len(self._unsaid)

    def write(self, entry: Entry) -> None:
        """Take an entry that is saved, in the order of their indexes; say it if it is this master's turn."""
        if self.leads:
            self._send(entry)
        self._unsaid.append(entry)

    def lead(self, *, mine: bool) -> None:
        """Whose turn it is.  Taking over says what the topic is not known to hold."""
        if mine and not self.leads:
            for entry in self._unsaid:
                self._send(entry)
        self.leads = mine

    def holds(self, index: int) -> list[Key]:
        """The topic holds all entries up to `index`: the keys of payloads that it needed until now."""
        keys: list[Key] = []
        while self._unsaid and self._unsaid[0].index <= index:
            keys.append(self._unsaid.popleft().pair.key)
        return keys

    def _send(self, entry: Entry) -> None:
        index = entry.index
        self._say(logged_entry(entry, self._payload(entry.pair.key)), lambda _: self._written(index))


def logged_entry(entry: Entry, payload: Payload) -> LoggedEntry:
    """An entry with its payload and its writer's lineage: what the agreed topic holds."""
    return LoggedEntry(
        index=entry.index,
        kind=entry.kind,
        id=entry.pair.id,
        timestamp=entry.pair.timestamp,
        digest=entry.pair.digest,
        options=entry.options,
        previous=entry.previous,
        chain=entry.chain,
        epoch=entry.view.epoch,
        lineage=entry.view.id,
        origin=payload.origin,
        created=payload.created,
        media_type=payload.media_type,
        body=payload.body,
        traceparent=payload.traceparent,
    )
