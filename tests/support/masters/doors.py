"""A master's HTTP doors, without a cluster behind them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from quadlog.core.agreement.agreement import Agreement
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.messages import AgreementLimits, PostingPace
from quadlog.master.clients.admission import Admission
from quadlog.master.http.app import make_app
from quadlog.master.http.introduction import Introduction
from quadlog.settings import MasterSettings
from tests.support.masters.lone_node import lone_node
from tests.support.masters.outlets import Broker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from quadlog.core.model import HardState
    from quadlog.master.node.node import Node
    from quadlog.masterstore.store import MasterStore


VOTING = {"m1": "dc1", "m2": "dc2"}


NAMED = VOTING | {"m3": "dc3"}
"""m3 is not a peer yet."""


SPARQL = {"Content-Type": "application/sparql-update"}


def settings(path: Path, roles: Mapping[str, str], request_timeout: float) -> MasterSettings:
    role = dict.fromkeys(NAMED, "read-write") | dict(roles)
    others = {
        name: {
            "id": name,
            "dc": dc,
            "url": f"http://{name}",
            "kafka": "-",
            "voting": name in VOTING,
            "role": role[name],
        }
        for name, dc in NAMED.items()
        if name != "m1"
    }
    return MasterSettings.model_validate(
        {
            "node-id": "m1",
            "dc": "dc1",
            "data-dir": path,
            "port": 1,
            "kafka": "-",
            "master-url": "http://m1",
            "request-timeout": request_timeout,
            "role": role["m1"],
            "peer": others,
        }
    )


def saying(name: str, **changed: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """What another master answers to GET /cluster/peers."""
    peers = [
        {"id": one, "dc": dc, "peer": one in VOTING, "voting": one in VOTING, "role": "read-write"}
        for one, dc in NAMED.items()
    ]
    role = "read-write" if name in VOTING else "outside"
    return {"node": name, "role": role, "peers": peers} | changed


@dataclass
class Door:
    """A master's app, and what the others say."""

    app: Any
    node: Node
    settings: MasterSettings
    broker: Broker
    others: dict[str, dict[str, Any] | None]

    def ask(self, method: str, path: str, **rest: Any) -> httpx.Response:  # noqa: ANN401 - httpx's own
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://m1") as client:
                return await client.request(method, path, **rest)

        return asyncio.run(asked())

    def add(self, name: object = "m3", dc: object = "dc3") -> httpx.Response:
        return self.ask("POST", "/cluster/peers", json={"id": name, "dc": dc})

    def told(self, answer: httpx.Response) -> str:
        """Status, error, whether the client is told that nothing was changed, whether that is so, and why."""
        said = answer.json()
        is_told = said["definite"] and "nothing" in said["message"]
        truth = "nothing was logged" if is_told and not self.broker.payloads else "who knows what was logged"
        return f"{answer.status_code} {said['error']}, {truth}: {said['message']}"


def refusal(status: int, error: str, words: str) -> str:
    """A pattern for what is told."""
    return f"{status} {error}, nothing was logged: .*{re.escape(words)}"


def door(
    store: MasterStore,
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    standing: HardState | None = None,
    *,
    roles: Mapping[str, str] = MappingProxyType({}),
    request_timeout: float = 0.3,
) -> Door:
    broker, of = Broker(), settings(path, roles, request_timeout)
    others: dict[str, dict[str, Any] | None] = {name: saying(name) for name in ("m2", "m3")}

    def answer(request: httpx.Request) -> httpx.Response:
        said = others[request.url.host]
        assert request.url.path == "/cluster/peers"
        if said is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=said)

    def introduction(urls: Mapping[str, str]) -> Introduction:
        return Introduction(urls, httpx.AsyncClient(transport=httpx.MockTransport(answer)))

    monkeypatch.setattr("quadlog.master.http.app.Introduction", introduction)
    agreement = Agreement(
        node="m1",
        incarnation=store.incarnation,
        masters=VOTING,
        durable=replace(store.durable(), standing=standing),
        logged=store.digests,
        settings=ClusterSettings(max_peer_lag=inf),
        pace=PostingPace(window=0),
        limits=AgreementLimits(),
    )
    node = lone_node(agreement, store, broker, Admission(max_waiting=10), failed=pytest.fail)
    return Door(make_app(node, of, peers=NAMED), node, of, broker, others)
