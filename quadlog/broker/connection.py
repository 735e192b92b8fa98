"""Settings that every Kafka client of quadlog passes to librdkafka."""

from __future__ import annotations

from typing import Any, Final

COMMON: Final[dict[str, Any]] = {
    # A broker that was killed and restarted must be found within a second, not ten.
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.keepalive.enable": True,
    "log.connection.close": False,
}
