"""Make the children of a lab: what each runs, where it serves, how to tell that it does."""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from quadlog.kafka.broker_process import BrokerProcess, answers, watcher
from quadlog.lab.child import Child
from quadlog.lab.node_files import child_environment, url_of, write_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quadlog.kafka.installation import Installation
    from quadlog.lab.directory import LabDirectory
    from quadlog.lab.shape import Node

READY_PATH = {"master": "/healthz/ready", "worker": "/status"}


def make_children(
    directory: LabDirectory, installation: Installation, node_command: list[str], http: httpx.AsyncClient
) -> dict[str, Child]:
    """Return a child for every node, in the order to start them; write their files."""
    environment = child_environment(os.environ, directory.record.lab_id)
    (directory.path / "logs").mkdir(exist_ok=True)
    children: dict[str, Child] = {}
    for node in directory.record.shape.nodes:
        ports = tuple(directory.record.ports[name] for name in node.port_names)
        if node.kind == "broker":
            broker = BrokerProcess(
                installation=installation,
                directory=directory.node(node.id),
                log=directory.log(node.id),
                port=ports[0],
                controller_port=ports[1],
            )
            broker.write_files()
            address, probe = broker.bootstrap, _kafka_probe(broker.bootstrap)
            commands = _broker_commands(broker)
        else:
            address = url_of(directory, node.id)
            probe = _http_probe(http, address + READY_PATH[node.kind])
            commands = _node_commands(node, node_command, write_settings(directory, node))
        children[node.id] = Child(
            node=node,
            address=address,
            ports=ports,
            commands=commands,
            probe=probe,
            log=directory.log(node.id),
            environment=environment,
        )
    return children


def _broker_commands(broker: BrokerProcess) -> Callable[[], list[list[str]]]:
    def commands() -> list[list[str]]:
        formatting = [] if broker.is_formatted else [broker.format_command()]
        return [*formatting, broker.run_command()]

    return commands


def _node_commands(node: Node, node_command: list[str], file: str) -> Callable[[], list[list[str]]]:
    return lambda: [[*node_command, node.kind, "--config", file]]


def _kafka_probe(bootstrap: str) -> Callable[[], Awaitable[bool]]:
    client = watcher(bootstrap)  # kept: one without a reference is torn down under its own threads

    async def probe() -> bool:
        # A thread may ask, because it does not fork: see `leash`.
        return await asyncio.to_thread(answers, client)

    return probe


def _http_probe(http: httpx.AsyncClient, url: str) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        try:
            return (await http.get(url, timeout=2.0)).status_code == HTTPStatus.OK
        except httpx.HTTPError:
            return False

    return probe
