"""Free TCP ports on this machine's loopback address."""

from __future__ import annotations

import errno
import random
import socket
from typing import TYPE_CHECKING

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Container

LOWEST, HIGHEST = 20_000, 32_000
"""Below the ports that Linux (32768) and macOS (49152) hand out to outgoing connections, so
that a recorded port is not taken by chance while its owner is down."""


def is_free(port: int) -> bool:
    """Tell whether a server could listen there now."""
    with socket.socket() as probe:
        # As servers do: connections that linger after their listener has gone do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def free_ports(count: int, *, besides: Container[int] = ()) -> list[int]:
    """Return `count` free ports in a row of neighbours, from a random place.

    Random, so that two labs that start at the same moment hardly choose the same ones.  Those of
    `besides` are somebody's who is down now.

    >>> free_ports(0)
    []
    """
    start = random.randrange(LOWEST, HIGHEST)  # noqa: S311  no secret
    span = HIGHEST - LOWEST
    found: list[int] = []
    for offset in range(span):
        if len(found) == count:
            return found
        port = LOWEST + (start - LOWEST + offset) % span
        if port not in besides and is_free(port):
            found.append(port)
    message = f"fewer than {count} ports between {LOWEST} and {HIGHEST} are free: stop what uses them"
    raise SetupError(message)
