"""Which thread answers: one that has computed for long gives way to all others, and is replaced behind its answer.

So a few long queries take the cores that short ones leave.  Anybody may lower the priority of a thread, and only root
may raise it again; a new thread has its process's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

AFTER_S: Final = 0.05
"""CPU time from which on a question gives way."""

NICE: Final = 10
"""How far: beside others that want the same core it has a tenth of what they have."""


class Turns:
    """To be used by the main thread, which runs nothing else meanwhile."""

    def __init__(self) -> None:
        """From now on SIGPROF is for this."""
        self._thread_id = 0
        self._has_given_way = False
        signal.signal(signal.SIGPROF, self._give_way)

    def run(self, work: Callable[[], bool]) -> None:
        """Call `work` again and again, in a thread, until it returns False.

        Raises:
            BaseException: whatever `work` raises.

        """
        errors: list[BaseException] = []
        is_done = False

        def turn() -> None:
            nonlocal is_done
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})  # it is for the main thread
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

    @contextmanager
    def question(self) -> Generator[None]:
        """What is done here is one question: it gives way when it takes long."""
        signal.setitimer(signal.ITIMER_PROF, AFTER_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _give_way(self, *_: object) -> None:
        if sys.platform == "linux":  # elsewhere this is of processes alone
            os.setpriority(os.PRIO_PROCESS, self._thread_id, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
        self._has_given_way = True  # not before: the thread may end then
