"""A renewable outlet: to a topic that may take no more records while others of the same Kafka do.

Such a topic must end nothing but what is said there.  It has an outlet of its own, which tells for how long nothing
was taken, or why a record was refused for good; and which lets go of what waits, to begin anew.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from quadlog.broker.outlet import KafkaOutlet
from quadlog.clock import now

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from quadlog.ports import Acked, Headers


class RenewableOutlet:
    """An outlet that may be given up: what is said then goes nowhere, until it is renewed.  Times are steady ms."""

    def __init__(self, bootstrap: str, *, client: str) -> None:
        """Connect: an idempotent producer needs a second or so until its first record leaves."""
        self._bootstrap, self._client = bootstrap, client
        self._lock: Final = threading.Lock()
        self._outlet: KafkaOutlet | None = None
        self._is_given_up = False
        self._waiting = 0
        self._since = 0.0
        self._refusal = ""
        self._generation = 0
        self._current()

    @property
    def waits_since(self) -> float | None:
        """Since when something waits and nothing was taken; None: nothing waits."""
        return self._since if self._waiting else None

    @property
    def waiting(self) -> int:
        """Records that the broker has not taken."""
        return self._waiting

    @property
    def refusal(self) -> str:
        """Why a record was refused for good; empty: none was."""
        return self._refusal

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
            outlet = self._current()
        outlet.produce(topic, key=key, values=values, headers=headers, acked=acked)

    @contextmanager
    def together(self) -> Generator[Callable[[], None], None, None]:
        """What the calling thread says within this goes at its end; see `quadlog.ports.Together`."""
        with self._lock:
            outlet = None if self._is_given_up else self._current()
        with nullcontext(_nothing) if outlet is None else outlet.together() as let_go:
            yield let_go

    def give_up(self) -> None:
        """Let go of what was not taken; what is on its way to the broker may still come there.  Of any thread."""
        with self._lock:
            outlet, self._outlet = self._outlet, None
            self._is_given_up = True
            self._generation += 1
            self._waiting, self._refusal = 0, ""
        if outlet is not None:
            threading.Thread(target=outlet.abandon, name="abandon", daemon=True).start()

    def renew(self) -> None:
        """What is said from here on goes out."""
        with self._lock:
            self._is_given_up = False
            self._current()

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until all that was said is acknowledged, for `timeout` seconds at most."""
        if self._outlet is not None:
            self._outlet.flush(timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Send what waits, for `timeout` seconds at most."""
        if self._outlet is not None:
            self._outlet.close(timeout)

    def _current(self) -> KafkaOutlet:
        """The outlet; with the lock held."""
        if self._outlet is None:
            generation = self._generation
            self._outlet = KafkaOutlet(
                self._bootstrap,
                client=self._client,
                failed=lambda reason: self._refuse(generation, reason),
                taken=lambda: self._take(generation),
            )
        return self._outlet

    def _take(self, generation: int) -> None:
        with self._lock:
            if generation == self._generation:
                self._waiting -= 1
                self._since = now().steady

    def _refuse(self, generation: int, reason: str) -> None:
        with self._lock:
            if generation == self._generation:
                self._refusal = self._refusal or reason


def _nothing() -> None:
    """Where nothing is said nothing is let go of."""
