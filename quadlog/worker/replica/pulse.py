"""The pulse: heartbeats.

Soon after something was applied, at once where the worker begins or ends to evaluate, else now and then, also while
it is busy.
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
"""Between two heartbeats, for each effect that the next one tells of, and at most: under load one of them
tells of many.  A heartbeat is a produce request, and a record that every master here reads."""


class Pulse:
    """The replica's thread beats it; a thread of its own stands in for that one while it is busy."""

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
        """Begin without a heartbeat said.

        Args:
            store: what was applied.
            say: where they are said.
            beat: what to say.
            pause: seconds between two where nothing is applied.
            lives: whether the replica's thread does.
            evaluates: whether the worker does: its master appoints one as soon as it hears that none does.
            look: is called now and then, also while the replica is busy.

        """
        self._store, self._say, self._beat = store, say, beat
        self._pause, self._lives, self._evaluates, self._look = pause, lives, evaluates, look
        self._said_at, self._told, self._told_of_duty = float("-inf"), -1, False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat_while_busy, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin to look whether the replica is busy."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()

    @property
    def next_at(self) -> float:
        """Soon after something was applied, the sooner the less; else now and then."""
        if self._evaluates() is not self._told_of_duty:
            return float("-inf")
        news = self._store.applied.index - self._told
        pause = min(EACH_MS * news, MOST_MS) if news else self._pause * 1000
        return self._said_at + pause

    def tend(self) -> None:
        """Say the next one, if it is due."""
        if now().steady >= self.next_at:
            self._said_at, self._told = now().steady, self._store.applied.index
            self._told_of_duty = self._evaluates()
            self._say.say(self._beat(WorkerState.SERVING))

    def end(self) -> None:
        """Say the last one."""
        self._say.say(self._beat(WorkerState.STOPPING))

    def _beat_while_busy(self) -> None:
        """A large transaction takes seconds: the worker that is at it is not dead, and must not be replaced.

        Else its successor would be replaced in turn, and the transaction be evaluated for ever.
        """
        while not self._stopping.wait(self._pause):
            self._look(now().steady)
            if self._lives() and now().steady - self._said_at >= self._pause * 1000:
                self._say.say(self._beat(WorkerState.SERVING))
