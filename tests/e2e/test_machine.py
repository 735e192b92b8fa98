"""What is taken off for a machine that stood still is what it stood still for."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

STOOD_STILL_S = 1.0


@pytest.fixture
def slow_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sync takes a second."""
    fsync, left = os.fsync, [1]

    def slow(file: int) -> None:
        if left:
            left.pop()
            time.sleep(STOOD_STILL_S)
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow)


@pytest.mark.usefixtures("slow_once")
def test_a_disk_that_stands_still_is_noticed(tmp_path: Path) -> None:
    began = time.monotonic()
    with Machine(tmp_path) as machine:
        time.sleep(STOOD_STILL_S / 2)
        half = time.monotonic()
        time.sleep(STOOD_STILL_S)
    ended = time.monotonic()
    assert machine.stood_still_s(began, ended) >= STOOD_STILL_S
    assert STOOD_STILL_S / 4 < machine.stood_still_s(began, half) <= half - began
    assert machine.stood_still_s(ended, ended + 9.0) == 0.0
    assert not list(tmp_path.iterdir())


def test_one_that_does_not_takes_nothing_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.e2e.machine.STALL_S", 30.0)
    began = time.monotonic()
    with Machine(tmp_path) as machine:
        time.sleep(0.3)
    assert machine.stood_still_s(began, time.monotonic()) == 0.0
