"""The gate: reads wait while it is closed, and neither side starves the other."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import Unavailable
from quadlog.quadstore.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Reader:
    """A read on a thread of its own; it holds the gate until it is let go."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.started, self._go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._gate.reading():
            self.started.set()
            self._go.wait(10)

    def end(self) -> None:
        self._go.set()
        self._thread.join(10)
        assert self.started.is_set()


def test_reads_start_while_it_is_open_and_wait_while_it_is_closed() -> None:
    gate = Gate()
    with gate.reading(), gate.reading():
        pass
    assert gate.close()
    reader = Reader(gate)
    until(lambda: len(gate._waiting) == 1)
    assert not reader.started.is_set()
    gate.open()
    reader.end()


def test_a_read_gives_up_in_the_end() -> None:
    gate = Gate()
    gate.patience_s = 0.01
    assert gate.close()
    with pytest.raises(Unavailable, match="not yet back from Kafka") as caught, gate.reading():
        pass
    assert caught.value.retry_after == 1
    assert not gate._waiting
    assert gate.close(), "who gave up is not waited for"


def test_a_closed_gate_that_reads_wait_at_is_not_extended() -> None:
    gate = Gate()
    assert gate.close()
    assert gate.close()
    reader = Reader(gate)
    until(lambda: len(gate._waiting) == 1)
    assert not gate.close()
    gate.open()
    reader.end()
    assert gate.close()


def test_an_evaluator_goes_before_reads_that_come_later() -> None:
    gate = Gate()
    first = Reader(gate)
    assert first.started.wait(10)
    assert not gate.close(0.001)
    later = Reader(gate)
    until(lambda: len(gate._waiting) == 1)
    time.sleep(0.01)
    assert not later.started.is_set(), "or reads that overlap would keep the evaluator out for ever"
    assert not gate.close(0.001)
    first.end()
    assert gate.close()
    gate.open()
    later.end()


def test_reads_that_waited_go_before_the_evaluator() -> None:
    gate = Gate()
    assert gate.close()
    reader = Reader(gate)
    until(lambda: len(gate._waiting) == 1)
    gate.open()
    while not gate.close(0.001):
        if reader.started.is_set():
            break
    assert reader.started.is_set()
    reader.end()
    assert gate.close(1)


def test_a_read_that_fails_does_not_hold_the_gate() -> None:
    gate = Gate()
    with pytest.raises(KeyError), gate.reading():
        raise KeyError
    assert gate.close()
