"""A renewable outlet: to a topic that may take no more records while others of the same Kafka do.

Such a topic must end nothing but what is said there.  It has an outlet of its own, which tells for how long nothing
was taken, or why a record was refused for good.  It may be given up: what is said then goes nowhere, until it is
renewed.  What was said before is never let go of while it may still be taken: it would come to the topic later, between
or behind what is said then.  So of what was said between two renewals the topic has a beginning, as it was said, and
all of that stands before what is said after the second one.
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
    """See `quadlog.ports.Renewable`.  Of any thread."""

    def __init__(self, bootstrap: str, *, client: str) -> None:
        """Connect: an idempotent producer needs a second or so until its first record leaves."""
        self._bootstrap, self._client = bootstrap, client
        self._lock: Final = threading.Lock()
        self._is_given_up = False
        self._waiting = 0
        """Records that the broker has neither taken nor refused."""
        self._since = 0.0
        self._refusal = ""
        self._producers = 0
        self._outlet = self._connect()

    @property
    def waits_since(self) -> float | None:
        """Since when something waits and nothing was taken; None: nothing waits, or it was given up."""
        return self._since if self._waiting and not self._is_given_up else None

    @property
    def refusal(self) -> str:
        """Why a record was refused for good; empty: none was, or it was given up."""
        return "" if self._is_given_up else self._refusal

    @property
    def is_settled(self) -> bool:
        """Whether it is known of all that was said whether it is in the topic, and nothing of it can come any more."""
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
        """What the calling thread says within this goes at its end; see `quadlog.ports.Together`."""
        with self._outlet.together() as let_go:
            yield let_go

    def give_up(self) -> None:
        """Say nothing more, until it is renewed; what was said may still be taken."""
        with self._lock:
            self._is_given_up = self._outlet.is_stopped = True

    def renew(self) -> None:
        """What is said from here on goes out; not before all that was said is settled."""
        with self._lock:
            assert not self._waiting, "what was said before could come behind what is said now"
            self._is_given_up = self._outlet.is_stopped = False
            if not self._refusal:
                return
            ended, self._outlet, self._refusal = self._outlet, self._connect(), ""
        threading.Thread(target=ended.close, args=(0.0,), name="ended", daemon=True).start()

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until all that was said is acknowledged, for `timeout` seconds at most."""
        self._outlet.flush(timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Send what waits, for `timeout` seconds at most."""
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
