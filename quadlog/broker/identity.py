"""Which topic it is: Kafka gives each one that is made an id, so one made anew under an old name is told from it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from quadlog.broker.connection import COMMON

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

EVERY_S: Final = 2.0
"""Between two looks at the ids: for so long a topic that was made anew may be taken for the old one."""
GONE_S: Final = 10.0
"""For so long its broker says that it has no such topic: one that was just started may not know it yet."""
PATIENCE_S: Final = 3.0
"""How long a broker has to answer."""
ANSWER_S: Final = 15.0
"""How long an answer is waited for at the most; then it is lost."""

log = structlog.get_logger()


def ask_ids(client: AdminClient, topics: Iterable[str]) -> dict[str, Any]:
    """Ask for the ids of topics; futures, see `id_in`."""
    asked = TopicCollection(list(topics))
    return cast("Any", client).describe_topics(asked, request_timeout=PATIENCE_S)  # type: ignore[no-any-return]


def answer_of(future: Any) -> Any:  # noqa: ANN401 - their futures have no type
    """What the broker answered.

    Raises:
        KafkaException: something else, or nothing for long: an answer may be lost.

    """
    try:
        return future.result(timeout=ANSWER_S)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001 - librdkafka's own code


def id_in(future: Any) -> str | None:  # noqa: ANN401 - their futures have no type
    """What the broker answered; None: there is no such topic.

    Raises:
        KafkaException: it did not answer.

    """
    try:
        return str(answer_of(future).topic_id)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


class _Look:
    """One look at topics, on a thread of its own: two requests, one behind the other."""

    def __init__(self, client: AdminClient, topics: Collection[str]) -> None:
        self._client: Final = client
        self._futures: dict[str, Any] = {}
        self.topics: Final = tuple(topics)
        self.answers: dict[str, str | KafkaException | None] | None = None
        """The id of each topic, None where there is none, or why that is not known; None: it goes on."""
        threading.Thread(target=self._run, name="identities", daemon=True).start()

    def _run(self) -> None:
        try:
            # A client asks the broker that its metadata name as the controller.  If that one was stopped, librdkafka
            # connects to it without a pause as long as the request waits, a whole core (decision 41): what a broker
            # that is there names now is alive.
            self._client.list_topics(self.topics[0], timeout=PATIENCE_S)
            self._futures = ask_ids(self._client, self.topics)
            wait(self._futures.values(), timeout=ANSWER_S)
            self.answers = {topic: _answered(future) for topic, future in self._futures.items()}
        except KafkaException as error:
            self.answers = dict.fromkeys(self.topics, error)

    @property
    def is_lost(self) -> bool:
        """Whether an answer did not come, and may yet: a client has to live for as long."""
        return not all(future.done() for future in self._futures.values())


def _answered(future: Any) -> str | KafkaException | None:  # noqa: ANN401 - their futures have no type
    if not future.done():
        return KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - librdkafka's own code
    try:
        return id_in(future)
    except KafkaException as error:
        return error


class Identities:
    """The topics of one cluster, looked at now and then; nobody waits for an answer.  Owned by one thread."""

    def __init__(self, bootstrap: str, known: Mapping[str, str | None]) -> None:
        """Connects when first asked.

        Args:
            bootstrap: the cluster.
            known: topics, each with the id that it had when offsets in it were noted; None: that is not known.

        """
        # What keeps it from the broker keeps the tail from it, whose consumer tells.
        self._settings: Final = {
            **COMMON,
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "allow.auto.create.topics": False,
        }
        self._client = AdminClient(self._settings)
        self._look: _Look | None = None
        self._lost: list[_Look] = []
        self._known: Final = dict(known)
        self._due_at = float("-inf")
        self._missing_since: dict[str, float] = {}

    def look(self) -> dict[str, tuple[str | None, bool]]:
        """Take in what was answered, ask again if that is due.

        Returns:
            topics that are not as they were known: the id, and whether another one was known; None: it is gone.

        """
        found: dict[str, tuple[str | None, bool]] = {}
        if self._look is not None and self._look.answers is not None:
            look, answers, self._look = self._look, self._look.answers, None
            for topic, answer in answers.items():
                # Out of reach: the tail waits for it, too.
                if not isinstance(answer, KafkaException):
                    found |= self._take(topic, answer)
            if any(isinstance(answer, KafkaException) for answer in answers.values()):
                self._renew(look)
        if self._look is None and time.monotonic() >= self._due_at:
            self.ask()
        return found

    def ask(self) -> None:
        """Do not wait until it is due."""
        self._due_at = time.monotonic() + EVERY_S
        if self._known:
            self._look = _Look(self._client, self._known)

    def _renew(self, look: _Look) -> None:
        """Another client asks, which learns anew which brokers there are."""
        self._lost = [one for one in (*self._lost, look) if one.is_lost]
        if look.is_lost:
            log.warning("describe_topics_unanswered", topics=sorted(look.topics))
        ended, self._client = [look, self._client], AdminClient(self._settings)
        del look
        # To end a client takes as long as its threads need.
        threading.Thread(target=ended.clear, name="ended", daemon=True).start()
        del ended
        # Until a broker that was killed is known to be gone, each look may take a core.
        self._due_at = time.monotonic() + EVERY_S

    @property
    def is_asking(self) -> bool:
        """Whether an answer is to come."""
        return self._look is not None

    def knows(self, topics: Iterable[str]) -> bool:
        """Whether all of them were seen that are looked at."""
        return all(self._known[topic] is not None for topic in topics if topic in self._known)

    def _take(self, topic: str, answer: str | None) -> dict[str, tuple[str | None, bool]]:
        known = self._known[topic]
        if answer is None:
            since = self._missing_since.setdefault(topic, time.monotonic())
            is_gone = known is not None and time.monotonic() - since > GONE_S
            return {topic: (None, True)} if is_gone else {}
        self._missing_since.pop(topic, None)
        if answer == known:
            return {}
        self._known[topic] = answer
        return {topic: (answer, known is not None)}
