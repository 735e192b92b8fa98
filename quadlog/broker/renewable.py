"""A renewable outlet: for a topic that may accept no more records while other topics of the same Kafka do.

A failure of such a topic must affect only the records for it.  The topic has its own outlet, which reports for how
long no record was accepted, or why a record was refused for good.  The outlet may be given up: further records are
then discarded until it is renewed.  It can only be renewed once no earlier record can still be accepted: such a record
would arrive later, between or after the new records.  So the topic contains a prefix of the records that were produced
between two renewals, in their order, and all of it before the records produced after the second renewal.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from quadlog.broker.outlet import KafkaOutlet
from quadlog.clock import now

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from quadlog.ports import Acked, Headers


class RenewableOutlet:
    """Implementation of `quadlog.ports.Renewable`.  Any thread may use it."""

    def __init__(self, bootstrap: str, *, client: str) -> None:
        """Connect: an idempotent producer needs about a second until its first record is sent."""
        self._bootstrap, self._client = bootstrap, client
        self._lock: Final = threading.Lock()
        self._is_given_up = False
        self._waiting = 0
        """Records that the broker has neither accepted nor refused."""
        self._since = 0.0
        self._refusal = ""
        self._producers = 0
        self._outlet = self._connect()

    @property
    def waits_since(self) -> float | None:
        """Time since which records wait and none was accepted; None if no record waits, or after `give_up`."""
        return self._since if self._waiting and not self._is_given_up else None

    @property
    def refusal(self) -> str:
        """Reason why a record was refused for good; empty if none was, or after `give_up`."""
        return "" if self._is_given_up else self._refusal

    @property
    def is_settled(self) -> bool:
        """True if it is known of every record whether it is in the topic, and none can arrive there any more."""
        return not self._waiting

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Hand over the chunks of one value; see `quadlog.ports.Outlet`."""
        with self._lock:
            if self._is_given_up:
                return
            if not self._waiting:
                self._since = now().steady
            self._waiting += len(values)
            outlet = self._outlet
        outlet.produce(topic, key=key, values=values, headers=headers, acked=acked)

    @contextmanager
    def together(self) -> Generator[Callable[[], None], None, None]:
        """Hold back the calling thread's records within this context; see `quadlog.ports.Together`."""
        with self._outlet.together() as let_go:
            yield let_go

    def give_up(self) -> None:
        """Discard further records until `renew`; earlier ones may still be accepted."""
        with self._lock:
            self._is_given_up = self._outlet.is_stopped = True

    def renew(self) -> None:
        """Send further records again.  All earlier records must be settled before."""
        with self._lock:
            assert not self._waiting, "what was said before could come behind what is said now"
            self._is_given_up = self._outlet.is_stopped = False
            if not self._refusal:
                return
            ended, self._outlet, self._refusal = self._outlet, self._connect(), ""
        threading.Thread(target=ended.close, args=(0.0,), name="ended", daemon=True).start()

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until all records are acknowledged, for at most `timeout` seconds."""
        self._outlet.flush(timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Send the waiting records, for at most `timeout` seconds."""
        self._outlet.close(timeout)

    def _connect(self) -> KafkaOutlet:
        self._producers += 1
        number = self._producers
        return KafkaOutlet(
            self._bootstrap,
            client=self._client,
            failed=lambda reason: self._refuse(number, reason),
            taken=self._take,
            lost=self._lose,
            is_gapless=True,
        )

    def _take(self) -> None:
        with self._lock:
            self._waiting -= 1
            self._since = now().steady

    def _lose(self) -> None:
        with self._lock:
            self._waiting -= 1

    def _refuse(self, number: int, reason: str) -> None:
        with self._lock:
            if number == self._producers:
                self._refusal = self._refusal or reason
