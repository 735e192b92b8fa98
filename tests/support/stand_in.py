"""A stand-in for masters and workers, for tests of the lab alone: answers 200 to every GET.

With `STAND_IN_DIES=<id>` in the environment that one dies during start; the one of
`STAND_IN_DEAF` ignores SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import tomllib
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Ok(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class named it
        del format, args


def main() -> None:
    """Serve as `master --config FILE` or `worker --config FILE` would."""
    settings = tomllib.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    if os.environ.get("STAND_IN_DIES") == settings["node-id"]:
        sys.exit("the stand-in was told to die")
    if os.environ.get("STAND_IN_DEAF") == settings["node-id"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ThreadingHTTPServer(("127.0.0.1", settings["port"]), _Ok).serve_forever()


if __name__ == "__main__":
    main()
