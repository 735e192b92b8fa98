"""Topic ids: Kafka assigns one at creation, which distinguishes a re-created topic from an old one of the same name."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from quadlog.broker.connection import client_settings
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

EVERY_S: Final = 2.0
"""Seconds between two lookups of the ids: for this long a re-created topic may be taken for the old one."""
GONE_S: Final = 10.0
"""Seconds for which a broker must report a topic as missing: one that was just started may not know it yet."""
PATIENCE_S: Final = 3.0
"""Seconds that a broker has to answer."""
ANSWER_S: Final = 15.0
"""Maximum number of seconds to wait for an answer; after that it counts as lost."""

log = structlog.get_logger()


def ask_ids(client: AdminClient, topics: Iterable[str]) -> dict[str, Any]:
    """Request the ids of topics and return a future for each; see `id_in`."""
    asked = TopicCollection(list(topics))
    return cast("Any", client).describe_topics(asked, request_timeout=PATIENCE_S)  # type: ignore[no-any-return]


def answer_of(future: Any) -> Any:  # noqa: ANN401 - the client's futures have no type
    """Return the broker's answer.

    Raises:
        KafkaException: the broker reported an error, or did not answer within `ANSWER_S`: an answer may be lost.

    """
    try:
        return future.result(timeout=ANSWER_S)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001 - librdkafka's own code


def id_in(future: Any) -> str | None:  # noqa: ANN401 - the client's futures have no type
    """Return the id in the broker's answer; None if there is no such topic.

    Raises:
        KafkaException: the broker did not answer.

    """
    try:
        return str(answer_of(future).topic_id)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


class _Look:
    """One look at topics, on a thread of its own: two requests, one after the other."""

    def __init__(self, client: AdminClient, topics: Collection[str]) -> None:
        self._client: AdminClient | None = client
        self._futures: dict[str, Any] = {}
        self.topics: Final = tuple(topics)
        self.answers: dict[str, str | Exception | None] | None = None
        """The id of each topic, None for a topic that does not exist, or the reason why it is unknown.

        None until the look has ended.
        """
        threading.Thread(target=self._run, args=(client,), name="identities", daemon=True).start()

    def _run(self, client: AdminClient) -> None:
        answers: dict[str, str | Exception | None]
        try:
            answers = self._ask(client)
        except Exception as error:  # noqa: BLE001 - whatever it is, the tail must not wait for ever
            answers = dict.fromkeys(self.topics, error)
        for answer in answers.values():
            if isinstance(answer, Exception):
                answer.with_traceback(None)  # it would keep this look and its client alive, in a cycle
        if not self.is_lost:
            self._client, self._futures = None, {}
        self.answers = answers  # last: the owner reads the rest after this

    def _ask(self, client: AdminClient) -> dict[str, str | Exception | None]:
        # `describe_topics` is sent to the broker that the client's metadata name as the controller.  If that broker was
        # stopped, librdkafka connects to it without a pause as long as the request waits, a whole core (decision 41).
        # A broker that answers a request for metadata names one that is alive.
        client.list_topics(self.topics[0], timeout=PATIENCE_S)
        self._futures = ask_ids(client, self.topics)
        wait(self._futures.values(), timeout=ANSWER_S)
        return {topic: _answered(future) for topic, future in self._futures.items()}

    @property
    def is_lost(self) -> bool:
        """True if an answer is still missing: the client must live for as long as it may arrive."""
        return not all(future.done() for future in list(self._futures.values()))


def _answered(future: Any) -> str | Exception | None:  # noqa: ANN401 - their futures have no type
    if not future.done():
        return KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - librdkafka's own code
    try:
        return id_in(future)
    except Exception as error:  # noqa: BLE001 - reported by `Identities.poll`
        return error


class Identities:
    """The topic ids of one cluster, looked up periodically without blocking the caller.  Owned by one thread."""

    def __init__(self, bootstrap: str, known: Mapping[str, str | None]) -> None:
        """Create a client that connects on the first request; `known`: ids when offsets were stored; None: unknown."""
        # Logs nothing: whatever keeps this client from the broker also affects the tail, whose consumer reports it.
        self._settings: Final = {
            **client_settings(bootstrap),
            "log_level": 0,
            "allow.auto.create.topics": False,
        }
        self._client = AdminClient(self._settings)
        self._look: _Look | None = None
        self._lost: list[_Look] = []
        self._known: Final = dict(known)
        self._due_at = float("-inf")
        self._missing_since: dict[str, float] = {}

    def poll(self) -> dict[str, tuple[str | None, bool]]:
        """Process the answers that have arrived, and send the next request if it is due.

        Returns:
            for each topic that has changed, its id and whether another id was known before; id None: the topic is gone.

        Raises:
            Exception: the look failed for another reason than the broker's.

        """
        found: dict[str, tuple[str | None, bool]] = {}
        if self._look is not None and (answers := self._look.answers) is not None:
            # No other look begins with this call: whoever waits for an answer has it then.
            if any(isinstance(answer, KafkaException) for answer in answers.values()):
                self._renew()
            self._look = None
            for topic, answer in answers.items():
                # A KafkaException means that the broker is out of reach; the tail waits for it, too.
                if not isinstance(answer, Exception):
                    found |= self._take(topic, answer)
                elif not isinstance(answer, KafkaException):
                    raise answer
        elif self._look is None and time.monotonic() >= self._due_at:
            self.ask()
        return found

    def ask(self) -> None:
        """Send a request now, even if none is due."""
        self._due_at = time.monotonic() + EVERY_S
        if self._known:
            self._look = _Look(self._client, self._known)

    def _renew(self) -> None:
        """Replace the client by a new one, which learns again which brokers there are."""
        looks = [*self._lost, *([] if self._look is None else [self._look])]
        self._lost = [look for look in looks if look.is_lost]
        if self._look in self._lost:
            log.warning("describe_topics_unanswered", topics=sorted(self._known))
        # Destroying a client blocks until its threads have ended: no reference may be left to this thread.
        ended = [self._client, *(look for look in looks if not look.is_lost)]
        self._client = AdminClient(self._settings)
        threading.Thread(target=ended.clear, name="ended", daemon=True).start()
        del ended, looks
        # Until a killed broker is known to be gone, each lookup may take a whole core.
        self._due_at = time.monotonic() + EVERY_S

    @property
    def is_asking(self) -> bool:
        """True while an answer is outstanding."""
        return self._look is not None

    def knows(self, topics: Iterable[str]) -> bool:
        """Return whether the ids of all these topics are known, as far as the topics are watched."""
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


class TopicIds(dict[str, str]):
    """Ids of topics, by name, that are stored in a file: offsets are valid only in the topics of these ids."""

    def __init__(self, path: Path, otherwise: str) -> None:
        """Read the file; `otherwise` tells what happens without it.

        Raises:
            StateError: the file exists and cannot be read.

        """
        self._path: Final = path
        self._lock = threading.Lock()
        try:
            found: Any = json.loads(path.read_text())
        except FileNotFoundError:
            found = {}
        except ValueError as error:
            raise StateError(f"{path} cannot be read: {error}; remove it, and {otherwise}") from error
        super().__init__({str(topic): str(identity) for topic, identity in found.items()})

    def note(self, ids: Mapping[str, str]) -> None:
        """Store ids; on any thread.  A crash between any two steps is harmless."""
        with self._lock:
            self.update(ids)
            making = self._path.with_suffix(".new")
            self._path.parent.mkdir(parents=True, exist_ok=True)
            making.write_text(json.dumps(self))
            making.replace(self._path)
