"""What a consumer's errors mean: deleted records, another reason, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from quadlog.broker.reading import batch
from quadlog.errors import RecordsGone, StateError


class Failing:
    """A consumer, and its one message, which is an error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def poll(self, _: float) -> Any:  # noqa: ANN401
        return self

    def consume(self, *_: int, **__: float) -> list[Any]:
        return []

    def error(self) -> KafkaError:
        return KafkaError(self.code)

    def topic(self) -> str:
        return "main.dc1.agreed"

    def offset(self) -> int:
        return 7


@pytest.mark.parametrize("code", [KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET])
def test_an_offset_that_is_not_there_is_told_with_its_topic(code: int) -> None:
    with pytest.raises(RecordsGone, match=r"main.dc1.agreed at offset 7: .*set retention.ms to -1"):
        batch(Failing(code), 0)  # type: ignore[arg-type]


def test_what_may_not_be_read_is_no_deleted_record() -> None:
    with pytest.raises(StateError, match=r"cannot be read: .*whether this user may read it") as caught:
        batch(Failing(KafkaError.TOPIC_AUTHORIZATION_FAILED), 0)  # type: ignore[arg-type]
    assert "retention" not in str(caught.value)


def test_what_passes_by_is_waited_for() -> None:
    assert batch(Failing(KafkaError._TRANSPORT), 0) == []  # type: ignore[arg-type]
