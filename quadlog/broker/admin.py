"""Topics of one cluster: made when missing, looked at before they are trusted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # their stubs forget to export them
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from quadlog.broker.connection import COMMON
from quadlog.broker.identity import PATIENCE_S, answer_of, ask_ids, id_in
from quadlog.broker.topic_settings import MIN_IN_SYNC, NEEDED_MESSAGE_BYTES, SAFE_REPLICATION, TopicState
from quadlog.errors import SetupError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GONE_S: Final = 60.0
"""How long a topic may stay that was deleted: a loaded broker has taken more than 15 s."""
MADE_S: Final = 60.0
"""How long a topic is tried to be made."""
_MADE_OR_UNKNOWN: Final = {
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's own code
}


class Admin:
    """Topics of one cluster: made when missing, looked at before they are trusted."""

    def __init__(self, bootstrap: str) -> None:
        """Connects when first asked."""
        self._bootstrap = bootstrap
        # Kept as long as its futures live: they are lost with it.
        self._client = AdminClient({**COMMON, "bootstrap.servers": bootstrap})

    def ensure(self, topics: Sequence[str], *, replication: int, config: Mapping[str, str]) -> dict[str, int]:
        """Create the topics that are missing.  Returns the replication factor of each existing one where it is too low.

        What else may be wrong with existing ones: `describe`, and `quadlog.broker.topic_settings`.

        Raises:
            Unavailable: no broker answers, or it does not make them.
            SetupError: the broker refuses to make one.

        """
        known = self._topics()
        self._make_all([topic for topic in topics if topic not in known], replication, config)
        replicas = {topic: len(known[topic].partitions[0].replicas) for topic in topics if topic in known}
        return {topic: count for topic, count in replicas.items() if count < SAFE_REPLICATION}

    def _make_all(self, missing: Sequence[str], replication: int, config: Mapping[str, str]) -> None:
        """Returns when the broker tells of all: it knows of them some time after the controller has made them."""
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
        """Make topics that may be there; the broker may not tell in time whether it did."""
        client = cast("Any", self._client)  # futures without a type
        for topic, future in client.create_topics(topics, operation_timeout=10).items():
            try:
                answer_of(future)
            except KafkaException as error:
                if error.args[0].code() not in _MADE_OR_UNKNOWN:
                    message = f"topic {topic} could not be made at {self._bootstrap}: {error}"
                    raise SetupError(message) from error

    def ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Of those of these topics that are there, the ids that Kafka gave them when they were made.

        Raises:
            Unavailable: no broker answers.

        """
        self._topics()
        try:
            found = {topic: id_in(future) for topic, future in ask_ids(self._client, topics).items()}
        except KafkaException as error:
            message = (
                f"the broker at {self._bootstrap} does not tell its topics' ids: {error}; is it 2.8 or later?"
            )
            raise Unavailable(message) from error
        return {topic: identity for topic, identity in found.items() if identity is not None}

    def delete(self, topics: Sequence[str]) -> None:
        """Delete those of these topics that are there; returns when they are gone.

        Raises:
            Unavailable: no broker answers, or it is there for too long.

        """
        self._topics()
        client = cast("Any", self._client)  # futures without a type
        # Without a look at what is there: a broker knows some time after the controller what was made.
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
        """Delete the records of topics before an offset of each.

        Raises:
            Unavailable: a broker does not, or not within 15 s.

        """
        client = cast("Any", self._client)  # futures without a type
        places = [TopicPartition(topic, 0, offset) for topic, offset in offsets.items()]
        for place, future in client.delete_records(places, operation_timeout=10).items():
            try:
                answer_of(future)
            except KafkaException as error:
                message = (
                    f"the records of {place.topic} before offset {place.offset} could not be deleted: {error}"
                )
                raise Unavailable(message) from error

    def _topics(self) -> dict[str, Any]:
        try:
            topics: dict[str, Any] = self._client.list_topics(timeout=5).topics
        except KafkaException as error:
            message = f"no Kafka broker answers at {self._bootstrap}: {error}; start it or correct 'kafka'"
            raise Unavailable(message) from error
        return topics

    def describe(self, topics: Sequence[str]) -> list[TopicState]:
        """The settings of those of these topics that exist.

        Raises:
            Unavailable: no broker answers.

        """
        known = self._topics()
        there = [topic for topic in topics if topic in known and known[topic].partitions]
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in there]
        client = cast("Any", self._client)  # futures without a type
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
        """Offset of the first record that each of these topics still has, of those that exist.

        Raises:
            Unavailable: no broker answers.

        """
        known = self._topics()
        client, earliest = cast("Any", self._client), cast("Any", OffsetSpec).earliest()  # without types
        asked = {TopicPartition(topic, 0): earliest for topic in topics if topic in known}
        futures: dict[Any, Any] = client.list_offsets(asked, request_timeout=PATIENCE_S) if asked else {}
        return {place.topic: int(self._answer(future).offset) for place, future in futures.items()}

    def _answer(self, future: Any) -> Any:  # noqa: ANN401 - their futures have no type
        try:
            return answer_of(future)
        except KafkaException as error:
            message = (
                f"the broker at {self._bootstrap} does not describe its topics: {error}; see its log and the"
                " rights (DescribeConfigs) of this user"
            )
            raise Unavailable(message) from error

    def obstacles(self, topic: str) -> list[str]:
        """What keeps a topic from taking records, as far as its settings tell.

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
    """What about a topic may keep it from taking records; empty: nothing that can be seen."""
    try:
        return "; ".join(Admin(bootstrap).obstacles(topic))
    except Unavailable as error:
        return f"its settings cannot be read ({error})"
