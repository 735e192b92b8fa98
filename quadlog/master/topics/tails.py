"""Tails: the topics that a master reads from each data centre's Kafka, and the offsets at which it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.broker import BEGINNING, END, KafkaTail, Watched, last
from quadlog.core.messages import AgreementLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.anchors import Gap
    from quadlog.master.topics.sites import Sites
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Hear

ROUNDS_READ_BACK: Final = 2 * AgreementLimits().snapshot_every
"""Posts of each master that are read again at a start: they include a snapshot, unless its queue is long."""


class Tails:
    """Tails of a master, one for each data centre."""

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
        """Prepare; nothing is read before `start`.

        `hear` receives the records that were read.  `recognised` and `lacks`: see `Watched`.  `failed` ends the
        process with a reason.
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
            self._tails[dc] = KafkaTail(kafka, name=name, hear=hear, failed=failed, watched=watched)

    def start(self, *, payloads_end: int, agreed_end: int) -> None:
        """Start to read; both ends: end offsets of the local topics at this start."""
        # The only master of a data centre wrote all payloads there: acknowledgements report new ones.
        until = {} if self._sites.has_company else {self._sites.own.payloads: payloads_end}
        for dc, tail in self._tails.items():
            tail.start(self._offsets(dc, agreed_end), until=until)

    def _offsets(self, dc: str, agreed_end: int) -> dict[str, int]:
        sites, topics = self._sites, self._sites.topics[dc]
        is_own = dc == sites.dc
        offsets = {topics.payloads: self._saved(topics.payloads)}
        if is_own:  # topics with which the processes of this data centre communicate
            offsets |= {topics.status: END, topics.effects: self._saved(topics.effects)}
        if is_own and sites.has_company:
            offsets[topics.agreed] = agreed_end
        if not is_own or sites.has_company:  # otherwise only this master posts there
            offsets[topics.rounds] = self._rounds_from(dc)
        return offsets

    def _rounds_from(self, dc: str) -> int:
        return last(ROUNDS_READ_BACK * len(self._sites.masters_in(dc)))

    def _saved(self, topic: str) -> int:
        position = self._store.position(topic)
        return BEGINNING if position is None else position

    def read(self, topic: str, offset: int) -> None:
        """Read a topic from an offset on, again or for the first time."""
        self._of(topic).read(topic, offset)

    def leave(self, topic: str) -> None:
        """Stop reading a topic."""
        self._of(topic).leave(topic)

    def _of(self, topic: str) -> KafkaTail:
        return next(tail for dc, tail in self._tails.items() if topic in self._sites.topics[dc].all())

    def close(self) -> None:
        """Stop reading."""
        for tail in self._tails.values():
            tail.close()
