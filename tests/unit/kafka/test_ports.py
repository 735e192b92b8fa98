"""Where labs look for free ports."""

from __future__ import annotations

import socket

import pytest

from quadlog.errors import SetupError
from quadlog.kafka.ports import LOWEST, PORTS, bounds, free_ports


def test_they_are_within_the_bounds_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    [low] = free_ports(1)
    monkeypatch.setenv(PORTS, f"{low}-{low + 40}")
    with socket.create_server(("127.0.0.1", low)):
        for _ in range(100):
            assert all(low < port < low + 40 for port in free_ports(3))
    with pytest.raises(SetupError, match=f"fewer than 50 ports between {low} and {low + 40}"):
        free_ports(50)


@pytest.mark.parametrize("said", ["", "20000", "26000-20000", "0-100", "20000-70000", "a-b"])
def test_what_is_no_range_is_refused(said: str) -> None:
    with pytest.raises(SetupError, match=f"say for example {LOWEST}-"):
        bounds({PORTS: said})
