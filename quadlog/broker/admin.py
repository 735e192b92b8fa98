"""Administration of the topics of one Kafka cluster."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # their stubs forget to export them
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from quadlog.broker.connection import client_settings, note_refusal, unanswered
from quadlog.broker.identity import PATIENCE_S, answer_of, ask_ids, id_in
from quadlog.broker.topic_settings import MIN_IN_SYNC, NEEDED_MESSAGE_BYTES, SAFE_REPLICATION, TopicState
from quadlog.errors import SetupError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GONE_S: Final = 60.0
"""Seconds within which a deleted topic must disappear: a loaded broker has taken more than 15 s."""
MADE_S: Final = 60.0
"""Seconds for which the creation of a topic is retried."""
_MADE_OR_UNKNOWN: Final = {
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's own code
}


class Admin:
    """Topics of one cluster: created if missing, checked before they are used."""

    def __init__(self, bootstrap: str) -> None:
        """Create a client that connects on the first request."""
        self._bootstrap = bootstrap
        # Must outlive its futures, which are lost when the client is destroyed.
        settings: dict[str, Any] = {
            **client_settings(bootstrap),
            "error_cb": partial(note_refusal, bootstrap),
        }
        self._client = AdminClient(settings)

    def reach(self) -> None:
        """Return if a broker answers.

        Raises:
            Unavailable: none does; why.

        """
        self._topics()

    def ensure(self, topics: Sequence[str], *, replication: int, config: Mapping[str, str]) -> dict[str, int]:
        """Create the missing topics; return the replication factor of each existing one where it is too low.

        Other faults of existing topics are found by `describe` and `quadlog.broker.topic_settings`.

        Raises:
            Unavailable: no broker answers, or the broker does not create the topics.
            SetupError: the broker refuses to create a topic.

        """
        known = self._topics()
        self._make_all([topic for topic in topics if topic not in known], replication, config)
        replicas = {topic: len(known[topic].partitions[0].replicas) for topic in topics if topic in known}
        return {topic: count for topic, count in replicas.items() if count < SAFE_REPLICATION}

    def _make_all(self, missing: Sequence[str], replication: int, config: Mapping[str, str]) -> None:
        """Create topics, and return when the broker lists all of them.

        A broker learns of a new topic some time after the controller has created it.
        """
        deadline = time.monotonic() + MADE_S
        while missing:
            self._make([NewTopic(topic, 1, replication, config=dict(config)) for topic in missing])
            known = self._topics()
            missing = [topic for topic in missing if topic not in known]
            if missing and time.monotonic() > deadline:
                message = f"{', '.join(missing)} could not be made at {self._bootstrap} within {MADE_S:.0f} s"
                raise Unavailable(f"{message}: see whether that cluster is in order, and try again")
            if missing:
                time.sleep(0.05)

    def _make(self, topics: Sequence[NewTopic]) -> None:
        """Request the creation of topics that may exist; the broker may not confirm it in time."""
        client = cast("Any", self._client)  # the futures have no type
        for topic, future in client.create_topics(topics, operation_timeout=10).items():
            try:
                answer_of(future)
            except KafkaException as error:
                if error.args[0].code() not in _MADE_OR_UNKNOWN:
                    message = f"topic {topic} could not be made at {self._bootstrap}: {error}"
                    raise SetupError(message) from error

    def ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the ids that Kafka assigned to those of these topics that exist.

        Raises:
            Unavailable: no broker answers, or the broker does not report ids.

        """
        self._topics()
        try:
            found = {topic: id_in(future) for topic, future in ask_ids(self._client, topics).items()}
        except KafkaException as error:
            raise Unavailable(
                f"the broker at {self._bootstrap} does not tell its topics' ids: {error}; is it 2.8 or later?"
            ) from error
        return {topic: identity for topic, identity in found.items() if identity is not None}

    def delete(self, topics: Sequence[str]) -> None:
        """Delete those of these topics that exist; return when they are gone.

        Raises:
            Unavailable: no broker answers, a topic cannot be deleted, or it still exists after `GONE_S`.

        """
        self._topics()
        client = cast("Any", self._client)  # the futures have no type
        # Does not check first which topics exist: a broker learns of a new topic some time after the controller.
        for topic, future in client.delete_topics(list(topics), operation_timeout=10).items():
            try:
                answer_of(future)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    message = f"{topic} could not be deleted at {self._bootstrap}: {error}; try again"
                    raise Unavailable(message) from error
        deadline = time.monotonic() + GONE_S
        while left := self.ids(topics):
            if time.monotonic() > deadline:
                message = f"{', '.join(left)} is still there {GONE_S:.0f} s after it was deleted: try again"
                raise Unavailable(message)
            time.sleep(0.05)

    def delete_before(self, offsets: Mapping[str, int]) -> None:
        """Delete the records of each topic before its offset.

        Raises:
            Unavailable: a broker does not delete them, or not within 15 s.

        """
        client = cast("Any", self._client)  # the futures have no type
        places = [TopicPartition(topic, 0, offset) for topic, offset in offsets.items()]
        for place, future in client.delete_records(places, operation_timeout=10).items():
            try:
                answer_of(future)
            except KafkaException as error:
                raise Unavailable(
                    f"the records of {place.topic} before offset {place.offset} could not be deleted: {error}"
                ) from error

    def _topics(self) -> dict[str, Any]:
        self._client.poll(0)  # errors of connections
        try:
            topics: dict[str, Any] = self._client.list_topics(timeout=5).topics
        except KafkaException as error:
            self._client.poll(0)
            raise Unavailable(unanswered(self._bootstrap, error)) from error
        return topics

    def describe(self, topics: Sequence[str]) -> list[TopicState]:
        """Return the settings of those of these topics that exist.

        Raises:
            Unavailable: no broker answers.

        """
        known = self._topics()
        there = [topic for topic in topics if topic in known and known[topic].partitions]
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in there]
        client = cast("Any", self._client)  # the futures have no type
        futures: dict[Any, Any] = (
            client.describe_configs(resources, request_timeout=PATIENCE_S) if resources else {}
        )
        return [
            self._state(resource.name, self._answer(future), known[resource.name])
            for resource, future in futures.items()
        ]

    def _state(self, topic: str, config: Mapping[str, Any], known: Any) -> TopicState:  # noqa: ANN401
        first = known.partitions[0]
        return TopicState(
            topic=topic,
            config={name: entry.value for name, entry in config.items()},
            partitions=len(known.partitions),
            replicas=len(first.replicas),
            in_sync=len(first.isrs),
        )

    def beginnings(self, topics: Sequence[str]) -> dict[str, int]:
        """Return the offset of the first record that each of these topics still has, if the topic exists.

        Raises:
            Unavailable: no broker answers.

        """
        return self._offsets(topics, cast("Any", OffsetSpec).earliest())  # untyped

    def ends(self, topics: Sequence[str]) -> dict[str, int]:
        """Return the offset after the last record of each of these topics that exists.

        Raises:
            Unavailable: no broker answers.

        """
        return self._offsets(topics, cast("Any", OffsetSpec).latest())

    def _offsets(self, topics: Sequence[str], which: Any) -> dict[str, int]:  # noqa: ANN401 - untyped
        known, client = self._topics(), cast("Any", self._client)
        asked = {TopicPartition(topic, 0): which for topic in topics if topic in known}
        futures: dict[Any, Any] = client.list_offsets(asked, request_timeout=PATIENCE_S) if asked else {}
        return {place.topic: int(self._answer(future).offset) for place, future in futures.items()}

    def _answer(self, future: Any) -> Any:  # noqa: ANN401 - the client's futures have no type
        try:
            return answer_of(future)
        except KafkaException as error:
            raise Unavailable(
                f"the broker at {self._bootstrap} does not describe its topics: {error}; see its log and the"
                " rights (DescribeConfigs) of this user"
            ) from error

    def obstacles(self, topic: str) -> list[str]:
        """Return the reasons, as far as its settings show them, why a topic accepts no records.

        Raises:
            Unavailable: no broker answers.

        """
        states = self.describe([topic])
        if not states:
            return ["there is no such topic"]
        [state] = states
        needed = int(state.config.get(MIN_IN_SYNC) or 1)
        most = int(state.config.get("max.message.bytes") or NEEDED_MESSAGE_BYTES)
        found: list[str] = []
        if state.in_sync < needed:
            found.append(f"min.insync.replicas is {needed}, and {state.in_sync} of its replicas are in sync")
        if most < NEEDED_MESSAGE_BYTES:
            found.append(f"max.message.bytes is {most}, and {NEEDED_MESSAGE_BYTES} are needed")
        return found


def why_full(bootstrap: str, topic: str) -> str:
    """Return why a topic may not accept records; empty if no reason is visible."""
    try:
        return "; ".join(Admin(bootstrap).obstacles(topic))
    except Unavailable as error:
        return f"its settings cannot be read ({error})"
