"""HTTP by hand: requests that no client library sends, and answers as they are on the wire."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

H2C: Final = {
    "Connection": "Upgrade, HTTP2-Settings",
    "Upgrade": "h2c",
    "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
}
"""As `java.net.http.HttpClient` sends it with the first requests to a host."""


def request(
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes = b"",
    *,
    chunk: int = 0,
    version: str = "1.1",
) -> bytes:
    """A request; its body in chunks of so many bytes, or with the length that `headers` or it says."""
    sent = {"Host": "quadlog"} | headers
    if chunk:
        sent["Transfer-Encoding"] = "chunked"
        pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    elif body:
        sent.setdefault("Content-Length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"{method} {target} HTTP/{version}\r\n{lines}\r\n".encode("latin-1") + body


def connected(url: str) -> socket.socket:
    """To a server, with a time limit of half a minute."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 80), timeout=30)


def until_closed(one: socket.socket) -> bytes:
    """All that is said until the other side closes the connection, or resets it."""
    said = bytearray()
    with suppress(ConnectionResetError):
        while piece := one.recv(65536):
            said += piece
    return bytes(said)


def exchange(url: str, sent: bytes) -> bytes:
    """What is answered until the connection is closed."""
    with connected(url) as one:
        with suppress(OSError):  # refused before all of it was sent
            one.sendall(sent)
        return until_closed(one)


def status_of(answer: bytes) -> int:
    """The status of the first answer; 0 where there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0


def parts_of(answer: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and body of one answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.lower(): value for name, _, value in lines}, body
