"""Offsets of entries in an agreed topic, and the entries of a range that configure something: without their bodies.

It works as `lineage.py` does for effects.  A survey has found runs of entries that follow from each other and configure
nothing; `AgreedConsumer` decides for each whether it counts, and reads the records between them one by one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from consumers.agreed import AgreedConsumer
from quadlog import codec
from quadlog.core.effects.control import concerns
from quadlog.core.model import LogPosition
from quadlog.core.records import Cut, LoggedEntry
from quadlog.errors import ForeignRecord, StateError
from quadlog.quadstore.applied import InAgreed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from consumers.agreed import AgreedRun
    from quadlog.ports import Record

    Between = Callable[[int, int], Iterable[Record]]
    """Returns the records of the topic from one offset up to, but excluding, another."""


class AgreedLineage:
    """Finds entries in an agreed topic, from a place on."""

    def __init__(self, topic: str, place: InAgreed, between: Between) -> None:
        """Start without reading anything."""
        self._topic, self._between, self._place = topic, between, place
        self._consumer = AgreedConsumer(place.last, cut=place.epoch)
        self._offset = place.offset
        self._wanted: tuple[LogPosition, ...] = ()
        self._places = {place.last: place}
        self._configuring: dict[int, LoggedEntry] = {}
        self.looked_at = 0
        """Number of records that were read one by one."""

    def follow(self, runs: Iterable[AgreedRun], end: int, points: Sequence[LogPosition]) -> list[InAgreed]:
        """Read the topic up to the last one of some entries, which are in order; return the place after each.

        `runs` are all runs between the place to start from and `end`, in order.

        Raises:
            StateError: one of the entries is missing.

        """
        self._wanted = tuple(points)
        for run in runs:
            self._one_by_one(run.offset)
            self._on_run(run)
        self._one_by_one(end)
        if missing := next((point for point in points if point not in self._places), None):
            raise StateError(
                f"{self._topic} has no entry {missing.index} with the chain that its effect names, before offset {end}:"
                " its masters may not have written it yet; try again, or copy a store instead"
            )
        return [self._places[point] for point in points]

    def configuring(self, after: int, until: int) -> list[LoggedEntry]:
        """Return the entries that concern controls, in order, with indexes greater than `after`, up to `until`."""
        return [entry for index, entry in sorted(self._configuring.items()) if after < index <= until]

    def _is_over(self) -> bool:
        return self._wanted[-1] in self._places

    def _on_run(self, run: AgreedRun) -> None:
        if self._is_over():
            return
        counts = self._consumer.on_run(run)
        if counts is None:
            self._one_by_one(run.end)
        elif counts:
            for point in self._wanted:
                if point.index in run:
                    self._one(run.offset + point.index - run.first)
        self._offset = run.end

    def _one(self, offset: int) -> None:
        """Read one entry of a run that counts."""
        for record in self._between(offset, offset + 1):
            said, _, _ = codec.decode_chunk(record.value)
            if isinstance(said, LoggedEntry):
                self._meet(said, offset + 1)
                return
        raise StateError(
            f"{self._topic} at {offset}: this entry is not there any more; are records being deleted?"
        )

    def _one_by_one(self, end: int) -> None:
        if self._offset >= end or self._is_over():
            return
        for record in self._between(self._offset, end):
            self.looked_at += 1
            with suppress(ForeignRecord):  # written by another program
                self._hear(record)
            if self._is_over():
                return
        self._offset = end

    def _hear(self, record: Record) -> None:
        match self._consumer.on_record(record):
            case LoggedEntry() as entry:
                self._meet(entry, record.offset + 1)
            case Cut() as cut:
                self._configuring = {i: entry for i, entry in self._configuring.items() if i <= cut.index}
            case None:
                pass

    def _meet(self, entry: LoggedEntry, behind: int) -> None:
        point = LogPosition(entry.index, entry.chain)
        if point in self._wanted:
            self._places.setdefault(point, InAgreed(behind, point, entry.epoch))
        if concerns(entry):
            self._configuring[entry.index] = entry
