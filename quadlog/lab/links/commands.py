"""Port of the links process for commands: each request and each answer is one line of JSON.

This module owns the state: a change is first saved, then put into force, then answered.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Final

import structlog

from quadlog.errors import QuadlogError, UserError
from quadlog.lab.links.loop import READ, SocketHandler
from quadlog.lab.links.relay import HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.lab.links.loop import SocketLoop, SocketWatch
    from quadlog.lab.links.relay import LinkRelay
    from quadlog.lab.links.state import LinksState

LONGEST: Final = 65536
"""Maximum bytes of a request."""
ANSWER_TIMEOUT: Final = 1.0
"""Seconds to receive a request, and to send an answer: the lab sends the request at once, and an answer fits into the
socket's buffer, so normally this does not wait."""

log = structlog.get_logger()


class Commands(SocketHandler):
    """Server that executes commands one after the other."""

    def __init__(
        self, loop: SocketLoop, port: int, relay: LinkRelay, save: Callable[[LinksState], None]
    ) -> None:
        """Listen on the port.

        Raises:
            OSError: the port is taken.

        """
        self._relay, self._save = relay, save
        self._watch: SocketWatch = loop.watch(socket.create_server((HOST, port)), self, READ)

    def readable(self) -> None:
        """Accept a client, and answer its request."""
        try:
            asker, _ = self._watch.socket.accept()
        except OSError:
            return
        asker.settimeout(ANSWER_TIMEOUT)
        try:
            with asker, asker.makefile("rwb") as lines:
                if (line := lines.readline(LONGEST)).endswith(b"\n"):
                    lines.write(json.dumps(self.answer(line)).encode() + b"\n")
        except OSError as error:
            log.warning("links_answer_failed", error=repr(error))

    def answer(self, line: bytes) -> dict[str, Any]:
        """Execute one command, and return the answer."""
        try:
            self._carry_out(json.loads(line))
        except QuadlogError as error:
            return {"ok": False, "error": type(error).__name__, "message": str(error)}
        except (ValueError, KeyError, TypeError) as error:
            return {"ok": False, "error": "UserError", "message": f"the links do not understand: {error!r}"}
        except OSError as error:
            return {"ok": False, "error": "StateError", "message": f"the links' state is not saved: {error}"}
        return {"ok": True, "links": self._relay.describe()}

    def _carry_out(self, request: dict[str, Any]) -> None:
        state = self._relay.state
        match request:
            case {"do": "show", "link": [first, second]}:
                state.pair(first, second)
                return
            case {"do": "show"}:
                return
            case {"do": "cut", "link": [first, second], "one_way": bool(one_way)}:
                wanted = state.cut(first, second, one_way=one_way)
            case {"do": "heal", "link": [first, second]}:
                wanted = state.heal(first, second)
            case {"do": "heal"}:
                wanted = state.heal_all()
            case {"do": "quality", "link": [first, second]}:
                wanted = state.with_quality(
                    first, second, latency_ms=request["latency_ms"], rate_mbit=request["rate_mbit"]
                )
            case _:
                raise UserError(f"the links do not understand {json.dumps(request)[:200]}")
        self._save(wanted)
        self._relay.set(wanted)
        log.info("links_changed", **request)
