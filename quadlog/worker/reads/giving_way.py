"""The thread that answers: after long computing it gives way to all others, and is replaced after its answer.

Thus a few long queries only use the CPU that short ones leave.  Any user may lower the priority of a thread, but only
root may raise it again; a new thread has the priority of its process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

AFTER_S: Final = 0.05
"""CPU seconds from which a question gives way."""

SOONEST_S: Final = 0.001
"""Minimum seconds between two checks of the CPU time of a question."""

NICE: Final = 10
"""Increase of the nice value: the thread then has a tenth of what others have that want the same core."""


class GivingWay:
    """Runs work in a thread that gives way.  Must be used by the main thread, which runs nothing else meanwhile."""

    def __init__(self) -> None:
        """Take over SIGALRM."""
        self._thread_id = 0
        self._began_s = 0.0
        """CPU time of this process when the present question began."""
        self._is_asked = False
        self._has_given_way = False
        signal.signal(signal.SIGALRM, self._look)

    def run(self, work: Callable[[], bool]) -> None:
        """Call `work` repeatedly, in a thread, until it returns False.

        Raises:
            BaseException: any exception of `work`.

        """
        errors: list[BaseException] = []
        is_done = False

        def turn() -> None:
            nonlocal is_done
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # the main thread handles it
            self._thread_id = threading.get_native_id()
            try:
                while not (is_done or self._has_given_way):
                    is_done = not work()
            except BaseException as error:  # noqa: BLE001  raised again below
                errors.append(error)

        while not (is_done or errors):
            self._has_given_way = False
            thread = threading.Thread(target=turn)
            thread.start()
            thread.join()
        if errors:
            raise errors[0]

    def __enter__(self) -> None:
        """Begin a question, which gives way when it takes long."""
        self._began_s = time.process_time()
        self._is_asked = True
        signal.setitimer(signal.ITIMER_REAL, AFTER_S)

    def __exit__(self, *_: object) -> None:
        """End the question.  The timer continues: the next question sets it again."""
        self._is_asked = False

    def _look(self, *_: object) -> None:
        """Lower the priority of the thread if the question has used `AFTER_S`.

        The timer is a real-time one: ITIMER_PROF counts ticks, and misses most of the CPU time on a busy machine.
        """
        left_s = AFTER_S - (time.process_time() - self._began_s)
        if not self._is_asked or sys.platform != "linux":  # elsewhere only a process has a priority
            return
        if left_s > 0:
            signal.setitimer(signal.ITIMER_REAL, max(left_s, SOONEST_S))
            return
        self._has_given_way = True  # set first: the thread may reach its next question before this continues
        with suppress(ProcessLookupError):  # the thread may have ended
            os.setpriority(os.PRIO_PROCESS, self._thread_id, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
