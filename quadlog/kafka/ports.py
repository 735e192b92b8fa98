"""Free TCP ports on the loopback address."""

from __future__ import annotations

import errno
import os
import random
import re
import socket
from typing import TYPE_CHECKING

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

LOWEST, HIGHEST = 20_000, 32_000
"""Bounds below the ports that Linux (32768) and macOS (49152) assign to outgoing connections, so that a recorded port
is not taken by chance while its owner is down."""
PORTS = "QUADLOG_PORTS"
"""Environment variable with other bounds: labs on one host with disjoint bounds never use the same port."""


def bounds(environ: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Return the lowest port, and the one above the highest.

    >>> bounds({}), bounds({"QUADLOG_PORTS": "20000-26000"})
    ((20000, 32000), (20000, 26000))

    Raises:
        SetupError: the bounds are not a valid range.

    """
    said = (os.environ if environ is None else environ).get(PORTS, f"{LOWEST}-{HIGHEST}")
    numbers = re.fullmatch(r"(\d{1,5})-(\d{1,5})", said)
    lowest, highest = (int(number) for number in numbers.groups()) if numbers else (0, 0)
    if not 1024 <= lowest < highest <= 1 << 16:  # noqa: PLR2004  those below are for the system
        raise SetupError(f"{PORTS}={said} is no range of ports: say for example {LOWEST}-{HIGHEST}")
    return lowest, highest


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port now."""
    with socket.socket() as probe:
        # As servers do: lingering connections of a closed listener do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def free_ports(count: int, *, besides: Container[int] = ()) -> list[int]:
    """Return the next `count` free ports from a random port on.

    It is random so that two labs that start at the same moment rarely choose the same ports.  The ports in `besides`
    belong to processes that may be down now.

    >>> free_ports(0)
    []
    """
    lowest, highest = bounds()
    start = random.randrange(lowest, highest)  # noqa: S311  no secret
    span = highest - lowest
    found: list[int] = []
    for offset in range(span):
        if len(found) == count:
            return found
        port = lowest + (start - lowest + offset) % span
        if port not in besides and is_free(port):
            found.append(port)
    raise SetupError(f"fewer than {count} ports between {lowest} and {highest} are free: stop what uses them")
