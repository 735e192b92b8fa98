"""Topics that are others now: what of a peer's is read again, and where this data centre's own stop the master."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from quadlog.anchors import Gap
from quadlog.errors import TopicLost
from quadlog.master.events import TopicIdentified, TopicShortened
from quadlog.master.node.dispatcher import TopicRoles
from quadlog.master.node.topic_identity import TopicIdentity

if TYPE_CHECKING:
    from quadlog.master.log.joining import Joining
    from quadlog.master.node.leader_tasks import LeaderTasks
    from quadlog.master.node.state_writer import StateWriter
    from quadlog.master.node.topic_identity import PeerMasters
    from quadlog.master.payloads.acquiring import Acquiring

EARS = TopicRoles(
    rounds={"main.dc1.rounds": "dc1", "main.dc2.rounds": "dc2"},
    agreed="main.dc1.agreed",
    sources={"main.dc2.effects": "dc2"},
    sides={"main.dc2.agreed": "dc2"},
    own=("main.dc1.payloads", "main.dc1.rounds", "main.dc1.agreed", "main.dc1.effects"),
    needed=("main.dc1.effects",),
    status="main.dc1.status",
    payloads={"main.dc2.payloads": "dc2"},
)
BACK = Gap(read=7, begins=0, ends=5)
FRONT = Gap(read=7, begins=9, ends=12, is_front=True)


class Rig:
    """All that has an offset in a topic, and what it is told."""

    def __init__(self) -> None:
        self.topics = ("main.dc1.payloads", "main.dc2.payloads", "main.dc3.payloads")
        self.saved: dict[str, str] = {}
        self.again: list[str] = []
        self.forgotten: list[str] = []
        self.incarnation = b"1"
        self.copying = self
        self.topic_identity = TopicIdentity(
            EARS,
            cast("StateWriter", self),
            cast("Acquiring", self),
            cast("LeaderTasks", self),
            cast("Joining", _Joining(self.again)),
            masters=cast("PeerMasters", self),
        )

    def recognise(self, topic: str, identity: str) -> None:
        """As saving."""
        self.saved[topic] = identity

    def forget(self, topic: str) -> None:
        """As saving."""
        self.forgotten.append(topic)

    def heard(self, dc: str) -> dict[str, bytes]:
        """As masters."""
        return {f"{dc}-m1": self.incarnation}

    def void(self, dc: str) -> None:
        """As masters."""
        self.again.append(f"masters of {dc} are void")

    def begin_again(self, what: str) -> dict[str, int]:
        """As acquiring, of a topic, and copying, of a data centre."""
        self.again.append(what)
        return {"main.dc3.payloads": 7} if what.endswith("payloads") else {}

    def read(self, topic: str, offset: int) -> None:
        """As a tail."""
        self.again.append(f"{topic} from {offset}")

    def see(self, topic: str, identity: str | None, *, is_other: bool) -> list[str]:
        self.topic_identity.recognise(TopicIdentified(topic, identity, is_other))
        again, self.again[:] = list(self.again), []
        return again

    def lack(self, topic: str, gap: Gap) -> list[str]:
        self.topic_identity.lacks(TopicShortened(topic, gap))
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


def test_a_peers_topic_that_went_back_is_heard_again_and_told_until_its_masters_begin_anew() -> None:
    rig = Rig()
    assert list(rig.topic_identity.troubles()) == []
    assert rig.lack("main.dc2.payloads", BACK) == ["main.dc2.payloads", "main.dc3.payloads from 7"]
    assert rig.lack("main.dc2.effects", BACK) == ["dc2"]
    assert rig.lack("main.dc2.agreed", BACK) == ["the fork in dc2"]
    assert rig.lack("main.dc2.rounds", BACK) == ["masters of dc2 are void"]
    assert sorted(rig.forgotten) == sorted(
        f"main.dc2.{name}" for name in ("payloads", "effects", "agreed", "rounds")
    )
    [trouble] = rig.topic_identity.troubles()
    assert trouble.name == "peer-topic-went-back"
    assert "main.dc2.rounds went back: it was read up to offset 7, and ends at 5" in trouble.reason
    assert trouble.reason.count("went back") == 4
    rig.incarnation = b"2"
    assert list(rig.topic_identity.troubles()) == []


def test_what_a_peer_deleted_before_it_was_read_is_no_reason_to_void_anybody() -> None:
    rig = Rig()
    assert rig.lack("main.dc2.rounds", FRONT) == []
    assert rig.lack("main.dc2.payloads", FRONT) == ["main.dc2.payloads", "main.dc3.payloads from 7"]
    assert rig.lack("main.dc2.effects", FRONT) == ["dc2"]
    assert list(rig.topic_identity.troubles()) == []


@pytest.mark.parametrize("topic", [*EARS.own, EARS.status])
def test_an_own_topic_that_went_back_stops_the_master(topic: str) -> None:
    rig = Rig()
    with pytest.raises(TopicLost, match=r"went back: .*quadlog dc rebuild"):
        rig.topic_identity.lacks(TopicShortened(topic, BACK))


def test_deleted_records_of_its_own_log_stop_a_master_that_needs_them() -> None:
    rig = Rig()
    assert rig.lack("main.dc1.payloads", FRONT) == [], "what it had not saved it had not promised"
    assert rig.lack("main.dc1.status", FRONT) == []
    with pytest.raises(TopicLost, match="effects begins at offset 9, and was read up to 7 only"):
        rig.lack("main.dc1.effects", FRONT)
