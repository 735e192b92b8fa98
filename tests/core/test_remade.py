"""Topics that are others now: what of a peer's is read again, and where this data centre's own stop the master."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from quadlog.errors import TopicLost
from quadlog.master.events import Recognised
from quadlog.master.listening import Ears
from quadlog.master.remade import Remade

if TYPE_CHECKING:
    from quadlog.master.acquiring import Acquiring
    from quadlog.master.chores import Chores
    from quadlog.master.joining import Joining
    from quadlog.master.saving import Saving

EARS = Ears(
    rounds={"main.dc1.rounds": "dc1", "main.dc2.rounds": "dc2"},
    agreed="main.dc1.agreed",
    sources={"main.dc2.effects": "dc2"},
    sides={"main.dc2.agreed": "dc2"},
    own=("main.dc1.payloads", "main.dc1.rounds", "main.dc1.agreed", "main.dc1.effects"),
    status="main.dc1.status",
)


class Rig:
    """All that has an offset in a topic, and what it is told."""

    def __init__(self) -> None:
        self.topics = ("main.dc1.payloads", "main.dc2.payloads", "main.dc3.payloads")
        self.saved: dict[str, str] = {}
        self.again: list[str] = []
        self.copying = self
        self.remade = Remade(
            EARS,
            cast("Saving", self),
            cast("Acquiring", self),
            cast("Chores", self),
            cast("Joining", _Joining(self.again)),
        )

    def recognise(self, topic: str, identity: str) -> None:
        """As saving."""
        self.saved[topic] = identity

    def begin_again(self, what: str) -> dict[str, int]:
        """As acquiring, of a topic, and copying, of a data centre."""
        self.again.append(what)
        return {"main.dc3.payloads": 7} if what.endswith("payloads") else {}

    def read(self, topic: str, offset: int) -> None:
        """As a tail."""
        self.again.append(f"{topic} from {offset}")

    def see(self, topic: str, identity: str | None, *, is_other: bool) -> list[str]:
        self.remade.recognise(Recognised(topic, identity, is_other))
        again, self.again[:] = list(self.again), []
        return again


class _Joining:
    def __init__(self, again: list[str]) -> None:
        self._again = again

    def begin_again(self, dc: str) -> None:
        self._again.append(f"the fork in {dc}")


def test_whatever_has_a_place_in_a_peers_topic_looks_for_it_again() -> None:
    rig = Rig()
    assert rig.see("main.dc2.payloads", "1", is_other=False) == []
    assert rig.see("main.dc2.payloads", "2", is_other=True) == [
        "main.dc2.payloads",
        "main.dc3.payloads from 7",
    ]
    assert rig.see("main.dc2.effects", "3", is_other=True) == ["dc2"]
    assert rig.see("main.dc2.agreed", "4", is_other=True) == ["the fork in dc2"]
    assert rig.see("main.dc2.rounds", "5", is_other=True) == []
    assert rig.see("main.dc2.rounds", None, is_other=True) == [], "it may come back"
    assert list(rig.saved.values()) == ["2", "3", "4", "5"]


@pytest.mark.parametrize("topic", EARS.own)
def test_in_other_topics_of_its_own_no_master_goes_on(topic: str) -> None:
    """At its start it saw to that; this is a Kafka that was lost while it runs."""
    rig = Rig()
    assert rig.see(topic, "1", is_other=False) == []
    with pytest.raises(TopicLost, match=f"{topic} is another topic now"):
        rig.see(topic, "2", is_other=True)
    with pytest.raises(TopicLost, match=f"{topic} is gone"):
        rig.see(topic, None, is_other=True)
    assert rig.saved == {topic: "1"}
