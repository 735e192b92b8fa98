"""Which topic it is: Kafka gives each one that is made an id, so one made anew under an old name is told from it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from quadlog.broker.connection import COMMON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EVERY_S: Final = 2.0
"""Between two looks at the ids: for so long a topic that was made anew may be taken for the old one."""
GONE_S: Final = 10.0
"""For so long its broker says that it has no such topic: one that was just started may not know it yet."""
PATIENCE_S: Final = 3.0
"""How long a broker has to answer."""
ANSWER_S: Final = 15.0
"""How long an answer is waited for at the most; then it is lost."""

REFRESH_MS: Final = 1_000
"""Between two looks at which brokers there are: the one to be asked may have been stopped, see `Identities._renew`."""

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
            "topic.metadata.refresh.interval.ms": REFRESH_MS,
        }
        self._client = AdminClient(self._settings)
        self._lost: list[tuple[AdminClient, Mapping[str, Any]]] = []
        """Who never answered: a client has to live as long as it may."""
        self._known: Final = dict(known)
        self._asked: dict[str, Any] = {}
        self._asked_at = float("-inf")
        self._is_unanswered = False
        """Whether of what was asked last something was not answered."""
        self._missing_since: dict[str, float] = {}

    def look(self) -> dict[str, tuple[str | None, bool]]:
        """Take in what was answered, ask again if that is due.

        Returns:
            topics that are not as they were known: the id, and whether another one was known; None: it is gone.

        """
        found: dict[str, tuple[str | None, bool]] = {}
        if self._asked and all(future.done() for future in self._asked.values()):
            asked, self._asked = self._asked, {}
            self._is_unanswered = False
            for topic, future in asked.items():
                found |= self._take(topic, future)
            if self._is_unanswered:
                self._renew()
        elif self._asked and time.monotonic() - self._asked_at > ANSWER_S:
            self._give_up()
        if not self._asked and time.monotonic() - self._asked_at >= EVERY_S:
            self.ask()
        return found

    def ask(self) -> None:
        """Do not wait until it is due."""
        self._asked, self._asked_at = ask_ids(self._client, self._known), time.monotonic()

    def _give_up(self) -> None:
        """The answer is lost: another client is asked."""
        log.warning("describe_topics_unanswered", topics=sorted(self._asked))
        waiting = [one for one in self._lost if not all(future.done() for future in one[1].values())]
        self._lost = [*waiting, (self._client, self._asked)]
        self._client, self._asked = AdminClient(self._settings), {}
        self._asked_at = float("-inf")

    def _renew(self) -> None:
        """Another client asks, which learns anew which brokers there are.

        The old one asks the broker that its metadata name as the controller, with KRaft any that lived then.  If that
        one is stopped, librdkafka connects to it again and again without a pause, as long as a request waits for it:
        a whole core (decision 41).
        """
        ended, self._client = self._client, AdminClient(self._settings)
        # To end one takes as long as its threads need.
        threading.Thread(target=_forget, args=([ended],), name="ended", daemon=True).start()
        del ended

    @property
    def is_asking(self) -> bool:
        """Whether an answer is to come."""
        return bool(self._asked)

    def knows(self, topics: Iterable[str]) -> bool:
        """Whether all of them were seen that are looked at."""
        return all(self._known[topic] is not None for topic in topics if topic in self._known)

    def _take(self, topic: str, future: Any) -> dict[str, tuple[str | None, bool]]:  # noqa: ANN401
        known = self._known[topic]
        try:
            answer = id_in(future)
        except KafkaException:
            self._is_unanswered = True  # out of reach: the tail waits for it, too
            return {}
        if answer is None:
            since = self._missing_since.setdefault(topic, time.monotonic())
            is_gone = known is not None and time.monotonic() - since > GONE_S
            return {topic: (None, True)} if is_gone else {}
        self._missing_since.pop(topic, None)
        if answer == known:
            return {}
        self._known[topic] = answer
        return {topic: (answer, known is not None)}


def _forget(clients: list[AdminClient]) -> None:
    clients.clear()
