"""Intake: how far a payloads topic was taken in, so that a restart neither misses nor needs to guess."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from quadlog.master.payloads.passed import PassedOver

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from consumers.payloads import PayloadsConsumer
    from quadlog.core.model import Payload
    from quadlog.ports import Record


class Intake:
    """One payloads topic: the own one, or a peer's that is mirrored.

    Its position is the offset below which nothing is half heard, nothing that was produced because of it (or, in the
    own topic, by this master) still lacks its acknowledgement, and no copy was passed over whose original is not here.
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
        """Go on from a saved position.

        Args:
            consumer: puts chunks together.
            position: where the topic is read from.
            is_own: this data centre's own topic.
            alone_from: of the own topic, where only this master writes to it: its end at the start.  From
                there on it is not heard; acknowledgements tell of what is new.
            dc: of a peer's topic, its data centre.
            originals: of a peer's topic, where the originals of the copies in it are taken in, by data centre.

        """
        self._consumer = consumer
        self._is_own, self._alone_from = is_own, alone_from
        self._whole = self._began = self._written = position
        self._flying: deque[int] = deque()
        self._awaited: dict[tuple[bytes, bytes], int] = {}
        self.dc: Final = dc
        self._originals: Mapping[str, Intake] = {} if originals is None else originals
        self._origins: Collection[str] = {dc}
        self._lost: set[str] = set()
        """Data centres whose topic was lost with originals in it: their copies are taken, whoever is out of reach."""
        self._passed: dict[str, PassedOver] = {}
        self._again: int | None = None
        """From where on it is to be read again, until that begins."""

    @property
    def position(self) -> int:
        """Where a restart has to read on."""
        needed = [place for origin in self._passed if (place := self._passed_from(origin)) is not None]
        again = [] if self._again is None else [self._again]
        return min(self.taken, *needed, *again) if needed or again else self.taken

    @property
    def taken(self) -> int:
        """Below it all payloads are here that are taken from this topic."""
        return min((self._whole, *self._awaited.values(), *islice(self._flying, 1)))

    @property
    def awaited(self) -> int | None:
        """From where on there is a payload that another master of this data centre is to bring, and has not yet."""
        return min(self._awaited.values(), default=None)

    def await_other(self, key: tuple[bytes, bytes]) -> None:
        """What was heard last is left to the master that leads."""
        self._awaited.setdefault(key, self._began)

    def arrived(self, key: tuple[bytes, bytes]) -> None:
        """A payload is durable here, whoever brought it."""
        self._awaited.pop(key, None)

    def synchronised(self, ids: Container[bytes]) -> None:
        """Nobody needs any payload of these transactions any more, also of a twin that lost."""
        if self._awaited:
            self._awaited = {key: at for key, at in self._awaited.items() if key[0] not in ids}

    def hear(self, record: Record) -> Payload | None:
        """The payload that is whole with this record."""
        self._began = min(self._whole, record.offset)  # its first chunk is not before
        if self._again is not None and record.offset <= self._again:
            self._again = None
        if self._originals and (place := self._consumer.passes_over(record)) is not None:
            self._pass_over(record, *place)
        payload = self._consumer.hear(record)
        if self._consumer.between:
            self._whole = record.offset + 1
        return payload

    def _pass_over(self, record: Record, origin: str, offset: int) -> None:
        if origin in self._originals:  # else it is this data centre's own
            self._passed.setdefault(origin, PassedOver()).note(record.offset, offset)

    def _passed_from(self, origin: str) -> int | None:
        """From where on there are copies of this data centre's payloads whose originals are not here."""
        return self._passed[origin].first(self._originals[origin].taken)

    def take_from(self, origins: Collection[str]) -> int | None:
        """Take from now on the payloads of these data centres' clients out of a peer's topic.

        Returns:
            where it has to be read again from: copies that may be needed were passed over; None: none were.

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
        """Another topic was lost: what was passed over because its original stood there is to be taken here.

        Returns:
            where this one has to be read again from; None: nothing was passed over that is not here.

        """
        place = self._passed_from(origin) if origin in self._passed else None
        self._passed.pop(origin, None)
        self._lost.add(origin)
        self._consumer.take_from({*self._origins, *self._lost})
        if place is not None:
            self._again = place if self._again is None else min(place, self._again)
        return place

    def begin_again(self) -> None:
        """The topic was made anew: it is read from its beginning, and no offset of before means anything."""
        self._consumer.forget()
        self._whole = self._began = self._written = 0
        self._flying = deque(0 for _ in self._flying)
        self._awaited.clear()
        self._passed.clear()
        self._again = None

    def sent(self) -> None:
        """Something was produced that is to be acknowledged: because of what was heard last, or to this topic."""
        self._flying.append(self._written if self._is_own else self._began)

    def acknowledged(self, offset: int) -> None:
        """The oldest of it was; `offset` is that of the record in this topic."""
        self._flying.popleft()
        if not self._is_own:
            return
        self._written = offset + 1
        if self._alone_from is not None and self._whole >= self._alone_from:
            self._whole = self._written
