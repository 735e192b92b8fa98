"""Sources: whose effects are copied into this data centre, and where copying begins.

All others copy the home's. The home copies from the data centre that has the duty, while another one has it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from consumers.effects import mirrored_in
from quadlog.broker import end_of
from quadlog.errors import Unavailable
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.model import Handover

log = structlog.get_logger()

READ_BACK: Final = 200
"""Effects that are read back for a copy: behind it stand at most this many of the own worker's."""

PATIENCE_S: Final = 5.0
"""How long Kafka has to tell where a topic ends."""


class Sources:
    """As seen from one data centre."""

    def __init__(self, repository: str, *, dc: str, home: str, kafka_of: Mapping[str, str]) -> None:
        """`kafka_of`: every data centre to its bootstrap servers; effects begin in `home`."""
        self._repository, self._dc, self._home, self._kafka_of = repository, dc, home, kafka_of
        self.others: Final = (
            {other: self._effects_of(other) for other in kafka_of if other != dc} if dc == home else {}
        )
        """In the home, each other data centre's topic: copied from while the duty is there."""
        self.all: Final = frozenset(self.others.values() if dc == home else [self._effects_of(home)])
        """Topics that may be copied from."""

    def _effects_of(self, dc: str) -> str:
        return Topics(self._repository, dc).effects

    def of(self, duty: Handover) -> frozenset[str]:
        """Topics that are copied from while this is the duty."""
        return frozenset({self._effects_of(duty.dc)} & self.all) if self._dc == self._home else self.all

    def mirrored(self, topic: str) -> int:
        """Offset of the last record of a topic that was copied, as the own topic says; -1 if it does not.

        Raises:
            Unavailable: Kafka does not tell.

        """
        # All data centres' effects come through the home's; in the home copies of several stand beside each other.
        origin = next((dc for dc, other in self.others.items() if other == topic), None)
        kafka, own = self._kafka_of[self._dc], self._effects_of(self._dc)
        for count in (1, READ_BACK):  # nearly always the very last one is a copy
            _, effects = end_of(kafka, own, count=count, timeout=PATIENCE_S)
            mirrored = mirrored_in(effects, evaluated_in=origin)
            if mirrored >= 0:
                return mirrored
        return -1

    async def locate(self, handover: Handover, then: Callable[[Handover], None]) -> None:
        """Find where the effects end of the data centre that is to evaluate; it may be out of reach: then nothing."""
        kafka, topic = self._kafka_of[handover.dc], self._effects_of(handover.dc)
        try:
            end, _ = await asyncio.to_thread(end_of, kafka, topic, count=0, timeout=PATIENCE_S)
        except Unavailable as error:
            log.warning("no handover yet", to=handover.dc, reason=str(error))
        else:
            then(replace(handover, start=end))
