"""Client of the links process."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from quadlog.errors import Unavailable, error_named
from quadlog.lab.links.relay import HOST

TIMEOUT: Final = 5.0
"""Seconds; an answer takes a millisecond, or longer if the process was suspended."""
SHOW: Final = {"do": "show"}


async def ask_links(port: int, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Change or show the links; return their new state.

    Raises:
        QuadlogError: the error that the process answered.
        Unavailable: the process did not answer.

    """
    try:
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(json.dumps(request).encode() + b"\n")
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"the links process does not answer ({error!r}): see quadlog lab status") from error
    if not line:
        raise Unavailable("the links process ended before it answered: see quadlog lab status")
    reply: dict[str, Any] = json.loads(line)
    if not reply["ok"]:
        raise error_named(reply["error"])(reply["message"])
    links: list[dict[str, Any]] = reply["links"]
    return links


async def links_answer(port: int) -> bool:
    """Return whether the process serves."""
    try:
        await ask_links(port, SHOW)
    except Unavailable:
        return False
    return True
