"""Tails: what a master reads of each data centre's Kafka, and from where on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.broker import BEGINNING, END, KafkaTail, Watched, last
from quadlog.core.messages import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.anchors import Gap
    from quadlog.master.topics.sites import Sites
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Hear

ROUNDS_READ_BACK: Final = 2 * Limits().snapshot_every
"""Posts of each master read again at a start: there is a snapshot among them, unless its queue is long."""


class Tails:
    """One for each data centre."""

    def __init__(
        self,
        sites: Sites,
        store: MasterStore,
        *,
        hear: Hear,
        recognised: Callable[[str, str | None, bool], None],
        lacks: Callable[[str, Gap], None],
        failed: Callable[[str], None],
    ) -> None:
        """Nothing is read before `start`.

        Args:
            sites: whose Kafkas and topics there are.
            store: knows up to where each topic was taken in.
            hear: is given what was read.
            recognised: is told which topics these are, see `Watched`.
            lacks: is told which of them do not go on where they were read up to, see `Watched`.
            failed: ends the process with a reason.

        """
        self._sites, self._store = sites, store
        self._tails: dict[str, KafkaTail] = {}
        for dc, kafka in sites.kafka_of.items():
            name = f"{sites.node}-reads-{dc}"
            topics = sites.topics[dc]
            watched = Watched(
                known={topic: store.topic_id(topic) for topic in topics.followed},
                told=recognised,
                lacks=lacks,
                anchors={topic: anchor for topic in topics.followed if (anchor := store.anchor(topic))},
                again={topics.rounds: self._rounds_from(dc)},
                is_vital=dc == sites.dc,
            )
            self._tails[dc] = KafkaTail(
                kafka, client=name, name=name, hear=hear, failed=failed, watched=watched
            )

    def start(self, *, payloads_end: int, agreed_end: int) -> None:
        """Begin.

        Args:
            payloads_end: where the own payloads ended at this start.
            agreed_end: where the own agreed topic did.

        """
        # A master that is alone in its data centre wrote all of its payloads: acknowledgements tell of new ones.
        until = {} if self._sites.has_company else {self._sites.own.payloads: payloads_end}
        for dc, tail in self._tails.items():
            tail.start(self._offsets(dc, agreed_end), until=until)

    def _offsets(self, dc: str, agreed_end: int) -> dict[str, int]:
        sites, topics = self._sites, self._sites.topics[dc]
        is_own = dc == sites.dc
        offsets = {topics.payloads: self._saved(topics.payloads)}
        if is_own:  # what this data centre's processes say to each other
            offsets |= {topics.status: END, topics.effects: self._saved(topics.effects)}
        if is_own and sites.has_company:
            offsets[topics.agreed] = agreed_end
        if not is_own or sites.has_company:  # else there is nobody there but this master
            offsets[topics.rounds] = self._rounds_from(dc)
        return offsets

    def _rounds_from(self, dc: str) -> int:
        return last(ROUNDS_READ_BACK * len(self._sites.masters_in(dc)))

    def _saved(self, topic: str) -> int:
        position = self._store.position(topic)
        return BEGINNING if position is None else position

    def read(self, topic: str, offset: int) -> None:
        """Have a topic read from an offset on, again or for the first time."""
        self._of(topic).read(topic, offset)

    def leave(self, topic: str) -> None:
        """Have a topic read no more."""
        self._of(topic).leave(topic)

    def _of(self, topic: str) -> KafkaTail:
        return next(tail for dc, tail in self._tails.items() if topic in self._sites.topics[dc].all())

    def close(self) -> None:
        """Stop reading."""
        for tail in self._tails.values():
            tail.close()
