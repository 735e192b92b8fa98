"""Over TLS a client that takes its time has all of an answer whose server ends its connection behind it."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quadlog.web import http_pool
from quadlog.web.http_pool import ConnectionPool, Message, Origin, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZE = 300_000
"""More than is read ahead, and less than what uvloop keeps undecrypted."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Of 127.0.0.1; whoever asks believes its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    plain = serialization.NoEncryption()
    (tmp_path / "both.pem").write_bytes(
        certificate + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    trusting = ssl.create_default_context(cadata=certificate.decode())
    monkeypatch.setattr(http_pool, "trust", lambda: trusting)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    return context


def serve_once(listener: socket.socket, context: ssl.SSLContext, answer: bytes) -> None:
    """Answer one request and end, as a server does that does not wait for the other side's end."""
    connection, _ = listener.accept()
    with context.wrap_socket(connection, server_side=True, suppress_ragged_eofs=True) as secure:
        secure.recv(10_000)
        secure.sendall(answer)
        secure.setblocking(False)  # noqa: FBT003
        with suppress(OSError):
            secure.unwrap()


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_slow_client_has_it_whole(
    server: ssl.SSLContext, run: Callable[[Any], int], *, is_chunked: bool
) -> None:
    body = b"x" * SIZE
    length = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % SIZE
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (SIZE, body) if is_chunked else body
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n%b\r\n\r\n%b" % (length, framed)

    async def taken() -> int:
        port = listener.getsockname()[1]
        message = Message(b"GET", b"/", [(b"Host", b"test")])
        response = await ConnectionPool().request(
            Origin("https", "127.0.0.1", port), message, Seconds(5, 5, 5)
        )
        await asyncio.sleep(0.3)
        size = 0
        async for piece in response.pieces():
            size += len(piece)
            await asyncio.sleep(0.02)
        return size

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve_once, args=(listener, server, answer))
        serving.start()
        assert run(taken()) == SIZE
        serving.join()
