"""A module that runs as a process of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from quadlog.child_process import ChildTask
from quadlog.errors import StateError


def test_it_says_what_came_of_it() -> None:
    with ChildTask("quadlog.replay.proof", said="[]") as process:
        assert process.result() == []
        assert process.is_done


@pytest.mark.parametrize(("module", "said", "why"), [
    ("quadlog.replay.proof", "no JSON", "ended with 1: json.decoder.JSONDecodeError"),
    ("quadlog.nothing", " " * 1_000_000, "ended with 1: .*No module named quadlog.nothing"),  # it reads nothing
])  # fmt: skip
def test_it_says_why_nothing_did(module: str, said: str, why: str) -> None:
    with ChildTask(module, said=said) as process, pytest.raises(StateError, match=why):
        process.result()


def test_who_leaves_it_ends_it() -> None:
    with ChildTask("http.server", "0") as process:
        place = Path(f"/proc/{process._process.pid}")
        time.sleep(0.2)
        assert place.exists()
        assert not process.is_done
    assert not place.exists()
