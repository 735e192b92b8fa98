"""A second address of a server, for clients on its own machine: a Unix socket costs less CPU than TCP's loopback.

Its name is the server's URL in Linux's abstract namespace.  It is no file, ends with its server, and is visible only in
the server's network namespace: not in another container.  A client that finds no server of its own user there uses TCP.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

import httpx
import structlog

from quadlog.web.http_pool import Origin, origin_of

log = structlog.get_logger()

IS_SUPPORTED: Final = sys.platform == "linux"

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group at the other end of a connection."""


def listening(url: str, port: int) -> socket.socket | None:
    """Return a listening socket for the server that has this URL; None if it has none.

    Args:
        url: address at which others reach the server.
        port: port at which it listens.  If the URL has another one, or a path, then it is the address of a proxy,
            which must not be bypassed.

    """
    try:
        origin, _, prefix = origin_of(url)
    except httpx.UnsupportedProtocol:  # whoever connects reports it
        return None
    if not IS_SUPPORTED or origin.scheme != "http" or prefix or origin.port != port:
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(_name_of(origin))
    except OSError as error:
        log.warning("local_socket_refused", url=url, reason=str(error), what_to_do="nothing: masters use TCP")
        listener.close()
        return None
    return listener


def connected(origin: Origin) -> socket.socket | None:
    """Return a connection to the server with this address; None if none of the same user is on this machine."""
    if not IS_SUPPORTED or origin.scheme != "http":
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    with suppress(OSError):
        connection.connect(_name_of(origin))
        if _user_of(connection) == os.geteuid():
            return connection
    connection.close()
    return None


def _name_of(origin: Origin) -> str:
    return f"\0quadlog {origin.host}:{origin.port}"


def _user_of(connection: socket.socket) -> int:
    value = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(value)
    return int(user)
