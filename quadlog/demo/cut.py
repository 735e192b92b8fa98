"""A split and its end: a data centre is cut off, waits, and takes writes again; the others go on meanwhile."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx

from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quadlog.demo.cluster import DemoCluster, DemoNode

LAG_S: Final = 4
"""`max-peer-lag` from here on, so that nobody waits for 20 s."""
PATIENCE_S: Final = 30.0
"""Seconds after which a step of the story has failed."""
POLL_S: Final = 0.1
GRAPH: Final = "urn:quadlog:demo:split"


class Story:
    """One cut and one heal."""

    def __init__(self, http: httpx.AsyncClient, cluster: DemoCluster, say: Callable[[str], None]) -> None:
        """`say` is called with each line of the story."""
        self._http, self._cluster, self._say = http, cluster, say

    async def tell(self) -> None:
        """Cut the last data centre off, heal, and leave no trace in the data.

        Raises:
            StateError: a step did not come about in time.

        """
        here, *_, away = self._cluster.masters
        others = [dc.name for dc in self._cluster.dcs[:-1]]
        cut_off = self._cluster.dcs[-1].name
        setting = await self._http.put(f"{here.url}/cluster/settings/max-peer-lag", content=str(LAG_S))
        index = setting.raise_for_status().json()["index"]
        self._say(f"max-peer-lag is {LAG_S} s at all masters from entry {index} on.")
        for other in others:
            await asyncio.to_thread(self._cluster.cut, cut_off, other)
        self._say(f"{cut_off} is cut off from {' and '.join(others)}.")
        waits = await self._until(lambda: self._waits_for(away), "what it waits for")
        self._say(f"{away.id}: {waits}")
        refusal = await self._until(lambda: self._refusal(away), "a side without a majority")
        self._say(f"{away.id} refuses a write: {refusal}")
        await self._until(lambda: self._takes_write(here, "meanwhile"), "a write at the majority")
        self._say(f"{here.id} takes a write meanwhile; {away.id} serves reads.")
        healed = time.monotonic()
        await asyncio.to_thread(self._cluster.heal)
        await self._until(lambda: self._takes_write(away, "again"), "a write after the heal")
        self._say(f"The link is back: {away.id} takes writes again after {time.monotonic() - healed:.1f} s.")
        await self._until(lambda: self._update(here, f"DROP GRAPH <{GRAPH}>"), "the end")

    async def _until(self, step: Callable[[], Awaitable[str]], what: str) -> str:
        """Return the first result of `step` that is not empty."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = await step()
            except httpx.TransportError as error:
                found, what = "", f"{what} ({error!r})"
            if found:
                return found
            if time.monotonic() > deadline:
                raise StateError(f"not seen within {PATIENCE_S:.0f} s after the cut or the heal: {what}")
            await asyncio.sleep(POLL_S)

    async def _status(self, master: DemoNode) -> dict[str, Any]:
        answer = (await self._http.get(f"{master.url}/cluster/status")).raise_for_status()
        split: dict[str, Any] = answer.json()["split"]
        return split

    async def _waits_for(self, master: DemoNode) -> str:
        waits = (await self._status(master))["waits_for"]
        return ", ".join(f"{one['id']} silent, {one['silent_s']:.0f} of {one['of_s']:.0f} s" for one in waits)

    async def _refusal(self, master: DemoNode) -> str:
        """Return what a write is refused with, once the master knows that it has no majority; before, none is sent."""
        if (await self._status(master))["side"] != "minority":
            return ""
        read = await self._http.get(f"{master.url}/sparql", params={"query": "ASK { ?s ?p ?o }"})
        read.raise_for_status()
        answer = await self._send(master, f"INSERT DATA {{ GRAPH <{GRAPH}> {{ <urn:a> <urn:b> 1 }} }}")
        if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise StateError(f"{master.id} has no majority, and answers a write with {answer.status_code}")
        return f"{answer.status_code} {answer.json()['error']}, {answer.headers['Quadlog-Split']}"

    async def _takes_write(self, master: DemoNode, word: str) -> str:
        return await self._update(master, f'INSERT DATA {{ GRAPH <{GRAPH}> {{ <urn:a> <urn:b> "{word}" }} }}')

    async def _update(self, master: DemoNode, text: str) -> str:
        """Return something if a master has done an update."""
        answer = await self._send(master, text)
        return "done" if answer.is_success else ""

    async def _send(self, master: DemoNode, text: str) -> httpx.Response:
        headers = {"Content-Type": "application/sparql-update"}
        return await self._http.post(f"{master.url}/update", content=text, headers=headers)
