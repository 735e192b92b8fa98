"""What is made, looked at and refused at a real broker."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from quadlog.broker import Admin, admin, identity
from quadlog.errors import Unavailable
from tests.support.clusters.cluster import until


@pytest.fixture
def names() -> list[str]:
    """Of topics that are not there."""
    return [f"test.{uuid.uuid4()}" for _ in range(3)]


def partitions(kafka: str, names: list[str]) -> list[int]:
    known = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    return [len(known[name].partitions) for name in names if name in known]


def test_missing_topics_are_made_with_one_partition(kafka: str, names: list[str]) -> None:
    admin = Admin(kafka)
    assert admin.ensure(names, replication=1, config={"retention.ms": "-1"}) == {}
    assert admin.ensure(names, replication=1, config={}) == dict.fromkeys(names, 1)
    assert partitions(kafka, names) == [1, 1, 1]


def test_topics_are_described_as_they_are(kafka: str) -> None:
    name = f"test.{uuid.uuid4()}"
    client = AdminClient({"bootstrap.servers": kafka})  # its futures are lost with it
    made = NewTopic(name, 2, 1, config={"max.message.bytes": "5000", "min.insync.replicas": "2"})
    client.create_topics([made])[name].result(timeout=20)
    admin = Admin(kafka)
    [state] = until(lambda: admin.describe([name, f"{name}.missing"]))
    assert (state.topic, state.partitions, state.replicas, state.in_sync) == (name, 2, 1, 1)
    assert (state.config["max.message.bytes"], state.config["cleanup.policy"]) == ("5000", "delete")
    assert admin.obstacles(name) == [
        "min.insync.replicas is 2, and 1 of its replicas are in sync",
        "max.message.bytes is 5000, and 1000000 are needed",
    ]
    assert admin.obstacles(f"{name}.missing") == ["there is no such topic"]
    assert admin.beginnings([name, f"{name}.missing"]) == {name: 0}


class Lagging:
    """A client of a real broker whose first looks at topics show those of before."""

    def __init__(self, client: AdminClient, *, looks: int) -> None:
        self.client, self.looks = client, looks
        self.before = client.list_topics(timeout=10)

    def list_topics(self, **rest: Any) -> Any:  # noqa: ANN401
        self.looks -= 1
        return self.before if self.looks >= 0 else self.client.list_topics(**rest)

    def describe_topics(self, *args: Any, **rest: Any) -> Any:  # noqa: ANN401
        assert self.looks < 0, "nobody asks for ids of what the broker does not know yet"
        return self.client.describe_topics(*args, **rest)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401, D105
        return getattr(self.client, name)


def test_what_was_just_made_is_found_by_whoever_asks_next(kafka: str, names: list[str]) -> None:
    """The controller makes topics, and the broker that is asked learns of it later."""
    there = Admin(kafka)
    there._client = Lagging(there._client, looks=3)  # type: ignore[assignment]
    there.ensure(names, replication=1, config={})
    assert set(there.ids(names)) == set(names)


def test_what_was_just_made_is_deleted(kafka: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the broker does not know of it yet."""
    there = Admin(kafka)
    there.ensure(names, replication=1, config={})
    ids, late = there.ids, [dict[str, str]()]
    monkeypatch.setattr(admin, "GONE_S", 5.0)
    monkeypatch.setattr(there, "ids", lambda topics: late.pop() if late else ids(topics))
    there.delete([*names, f"{names[0]}.missing"])
    there.delete(names)
    assert partitions(kafka, names) == []


class Losing:
    """A client of a real broker whose first requests, or the answers to them, are lost."""

    def __init__(self, client: AdminClient, *, times: int, is_heard: bool) -> None:
        self.client, self.times, self.is_heard = client, times, is_heard

    def create_topics(self, topics: list[NewTopic], **rest: Any) -> dict[str, Future[None]]:  # noqa: ANN401
        if not self.times:
            return self.client.create_topics(topics, **rest)
        self.times -= 1
        if self.is_heard:
            for made in self.client.create_topics(topics, **rest).values():
                made.result(timeout=20)
        return {topic.topic: Future() for topic in topics}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401, D105
        return getattr(self.client, name)


@pytest.mark.parametrize("is_heard", [True, False])
def test_topics_are_there_also_where_an_answer_was_lost(
    kafka: str,
    names: list[str],
    monkeypatch: pytest.MonkeyPatch,
    is_heard: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(identity, "ANSWER_S", 1.0)
    made = Admin(kafka)
    made._client = losing = Losing(made._client, times=2, is_heard=is_heard)  # type: ignore[assignment]
    assert made.ensure(names, replication=1, config={}) == {}
    assert partitions(kafka, names) == [1, 1, 1]
    assert losing.times == (1 if is_heard else 0)


def test_topics_that_are_never_made_are_told(
    kafka: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "ANSWER_S", 0.1)
    monkeypatch.setattr(admin, "MADE_S", 1.0)
    made = Admin(kafka)
    made._client = Losing(made._client, times=1000, is_heard=False)  # type: ignore[assignment]
    with pytest.raises(
        Unavailable, match=rf"{names[0]}, .*could not be made at {kafka} within 1 s.*try again"
    ):
        made.ensure(names, replication=1, config={})
    assert partitions(kafka, names) == []
