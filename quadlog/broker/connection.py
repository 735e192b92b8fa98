"""Settings that every Kafka client of quadlog passes to librdkafka, and why a broker refuses its clients."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.settings.kafka_security import KafkaCredentials

COMMON: Final[dict[str, Any]] = {
    # A broker that was killed and restarted must be found within a second, not ten.
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.keepalive.enable": True,
    "log.connection.close": False,
}
ANY: Final = ""
"""In place of bootstrap servers: all that have no credentials of their own."""
_REFUSALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001 - librdkafka's own codes
_REFUSED_S: Final = 10.0
"""Seconds for which a refusal explains why there is no answer: a client tries again twice a second."""

_credentials: Final[dict[str, KafkaCredentials]] = {}
"""By bootstrap servers; see decision 59."""
_refusals: Final[dict[str, tuple[float, str]]] = {}
"""Time and text of the last refusal, by bootstrap servers."""


def log_in(credentials: Mapping[str, KafkaCredentials]) -> None:
    """Let all later clients of this process use these credentials, by the bootstrap servers of each Kafka.

    Raises:
        SetupError: a certificate or a key cannot be used.

    """
    for found in credentials.values():
        if properties := found.librdkafka():
            try:
                AdminClient({"log_level": 0, **properties})
            except KafkaException as error:
                raise SetupError(f"{error.args[0].str()}: correct the settings kafka-ssl-…") from error
    _credentials.update(credentials)


def credentials_for(bootstrap: str) -> KafkaCredentials | None:
    """Return the credentials for a Kafka; None: it asks for none."""
    return _credentials.get(bootstrap) or _credentials.get(ANY)


def client_settings(bootstrap: str) -> dict[str, Any]:
    """Return the settings that all clients of the Kafka at these bootstrap servers have in common."""
    found = credentials_for(bootstrap)
    return {
        **COMMON,
        "bootstrap.servers": bootstrap,
        **({} if found is None else found.librdkafka()),
    }


def note_refusal(bootstrap: str, error: KafkaError) -> None:
    """Remember an error of a client, if it says that a broker refuses it.

    For `error_cb` of clients that are polled: librdkafka keeps errors until then.
    """
    if error.code() in _REFUSALS:
        _refusals[bootstrap] = time.monotonic(), error.str()


def unanswered(bootstrap: str, error: Exception) -> str:
    """Return why a Kafka does not answer, and what to do."""
    moment, text = _refusals.get(bootstrap, (float("-inf"), ""))
    if time.monotonic() - moment < _REFUSED_S:
        return f"the Kafka at {bootstrap} refuses this client: {text}; correct the settings kafka-… of its security"
    found = credentials_for(bootstrap)
    what = (
        ""
        if found and found.librdkafka()
        else ", or give the settings kafka-… of its security if it has some"
    )
    return f"no Kafka broker answers at {bootstrap}: {error}; start it or correct 'kafka'{what}"
