"""A process takes its port before it takes part in anything."""

from __future__ import annotations

import socket

import pytest

from quadlog.errors import SetupError
from quadlog.server import Server


def test_a_taken_port_is_said_before_anything_is_begun() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            SetupError, match=rf"127\.0\.0\.1:{port} cannot be listened on: Address already in use"
        ):
            Server("127.0.0.1", port)
