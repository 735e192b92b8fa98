"""Which topics they are is asked again where an answer is lost: whoever waits for it reads nothing."""

from __future__ import annotations

import gc
import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from quadlog.broker import identity
from quadlog.broker.identity import Identities
from tests.support.clusters.cluster import until

UNKNOWN, LATE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), KafkaError(KafkaError.REQUEST_TIMED_OUT)


class Client:
    """What a client was asked, in its order; the broker that answers is looked for before each other request."""

    made: ClassVar[list[Client]] = []
    metadata: KafkaException | None = None

    def __init__(self, settings: object) -> None:
        del settings
        self.asked = list[Future[Any] | str]()
        self.made.append(self)

    def list_topics(self, topic: str, *, timeout: float) -> None:
        del timeout
        self.asked.append(topic)
        if self.metadata is not None:
            raise self.metadata


def asking(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Client, Future[Any]]]:
    """Who asked, with what is to be the answer."""
    asked = list[tuple[Client, Future[Any]]]()

    def ask(client: Client, topics: object) -> dict[str, Future[Any]]:
        assert topics == ("t",)
        asked.append((client, Future()))
        client.asked.append(asked[-1][1])
        return {"t": asked[-1][1]}

    monkeypatch.setattr(Client, "made", [])
    monkeypatch.setattr(identity, "AdminClient", Client)
    monkeypatch.setattr(identity, "ask_ids", ask)
    monkeypatch.setattr(identity, "EVERY_S", 0.0)
    return asked


def begun() -> int:
    """How many looks."""
    return sum(client.asked.count("t") for client in Client.made)


def looked(identities: Identities) -> dict[str, tuple[str | None, bool]]:
    """One look more, to its end; the next one has begun."""
    before, found = begun(), list[dict[str, tuple[str | None, bool]]]()

    def is_next() -> bool:
        found.append(identities.poll())
        return begun() > before

    until(is_next)
    return {topic: news for one in found for topic, news in one.items()}


def answer(future: Future[Any], error: KafkaError | None = None) -> None:
    future.set_exception(KafkaException(error)) if error else future.set_result(
        SimpleNamespace(topic_id="id")
    )


def test_a_lost_answer_is_asked_for_again_by_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asking(monkeypatch)
    monkeypatch.setattr(identity, "ANSWER_S", 0.5)
    identities = Identities("127.0.0.1:1", {"t": None})
    began = time.monotonic()
    assert looked(identities) == {}
    assert identities.is_asking
    assert looked(identities) == {}
    assert time.monotonic() - began >= 0.5, "a slow answer is waited for"
    until(lambda: len(asked) == 2)
    [(first, lost), (second, future)] = asked
    assert first is not second
    answer(future)
    assert looked(identities) == {"t": ("id", False)}
    assert identities.knows(["t"])
    lost.set_result(SimpleNamespace(topic_id="late"))
    until(lambda: len(asked) == 3)
    answer(asked[-1][1])
    assert looked(identities) == {}, "what comes late is not heard"


def test_who_was_not_answered_asks_by_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom it asks stands in the client's metadata, and may be a broker that is stopped."""
    asked = asking(monkeypatch)
    identities = Identities("127.0.0.1:1", {"t": None})
    found = looked(identities)
    for number, error in enumerate((UNKNOWN, LATE, None), 1):
        until(lambda number=number: len(asked) == number)  # type: ignore[misc]  # mypy knows no defaults of lambdas
        answer(asked[-1][1], error)
        found = looked(identities)
    assert found == {"t": ("id", False)}
    until(lambda: len(asked) == 4)
    [first, second, third, fourth] = [client for client, _ in asked]
    assert first is second, "there is no such topic: that is an answer"
    assert second is not third
    assert third is fourth


def test_a_client_that_was_not_answered_is_ended_without_a_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each look at a broker that is away would leave its threads and sockets behind."""
    asking(monkeypatch)
    monkeypatch.setattr(Client, "metadata", KafkaException(LATE))
    gc.disable()
    try:
        identities = Identities("127.0.0.1:1", {"t": None})
        clients = [weakref.ref(Client.made.pop())]
        looked(identities)
        looked(identities)
        until(lambda: clients[0]() is None)
        assert clients[0]() is None
        assert Client.made, "another one asks"
    finally:
        gc.enable()


def test_what_is_no_answer_of_a_broker_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asking(monkeypatch)
    identities = Identities("127.0.0.1:1", {"t": None})
    looked(identities)
    until(lambda: len(asked) == 1)
    asked[0][1].set_exception(RuntimeError("results of another length"))
    with pytest.raises(RuntimeError, match="results of another length"):
        until(identities.poll)


def test_an_answer_that_came_is_not_asked_for_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for one look would wait for the next ones, too, as long as each takes longer than their pause."""
    asked = asking(monkeypatch)
    identities = Identities("127.0.0.1:1", {"t": None})
    identities.poll()
    until(lambda: len(asked) == 1)
    answer(asked[0][1])
    until(identities.poll)
    assert not identities.is_asking


def test_whom_to_ask_is_learned_before_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client asks whom its metadata name, and takes a core while that one does not answer (decision 41)."""
    asked = asking(monkeypatch)
    identities = Identities("127.0.0.1:1", {"t": None})
    looked(identities)
    until(lambda: len(asked) == 1)
    answer(asked[0][1])
    looked(identities)
    until(lambda: len(asked) == 2)
    assert Client.made[0].asked == ["t", asked[0][1], "t", asked[1][1]]
    monkeypatch.setattr(Client, "metadata", KafkaException(LATE))
    answer(asked[1][1])
    looked(identities)
    looked(identities)
    assert len(asked) == 2, "where no broker tells, none is asked"
