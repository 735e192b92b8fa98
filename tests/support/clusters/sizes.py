"""Limits of sizes, and how a master refuses what is above."""

from __future__ import annotations

import select
import socket
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable


MIB = 1024 * 1024


LIMIT = 64 * MIB
"""The default of max-transaction-size."""


def refusal(url: str, head: str, body: Iterable[bytes] = ()) -> tuple[int, bytes]:
    """Send a POST to /update until an answer comes; returns how much of the body went, and the answer."""
    place = urlsplit(url)
    with closing(socket.create_connection((place.hostname or "", place.port or 0), timeout=30)) as line:
        line.sendall(f"POST /update HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
        sent = 0
        for part in body:
            if select.select([line], [], [], 0)[0]:
                break
            line.sendall(part)
            sent += len(part)
        answer = b""
        while b"}" not in answer and (more := line.recv(65536)):
            answer += more
        return sent, answer
