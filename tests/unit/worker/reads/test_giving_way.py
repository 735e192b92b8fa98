"""A question that computes for long gives way, and the next one does not."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from quadlog.worker.reads.giving_way import AFTER_S, NICE, GivingWay

if TYPE_CHECKING:
    from collections.abc import Iterator


LOWEST = 19
"""There is no lower priority."""


pytestmark = pytest.mark.timeout(method="thread")
"""The other method has the same signal."""


@pytest.fixture
def giving_way() -> Iterator[GivingWay]:
    """With the signal of this process, for a moment."""
    before = signal.getsignal(signal.SIGALRM)
    yield GivingWay()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def priority() -> tuple[int, int]:
    """The thread that asks, and how far it gives way."""
    thread = threading.get_native_id()
    return thread, os.getpriority(os.PRIO_PROCESS, thread)


def test_who_computes_for_long_gives_way_and_is_replaced(giving_way: GivingWay) -> None:
    seen: list[tuple[int, int]] = []
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    lowered = min(usual + NICE, LOWEST)

    def work() -> bool:
        with giving_way:
            deadline = time.monotonic() + 30
            while len(seen) == 1 and priority()[1] != lowered and time.monotonic() < deadline:
                compute(AFTER_S)
            seen.append(priority())
        return len(seen) < 4

    giving_way.run(work)
    assert [nice for _, nice in seen] == [usual, lowered, usual, usual]
    threads = [thread for thread, _ in seen]
    assert threads[0] == threads[1] != threads[2] == threads[3]
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual


def test_what_is_no_question_does_not_give_way(giving_way: GivingWay) -> None:
    seen: list[tuple[int, int]] = []

    def work() -> bool:
        with giving_way:
            pass
        compute(3 * AFTER_S)
        seen.append(priority())
        return len(seen) < 2

    giving_way.run(work)
    assert seen[0] == seen[1]


def test_what_is_raised_ends_it(giving_way: GivingWay) -> None:
    def work() -> bool:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        giving_way.run(work)
