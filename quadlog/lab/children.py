"""Construction of the children of a lab: commands, addresses and readiness probes."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from quadlog.kafka.acls import add_grants
from quadlog.kafka.broker_process import BrokerProcess, PeerListener, answers, watcher
from quadlog.kafka.broker_security import ADMIN
from quadlog.lab.child import Child
from quadlog.lab.links.client import links_answer
from quadlog.lab.links.relay import ListenDoor
from quadlog.lab.links.wiring import Wiring
from quadlog.lab.node_files import HOST, child_environment, url_of, write_settings
from quadlog.lab.security import grants_at, security_of
from quadlog.lab.shape import LINKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from quadlog.kafka.acls import Grant
    from quadlog.kafka.installation import Installation
    from quadlog.lab.directory import LabDirectory
    from quadlog.lab.shape import LabNode


def make_children(
    directory: LabDirectory,
    installation: Installation,
    node_command: list[str] | None,
    http: httpx.AsyncClient,
    variables: Mapping[str, str],
    *,
    bind: str = HOST,
) -> dict[str, Child]:
    """Return a child for every node, in the order of their start; write their files.

    `node_command`: the program of masters and workers; None: they are forks of the fork server.  `variables`: added to
    the environment of all of them.  `bind`: address at which they listen for clients.
    """
    environment = child_environment({**os.environ, **variables}, directory.record.lab_id)
    (directory.path / "logs").mkdir(exist_ok=True)
    children: dict[str, Child] = {}
    for node in directory.record.nodes:
        ports, probe_alone = tuple(directory.record.ports[name] for name in node.port_names), None
        if node.kind == "broker":
            broker = _broker(directory, node, installation, bind)
            broker.write_files()
            address, probe = broker.bootstrap, _kafka_probe(broker, list(grants_at(directory, node)))
            commands = broker.commands
        elif node.kind == "links":
            address, probe = f"{HOST}:{ports[0]}", partial(links_answer, ports[0])
            wiring = _write_wiring(directory)
            commands = partial(list[list[str]], [[sys.executable, "-m", "quadlog.lab.links", str(wiring)]])
        else:
            address = url_of(directory, node, seen_from=node.dc)
            probe = _http_probe(http, address + _ready_path(directory, node))
            if node.kind == "master" and directory.record.shape.writes(node.dc):
                probe_alone = _http_probe(http, f"{address}/healthz/ready?for=reads")
            settings = write_settings(directory, node, bind)
            commands = partial(list[list[str]], [[*(node_command or []), node.kind, "--config", settings]])
        children[node.id] = Child(
            node=node,
            address=address,
            ports=ports,
            commands=commands,
            is_forked=node_command is None and node.kind in {"master", "worker"},
            probe=probe,
            probe_alone=probe_alone or probe,
            log=directory.log(node.id),
            environment=environment,
        )
    return children


def _ready_path(directory: LabDirectory, node: LabNode) -> str:
    if node.kind == "worker":
        return "/status"
    return "/healthz/ready" if directory.record.shape.writes(node.dc) else "/healthz/started"


def _broker(directory: LabDirectory, node: LabNode, installation: Installation, bind: str) -> BrokerProcess:
    ports = directory.record.ports
    return BrokerProcess(
        installation=installation,
        directory=directory.node(node.id),
        log=directory.log(node.id),
        port=ports[node.port_names[0]],
        controller_port=ports[node.port_names[1]],
        peer_listeners=tuple(
            PeerListener(dc=way.opener, port=ports[way.server_port], advertised_port=ports[way.door])
            for way in directory.record.shape.ways
            if way.server.id == node.id
        ),
        security=security_of(directory),
        bind=bind,
    )


def _write_wiring(directory: LabDirectory) -> Path:
    """Write the wiring of the links; remove their old state, so that each run of the lab begins with healed links."""
    place = directory.node(LINKS)
    place.mkdir(parents=True, exist_ok=True)
    ports = directory.record.ports
    wiring = Wiring(
        dcs=directory.record.shape.dc_names,
        port=ports[LINKS],
        state=place / "state.json",
        doors=tuple(
            ListenDoor(
                opener=way.opener,
                target=way.target,
                port=ports[way.door],
                server_port=ports[way.server_port],
            )
            for way in directory.record.shape.ways
        ),
    )
    wiring.state.unlink(missing_ok=True)
    wiring.write(place / "wiring.json")
    return place / "wiring.json"


def _kafka_probe(broker: BrokerProcess, wanted: Sequence[Grant]) -> Callable[[], Awaitable[bool]]:
    properties = broker.security.client(ADMIN) if broker.security else dict[str, str]()
    client = watcher(
        broker.bootstrap, properties
    )  # kept: without a reference it is destroyed while its threads run

    def serves() -> bool:
        if not answers(client):
            return False
        if broker.security:
            add_grants(client, wanted)
        return True

    async def probe() -> bool:
        # This may run in another thread, because it does not fork: see `leash`.
        return await asyncio.to_thread(serves)

    return probe


def _http_probe(http: httpx.AsyncClient, url: str) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        try:
            return (await http.get(url, timeout=2.0)).status_code == HTTPStatus.OK
        except httpx.HTTPError:
            return False

    return probe
