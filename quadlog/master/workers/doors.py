"""What a master asks at its workers' doors beside reads."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import httpx

from quadlog.master.workers.crew import Door
from quadlog.web.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.master.workers.crew import Worker, Wrong

KNOCK_S: Final = 0.5
"""How long a worker has to answer that lives; it does so in milliseconds."""

ASK_S: Final = 2.0


class Doors:
    """Used on the server's loop only."""

    def __init__(self) -> None:
        """Connects when first asked."""
        self._client = new_client(ASK_S)

    async def ask_to_evaluate(self, url: str, duty: Mapping[str, str | int]) -> None:
        """Ask a worker to evaluate.  It is asked again until its fence is heard."""
        with suppress(httpx.HTTPError):
            await self._client.post(f"{url}/evaluate", json=dict(duty))

    async def tell_floor(self, url: str, floor: Mapping[str, int]) -> None:
        """Tell a worker which effects count no more.  It is told again until a rewind says so."""
        with suppress(httpx.HTTPError):
            await self._client.post(f"{url}/floor", json=dict(floor))

    async def ask_to_mend(self, worker: Worker, wrong: Wrong) -> None:
        """Ask a worker to be rebuilt.  Its heartbeats tell what comes of it."""
        with suppress(httpx.HTTPError):
            body = {"store": wrong.store, "reason": f"{wrong.name}: {wrong.reason}"}
            await self._client.post(f"{worker.beat.url}/rebuild", json=body)

    async def knock(self, worker: Worker) -> None:
        """Note what becomes of a request at the door of a worker that is not heard any more."""
        beat = worker.beat
        try:
            await self._client.get(f"{beat.url}/status", timeout=KNOCK_S)
            door = Door.ANSWERS
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            door = Door.REFUSED
        except httpx.HTTPError:
            door = Door.HANGS
        if worker.beat is beat:  # else it was heard meanwhile
            worker.door = door
