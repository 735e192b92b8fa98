"""A reader of topics that notes what it is told."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from quadlog.broker import Admin, KafkaOutlet, KafkaTail, Watched
from tests.support.brokers import fill, never

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quadlog.anchors import Anchor, Gap
    from quadlog.ports import Record


Told = tuple[str, str | None, bool]


class Reader:
    """A tail on two topics, and what it gave in its order."""

    def __init__(self, kafka: str, names: Sequence[str]) -> None:
        self.kafka, self.names = kafka, names
        self.told: list[Told] = []
        self.gaps: list[tuple[str, Gap]] = []
        self.records: list[Record] = []
        self.heard: list[tuple[str, int] | Told] = []
        self.failures: list[str] = []
        self.outlet = KafkaOutlet(kafka, client="test", failed=never)
        self.tail: KafkaTail | None = None
        self.make(*names)

    def make(self, *names: str) -> None:
        Admin(self.kafka).ensure(names, replication=1, config={})

    def make_anew(self, name: str, count: int) -> None:
        Admin(self.kafka).delete([name])
        assert Admin(self.kafka).ids([name]) == {}
        self.make(name)
        fill(self.outlet, name, count)

    def begin(
        self,
        offsets: Mapping[str, int],
        known: Mapping[str, str | None],
        anchors: Mapping[str, Anchor] = MappingProxyType({}),
    ) -> None:
        def tell(topic: str, number: str | None, is_other: bool) -> None:  # noqa: FBT001
            self.told.append((topic, number, is_other))
            self.heard.append((topic, number, is_other))

        self.tail = KafkaTail(
            self.kafka,
            name="t",
            hear=self.hear,
            failed=self.failures.append,
            watched=Watched(known, tell, lambda topic, gap: self.gaps.append((topic, gap)), anchors),
        ).start(offsets)

    def hear(self, records: Sequence[Record]) -> None:
        self.records += records
        self.heard += [(record.topic, record.offset) for record in records]

    def offsets(self, name: str) -> list[int]:
        """Since it was told of that topic last."""
        last = max(place for place, one in enumerate(self.heard) if len(one) == 3 and one[0] == name)
        return [one[1] for one in self.heard[last:] if len(one) == 2 and one[0] == name]
