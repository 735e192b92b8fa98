"""Settings files and environment of a lab's masters and workers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from quadlog.errors import UserError
from quadlog.lab.processes import LAB_ID
from quadlog.lab.security import security_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.lab.directory import LabDirectory
    from quadlog.lab.shape import LabNode, LabShape

HOST = "127.0.0.1"
PREFIX = "QUADLOG_"
WRITTEN = (
    "node-id",
    "dc",
    "repository",
    "data-dir",
    "host",
    "port",
    "kafka",
    "master-url",
    "worker-url",
    "voting",
    "role",
    "peer",
)
"""Settings that the lab determines."""
_SECURITY = tuple(f"QUADLOG_KAFKA_{what}_" for what in ("SECURITY", "SSL", "SASL", "OAUTH"))
DECIDED = frozenset(f"QUADLOG_{key.upper().replace('-', '_')}" for key in WRITTEN)


def url_of(directory: LabDirectory, node: LabNode, *, seen_from: str) -> str:
    """Return the URL at which a data centre reaches a master or worker."""
    return f"http://{HOST}:{_port(directory, node.id, seen_from)}"


def kafka_of(directory: LabDirectory, dc: str, *, seen_from: str) -> str:
    """Return the bootstrap server at which a data centre reaches the Kafka of another one, or its own."""
    return f"{HOST}:{_port(directory, directory.record.shape.broker_of(dc), seen_from)}"


def _port(directory: LabDirectory, server: str, seen_from: str) -> int:
    record = directory.record
    return record.ports[record.shape.port_name(server, seen_from=seen_from)]


def write_settings(directory: LabDirectory, node: LabNode, bind: str = HOST) -> str:
    """Write the settings of a master or worker that listens at `bind`; return the path of the file."""
    shape = directory.record.shape
    values: dict[str, str | int] = {
        "node-id": node.id,
        "dc": node.dc,
        "repository": directory.record.repository,
        "data-dir": str(directory.node(node.id) / "data"),
        "host": bind,
        "port": directory.record.ports[node.id],
        "kafka": kafka_of(directory, node.dc, seen_from=node.dc),
        f"{node.kind}-url": url_of(directory, node, seen_from=node.dc),
        **security_settings(directory, node),
    }
    if node.kind == "master":
        values["voting"], values["role"] = shape.votes(node.dc), _role(shape, node.dc)
    text = _toml(values)
    if node.kind == "master":
        others = [n for n in shape.nodes if n.kind == "master" and n.id != node.id]
        for number, other in enumerate(others, start=1):
            peer: dict[str, str | int] = {
                "id": other.id,
                "dc": other.dc,
                "url": url_of(directory, other, seen_from=node.dc),
                "kafka": kafka_of(directory, other.dc, seen_from=node.dc),
                "voting": shape.votes(other.dc),
                "role": _role(shape, other.dc),
            }
            text += f"\n[peer.{number}]\n{_toml(peer)}"
    file = directory.node(node.id) / f"{node.kind}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)  # it may have a password
    file.write_text(text)
    return str(file)


def _role(shape: LabShape, dc: str) -> str:
    if shape.is_muted(dc):
        return "muted"
    return "read-write" if shape.writes(dc) else "read-only"


def child_environment(inherited: Mapping[str, str], lab_id: str) -> dict[str, str]:
    """Return the environment of the lab's processes.

    `QUADLOG_…` variables override settings files.  Variables for settings that the lab determines, such as an id or a
    port, are left out; others (a log level, a time-out) are passed on.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in DECIDED and not name.startswith(_SECURITY)
    }
    return {**kept, LAB_ID: lab_id, "PYTHONUNBUFFERED": "1"}


def variables(settings: Iterable[object]) -> dict[str, str]:
    """Return the variables of `--set NAME=VALUE` options; a setting may have its name in files.

    >>> variables(["QUADLOG_LOG_LEVEL=debug", "max-peer-lag=5"])
    {'QUADLOG_LOG_LEVEL': 'debug', 'QUADLOG_MAX_PEER_LAG': '5'}

    Raises:
        UserError: it is not a setting of a node, or it is one that the lab determines.

    """
    found: dict[str, str] = {}
    for setting in map(str, settings):
        given, equals, value = setting.partition("=")
        name = given if given.startswith(PREFIX) else PREFIX + given.upper().replace("-", "_")
        is_named = given.startswith(PREFIX) or re.fullmatch(r"[a-z][a-z0-9-]*", given) is not None
        if not equals or not is_named or name in DECIDED:
            message = f"--set takes NAME=VALUE or QUADLOG_…=VALUE, and none that the lab decides; this is {setting!r}"
            raise UserError(message)
        found[name] = value
    return found


def _toml(values: Mapping[str, str | int]) -> str:
    # A JSON string without DEL is a TOML basic string; TOML refuses paths with DEL.
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
