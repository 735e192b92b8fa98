"""Secured brokers of a lab (`--secured`): one certificate for all of them, a user for each node, and their ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.kafka.acls import KafkaRole, grants
from quadlog.kafka.broker_security import MECHANISM, PROTOCOL, BrokerSecurity
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.kafka.acls import Grant
    from quadlog.kafka.java import Java
    from quadlog.lab.directory import LabDirectory
    from quadlog.lab.shape import LabNode

READER: Final = "reader"
"""The user for commands, such as `quadlog compact`, and for programs that follow the topics."""
_HOSTS: Final = "ip:127.0.0.1,dns:localhost"


def security_of(directory: LabDirectory) -> BrokerSecurity | None:
    """Return the certificate and the passwords of a secured lab."""
    return BrokerSecurity(directory=directory.path / "security") if directory.record.shape.secured else None


def prepare_security(directory: LabDirectory, java: Java) -> None:
    """Make the certificate and the passwords that a secured lab lacks."""
    if (security := security_of(directory)) is not None:
        nodes = [node.id for node in directory.record.shape.nodes if node.kind in {"master", "worker"}]
        security.prepare(java, [*nodes, READER], _HOSTS)


def grants_at(directory: LabDirectory, broker: LabNode) -> Iterator[Grant]:
    """Yield the ACLs of a broker."""
    shape = directory.record.shape
    for dc in shape.dc_names:
        if shape.broker_of(dc) != broker.id:
            continue
        users = [(f"User:{READER}", KafkaRole.READER)]
        for node in shape.nodes:
            if node.kind == "master":
                users.append((f"User:{node.id}", KafkaRole.MASTER if node.dc == dc else KafkaRole.PEER))
            elif node.kind == "worker" and node.dc == dc:
                users.append((f"User:{node.id}", KafkaRole.WORKER))
        yield from grants(Topics(directory.record.repository, dc), users)


def security_settings(directory: LabDirectory, node: LabNode) -> dict[str, str]:
    """Return the settings with which a master or worker logs in; empty if the brokers are not secured."""
    security = security_of(directory)
    if security is None:
        return {}
    return {
        "kafka-security-protocol": PROTOCOL,
        "kafka-ssl-ca": str(security.ca),
        "kafka-sasl-mechanism": MECHANISM,
        "kafka-sasl-username": node.id,
        "kafka-sasl-password": security.password(node.id),
    }
