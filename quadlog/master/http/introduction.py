"""Introduction: before a master becomes a peer, it and all peers must know each other's addresses.

Addresses are part of the settings of each master.  A master that learns of a peer which its settings do not
name cannot continue.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import httpx
from pydantic import BaseModel, ValidationError

from quadlog.errors import PeersStay, Unavailable
from quadlog.master.clients.write_guards import OUTSIDE
from quadlog.web.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import Mapping

ASK_S: Final = 5.0
"""Seconds within which another master must answer; it usually answers in milliseconds."""


class Introduction:
    """Checks other masters before a peer is added.  Used on the server's loop only."""

    def __init__(self, urls: Mapping[str, str], client: httpx.AsyncClient | None = None) -> None:
        """`urls`: addresses of the masters that the settings name; `client`: HTTP client for requests to them."""
        self._urls: Final = urls
        self._client: Final = client or new_client(ASK_S)

    async def check(self, name: str, dc: str, own: Mapping[str, Any]) -> None:
        """Check all peers and the new master.

        `name` and `dc` are those of the new master; `own`: this master's answer to GET /cluster/peers.

        Raises:
            PeersStay: the settings of one of them lack a master or contradict this one's, or the new master
                is not outside.
            Unavailable: one of them does not answer.

        """
        here = PeersAnswer.model_validate(own)
        peers = {one.id: one.dc for one in here.peers if one.peer}
        others = [other for other in (*peers, name) if other != here.node]
        for told in await asyncio.gather(*map(self._asked, others)):
            known = {one.id: one.dc for one in told.peers}
            needed = peers if told.node == name else {name: dc}
            lacks = [node for node, where in needed.items() if known.get(node) != where]
            if lacks:
                raise PeersStay(
                    f"the settings of {told.node} do not name {', '.join(lacks)}, or not in its data centre: mend them,"
                    f" and start {told.node} again; nothing was logged"
                )
            if told.voting != here.voting:
                raise PeersStay(
                    f"the log began with {told.voting} by the settings of {told.node}, and with {here.voting} by those"
                    f" of {here.node}: voting has to be the same at all, and stays as it was; nothing was logged"
                )
            differ = [one for one, role in here.roles.items() if told.roles.get(one, role) != role]
            if differ:
                raise PeersStay(
                    f"{told.node} and {here.node} do not say the same of the role of {', '.join(differ)}: mend the"
                    " settings, and start the one again that is wrong; nothing was logged"
                )
            if told.node == name and told.role != OUTSIDE:
                raise PeersStay(
                    f"{name} says that it is {told.role}: if it was a peer before, it has not heard yet that it is"
                    " none; nothing was logged"
                )

    async def _asked(self, name: str) -> PeersAnswer:
        """Return the answer of another master to GET /cluster/peers."""
        url = self._urls.get(name)
        try:
            answer = await self._client.get(f"{url}/cluster/peers", timeout=ASK_S)
            told = PeersAnswer.model_validate_json(answer.raise_for_status().content)
        except (httpx.HTTPError, httpx.InvalidURL, ValidationError) as error:
            raise Unavailable(_silent(name, url, f"{type(error).__name__} {error}"), retry_after=5) from error
        if told.node != name:
            raise Unavailable(_silent(name, url, f"{told.node} answers there"), retry_after=5)
        return told


class _PeerRow(BaseModel):
    """A master that the answering master knows."""

    id: str
    dc: str
    peer: bool
    voting: bool
    role: str | None
    """Role by the settings of the answering master; None if those do not name this one."""


class PeersAnswer(BaseModel):
    """Answer of a master to GET /cluster/peers, as far as it is needed here."""

    node: str
    role: str
    peers: list[_PeerRow]

    @property
    def voting(self) -> str:
        """Ids of the peers that the log began with, by its settings."""
        return " ".join(sorted(one.id for one in self.peers if one.voting))

    @property
    def roles(self) -> dict[str, str]:
        """Role of each master that its settings name."""
        return {one.id: one.role for one in self.peers if one.role is not None}


def _silent(name: str, url: str | None, why: str) -> str:
    return (
        f"{name} has to say whom it knows, and does not at {url}: {why}. Start it; if it is a peer that is gone for"
        " good, remove it first; nothing was logged"
    )
