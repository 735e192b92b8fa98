"""Which thread answers: one that has computed for long gives way to all others, and is replaced behind its answer.

So a few long queries take the cores that short ones leave.  Anybody may lower the priority of a thread, and only root
may raise it again; a new thread has its process's.
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
"""CPU time from which on a question gives way."""

SOONEST_S: Final = 0.001
"""Between two looks at what a question has used."""

NICE: Final = 10
"""How far: beside others that want the same core it has a tenth of what they have."""


class GivingWay:
    """To be used by the main thread, which runs nothing else meanwhile."""

    def __init__(self) -> None:
        """From now on SIGALRM is for this."""
        self._thread_id = 0
        self._began_s = 0.0
        """Of this process's CPU time, for the question under way."""
        self._is_asked = False
        self._has_given_way = False
        signal.signal(signal.SIGALRM, self._look)

    def run(self, work: Callable[[], bool]) -> None:
        """Call `work` again and again, in a thread, until it returns False.

        Raises:
            BaseException: whatever `work` raises.

        """
        errors: list[BaseException] = []
        is_done = False

        def turn() -> None:
            nonlocal is_done
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # it is for the main thread
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
        """What is done from here on is one question: it gives way when it takes long."""
        self._began_s = time.process_time()
        self._is_asked = True
        signal.setitimer(signal.ITIMER_REAL, AFTER_S)

    def __exit__(self, *_: object) -> None:
        """It is answered.  The timer goes on: the next question sets it anew."""
        self._is_asked = False

    def _look(self, *_: object) -> None:
        """By the clock on the wall: ITIMER_PROF counts ticks, and misses most of what a busy machine grants."""
        left_s = AFTER_S - (time.process_time() - self._began_s)
        if not self._is_asked or sys.platform != "linux":  # elsewhere a priority is a process's
            return
        if left_s > 0:
            signal.setitimer(signal.ITIMER_REAL, max(left_s, SOONEST_S))
            return
        self._has_given_way = True  # first: the thread may go on to its next question before this goes on
        with suppress(ProcessLookupError):  # or it may have ended
            os.setpriority(os.PRIO_PROCESS, self._thread_id, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
