"""Progress in a payloads topic: after a restart, no payload is missed and no position is guessed."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from quadlog.master.payloads.skipped_copies import SkippedCopies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping

    from consumers.payloads import PayloadsConsumer
    from quadlog.core.model import Payload
    from quadlog.ports import Record


class Intake:
    """Progress in one payloads topic: the local one, or a peer's that is mirrored.

    The position is an offset below which no payload is received in part, no record that was produced because
    of it (or, in the local topic, by this master) still lacks its acknowledgement, and no copy was passed
    over whose original is not here.
    """

    def __init__(
        self,
        consumer: PayloadsConsumer,
        position: int,
        *,
        is_own: bool = False,
        alone_from: int | None = None,
        dc: str = "",
        originals: Mapping[str, Intake] | None = None,
    ) -> None:
        """Continue at a saved position.

        Args:
            consumer: assembles payloads from their chunks.
            position: offset at which reading begins.
            is_own: True for this data centre's own topic.
            alone_from: for the local topic, if only this master writes to it: its end at the start.  The
                topic is not read from there on; acknowledgements report new records.
            dc: for a peer's topic, its data centre.
            originals: for a peer's topic, the intakes of the originals of the copies in it, by data centre.

        """
        self._consumer = consumer
        self._is_own, self._alone_from = is_own, alone_from
        self._whole = self._began = self._written = position
        self._flying: deque[int] = deque()
        self._awaited: dict[tuple[bytes, bytes], int] = {}
        self._twins = set[tuple[bytes, bytes]]()
        """Awaited payloads whose ids are synchronised with other ones."""
        self.dc: Final = dc
        self._originals: Mapping[str, Intake] = {} if originals is None else originals
        self._origins: Collection[str] = {dc}
        self._lost: set[str] = set()
        """Data centres whose topic was lost with originals in it: their copies are always accepted."""
        self._passed: dict[str, SkippedCopies] = {}
        self._again: int | None = None
        """Offset from which the topic must be read again, until that begins."""

    @property
    def position(self) -> int:
        """Offset at which a restart must continue to read."""
        needed = [place for origin in self._passed if (place := self._passed_from(origin)) is not None]
        again = [] if self._again is None else [self._again]
        return min(self.taken, *needed, *again) if needed or again else self.taken

    @property
    def taken(self) -> int:
        """Offset below which all payloads that are accepted from this topic are durable here."""
        return min((self._whole, *self._awaited.values(), *islice(self._flying, 1)))

    @property
    def awaited(self) -> int | None:
        """Offset of the first payload that another master of this data centre must still copy; None if none."""
        return min(self._awaited.values(), default=None)

    def await_other(self, key: tuple[bytes, bytes]) -> None:
        """Leave the payload that was received last to the master that leads."""
        self._awaited.setdefault(key, self._began)

    def arrived(self, key: tuple[bytes, bytes]) -> None:
        """Note that a payload is durable here, whichever master wrote it."""
        self._awaited.pop(key, None)

    def synchronised(self, ids: Container[bytes], needs: Callable[[tuple[bytes, bytes]], bool]) -> None:
        """Stop waiting for payloads of these transactions, and of earlier ones, as far as they are not needed."""
        if self._awaited:
            spent = {key for key in self._awaited if key in self._twins or key[0] in ids}
            self._twins = {key for key in spent if needs(key)}
            self._awaited = {
                key: at for key, at in self._awaited.items() if key not in spent or key in self._twins
            }

    def on_record(self, record: Record) -> Payload | None:
        """Return the payload that is complete with this record, or None."""
        self._began = min(self._whole, record.offset)  # its first chunk is not before this offset
        if self._again is not None and record.offset <= self._again:
            self._again = None
        if self._originals and (place := self._consumer.passes_over(record)) is not None:
            self._pass_over(record, *place)
        payload = self._consumer.on_record(record)
        if self._consumer.between:
            self._whole = record.offset + 1
        return payload

    def _pass_over(self, record: Record, origin: str, offset: int) -> None:
        if origin in self._originals:  # otherwise the original is in this data centre's own topic
            self._passed.setdefault(origin, SkippedCopies()).note(record.offset, offset)

    def _passed_from(self, origin: str) -> int | None:
        """Return the offset of the first copy of this origin's payloads whose original is not here."""
        return self._passed[origin].first(self._originals[origin].taken)

    def take_from(self, origins: Collection[str]) -> int | None:
        """Accept from now on the payloads of these data centres' clients from a peer's topic.

        Returns:
            Offset from which the topic must be read again, because copies that may be needed were passed
            over; None: none were.

        """
        if origins == self._origins:
            return None
        added = set(origins) - set(self._origins)
        self._origins = origins
        self._consumer.take_from({*origins, *self._lost})
        places = [self._passed_from(origin) for origin in added if origin in self._passed]
        for origin in added:
            self._passed.pop(origin, None)
        self._again = min((place for place in places if place is not None), default=self._again)
        return self._again

    def lose(self, origin: str) -> int | None:
        """Handle the loss of another topic: accept the copies that were passed over because of originals there.

        Returns:
            Offset from which this topic must be read again; None: no copy was passed over that is still missing.

        """
        place = self._passed_from(origin) if origin in self._passed else None
        self._passed.pop(origin, None)
        self._lost.add(origin)
        self._consumer.take_from({*self._origins, *self._lost})
        if place is not None:
            self._again = place if self._again is None else min(place, self._again)
        return place

    def regain(self, origin: str) -> None:
        """End `lose`: copies of this origin's payloads are passed over again."""
        self._lost.discard(origin)
        self._consumer.take_from({*self._origins, *self._lost})

    def begin_again(self) -> None:
        """Restart a re-created topic: it is read from its beginning, and all earlier offsets are invalid."""
        self._consumer.forget()
        self._whole = self._began = self._written = 0
        self._flying = deque(0 for _ in self._flying)
        self._awaited.clear()
        self._passed.clear()
        self._again = None

    def sent(self) -> None:
        """Note that a record was produced and is unacknowledged: for the last received one, or to this topic."""
        self._flying.append(self._written if self._is_own else self._began)

    def acknowledged(self, offset: int) -> None:
        """Handle the acknowledgement of the oldest of these records; `offset` is that of the record in this topic."""
        self._flying.popleft()
        if not self._is_own:
            return
        self._written = offset + 1
        if self._alone_from is not None and self._whole >= self._alone_from:
            self._whole = self._written
