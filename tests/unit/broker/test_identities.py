"""Which topics they are is asked again where an answer is lost: whoever waits for it reads nothing."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from quadlog.broker.identity import ANSWER_S, EVERY_S, Identities

if TYPE_CHECKING:
    import pytest


def asking(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], list[tuple[object, Future[Any]]]]:
    """The moment, and who asked with what is to be the answer."""
    moment, asked = [100.0], list[tuple[object, Future[Any]]]()

    def ask(client: object, topics: object) -> dict[str, Future[Any]]:
        del topics
        asked.append((client, Future()))
        return {"t": asked[-1][1]}

    monkeypatch.setattr("quadlog.broker.identity.ask_ids", ask)
    monkeypatch.setattr("quadlog.broker.identity.time.monotonic", lambda: moment[0])
    return moment, asked


def test_a_lost_answer_is_asked_for_again_by_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    moment, asked = asking(monkeypatch)
    identities = Identities("127.0.0.1:1", {"t": None})
    assert identities.look() == {}
    moment[0] += ANSWER_S - 1
    assert identities.look() == {}
    assert (len(asked), identities.is_asking) == (1, True), "a slow answer is waited for"
    moment[0] += 2
    assert identities.look() == {}
    [(first, lost), (second, future)] = asked
    assert first is not second
    future.set_result(SimpleNamespace(topic_id="id"))
    assert identities.look() == {"t": ("id", False)}
    assert identities.knows(["t"])
    lost.set_result(SimpleNamespace(topic_id="late"))
    moment[0] += EVERY_S
    assert identities.look() == {}, "what comes late is not heard"


def test_who_was_not_answered_asks_by_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom it asks stands in the client's metadata, and may be a broker that is stopped."""
    moment, asked = asking(monkeypatch)
    identities = Identities("127.0.0.1:1", {"t": None})
    unknown, late = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), KafkaError(KafkaError.REQUEST_TIMED_OUT)
    for error in (unknown, late, None):
        identities.look()
        future = asked[-1][1]
        future.set_exception(KafkaException(error)) if error else future.set_result(
            SimpleNamespace(topic_id="id")
        )
        moment[0] += EVERY_S
    assert identities.look() == {"t": ("id", False)}
    [first, second, third, fourth] = [client for client, _ in asked]
    assert first is second, "there is no such topic: that is an answer"
    assert second is not third
    assert third is fourth
