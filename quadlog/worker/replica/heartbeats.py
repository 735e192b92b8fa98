"""Heartbeats of a worker.

A heartbeat is sent soon after effects were applied, at once when the worker begins or ends to evaluate, and
otherwise at intervals, also while the worker is busy.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from quadlog.clock import now
from quadlog.core.records import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from producers.status import StatusProducer
    from quadlog.core.records import Heartbeat
    from quadlog.quadstore.quadstore import QuadStore

EACH_MS: Final = 2.0
MOST_MS: Final = 25.0
"""Milliseconds between two heartbeats, for each effect that the next one reports, and at most.

Under load one heartbeat reports many effects.  A heartbeat is a produce request, and a record that every master
of the data centre reads.
"""


class Heartbeats:
    """Sender of heartbeats, on the replica's thread; a second thread replaces it while the replica is busy."""

    def __init__(
        self,
        store: QuadStore,
        say: StatusProducer,
        beat: Callable[[WorkerState], Heartbeat],
        *,
        pause: float,
        lives: Callable[[], bool],
        evaluates: Callable[[], bool],
        look: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Start without a heartbeat sent; `pause`: seconds between two of them while nothing is applied.

        `lives` returns True while the replica's thread runs, `evaluates` while the worker evaluates: its master
        appoints a worker as soon as none reports this.  `look` is called with the steady milliseconds, at
        intervals, also while the replica is busy.
        """
        self._store, self._say, self._beat = store, say, beat
        self._pause, self._lives, self._evaluates, self._look = pause, lives, evaluates, look
        self._said_at, self._told, self._told_of_duty = float("-inf"), -1, False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat_while_busy, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Start to watch whether the replica is busy."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching whether the replica is busy."""
        self._stopping.set()

    @property
    def next_at(self) -> float:
        """Time of the next heartbeat, in steady milliseconds: the fewer effects it reports, the sooner."""
        if self._evaluates() is not self._told_of_duty:
            return float("-inf")
        news = self._store.applied.index - self._told
        pause = min(EACH_MS * news, MOST_MS) if news else self._pause * 1000
        return self._said_at + pause

    def tick(self) -> None:
        """Send the next heartbeat, if it is due."""
        if now().steady >= self.next_at:
            self._said_at, self._told = now().steady, self._store.applied.index
            self._told_of_duty = self._evaluates()
            self._say.publish(self._beat(WorkerState.SERVING))

    def end(self) -> None:
        """Send the last heartbeat."""
        self._say.publish(self._beat(WorkerState.STOPPING))

    def _beat_while_busy(self) -> None:
        """Send heartbeats while the replica is busy with a large transaction, which takes seconds.

        Such a worker is not dead, and must not be replaced: otherwise its successor would be replaced in turn,
        and the transaction would be evaluated for ever.
        """
        while not self._stopping.wait(self._pause):
            self._look(now().steady)
            if self._lives() and now().steady - self._said_at >= self._pause * 1000:
                self._say.publish(self._beat(WorkerState.SERVING))
