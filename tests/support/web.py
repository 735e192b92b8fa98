"""A web of documents on loopback: what LOAD fetches."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Web:
    """Documents by path, and the paths that were asked for."""

    port: int
    documents: dict[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])
    """Content type and body."""
    redirects: dict[str, str] = field(default_factory=dict[str, str])
    special: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(
        default_factory=dict[str, "Callable[[BaseHTTPRequestHandler], None]"]
    )
    asked: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        """Up to the path."""
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """As a server does."""
        path = request.path
        self.asked.append(path)
        if path in self.special:
            self.special[path](request)
        elif path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[path])
            request.send_header("Content-Length", "0")
            request.end_headers()
        elif path in self.documents:
            media_type, body = self.documents[path]
            request.send_response(200)
            request.send_header("Content-Type", media_type)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        else:
            request.send_error(404)


@contextmanager
def running_web() -> Iterator[Web]:
    """A server for the length of the block."""
    web = Web(port=0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            web.answer(self)

        def do_POST(self) -> None:
            web.answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
