"""What each of quadlog's processes may do at a Kafka: the least that it needs, as ACLs of Kafka.

No process needs rights on the cluster, or on topics of other names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # their stubs forget to export them
    AclBinding,  # pyright: ignore[reportPrivateImportUsage]
    AclOperation,  # pyright: ignore[reportPrivateImportUsage]
    AclPermissionType,  # pyright: ignore[reportPrivateImportUsage]
    AdminClient,
    ResourcePatternType,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.topics import Topics

GROUP: Final = "quadlog"
"""The group that quadlog's consumers name, because librdkafka asks for its coordinator; none of them joins it."""
ANSWER_S: Final = 15.0
"""Seconds that a broker has to take ACLs."""
HINTS: Final = {
    KafkaError.SECURITY_DISABLED: "set its authorizer.class.name",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "log in as a user that may alter the cluster, such as one of super.users",
}
"""What to do where a broker refuses, by the code of its error."""


class KafkaRole(StrEnum):
    """What a user of a data centre's Kafka is to it."""

    MASTER = "master"
    """A master of this data centre."""
    PEER = "peer"
    """A master of another data centre: it reads what this one says."""
    WORKER = "worker"
    """A worker of this data centre."""
    READER = "reader"
    """`quadlog compact`, `archive`, `diff`, `tx revert`, and programs that follow the topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One ACL: a user may do something with a topic, with all topics whose names begin so, or with a group."""

    principal: str
    operation: str
    """As Kafka writes it, such as `DESCRIBE_CONFIGS`."""
    name: str
    """Of the topic or group; or what the names of topics begin with."""
    is_prefix: bool = False
    kind: Literal["topic", "group"] = "topic"

    def __str__(self) -> str:
        """Return the options of `kafka-acls` that add it."""
        prefix = " --resource-pattern-type prefixed" if self.is_prefix else ""
        operation = self.operation.title().replace("_", "")
        return f"--add --allow-principal {self.principal} --operation {operation} --{self.kind} {self.name}{prefix}"


def grants(topics: Topics, users: Iterable[tuple[str, KafkaRole]]) -> list[Grant]:
    """Return the ACLs of a data centre's Kafka, each once.

    Args:
        topics: of the data centre.
        users: principals, such as `User:dc1-m1`, with their roles; one may have several.

    >>> from quadlog.topics import Topics
    >>> [str(grant) for grant in grants(Topics("main", "dc1"), [("User:a", KafkaRole.PEER)])]
    ['--add --allow-principal User:a --operation Describe --group quadlog',
     '--add --allow-principal User:a --operation Read --topic main.dc1. --resource-pattern-type prefixed']
    """
    return [*dict.fromkeys(grant for user in users for grant in _grants(topics, *user))]


def _grants(topics: Topics, principal: str, role: KafkaRole) -> Iterator[Grant]:
    every = topics.agreed.removesuffix("agreed")
    yield Grant(principal=principal, operation="DESCRIBE", name=GROUP, kind="group")
    if role is KafkaRole.MASTER:
        for operation in ("CREATE", "READ", "WRITE", "DELETE", "DESCRIBE_CONFIGS"):
            yield Grant(principal=principal, operation=operation, name=every, is_prefix=True)
    elif role is KafkaRole.PEER:
        yield Grant(principal=principal, operation="READ", name=every, is_prefix=True)
    elif role is KafkaRole.WORKER:
        yield Grant(principal=principal, operation="READ", name=every, is_prefix=True)
        for topic in (topics.effects, topics.status):
            yield Grant(principal=principal, operation="WRITE", name=topic)
        yield Grant(principal=principal, operation="DESCRIBE_CONFIGS", name=topics.effects)
    else:
        for topic in (topics.agreed, topics.effects):
            yield Grant(principal=principal, operation="READ", name=topic)


def add_grants(client: AdminClient, wanted: Iterable[Grant]) -> None:
    """Let a broker have these ACLs, beside those that it has.

    Raises:
        SetupError: it refuses one, or does not answer.

    """
    bindings = {grant: _binding(grant) for grant in wanted}
    untyped = cast("Any", client)  # the futures have no type
    futures: dict[Any, Any] = untyped.create_acls(list(bindings.values()), request_timeout=ANSWER_S)
    for grant, binding in bindings.items():
        try:
            futures[binding].result(ANSWER_S)
        except (KafkaException, TimeoutError) as error:
            code = error.args[0].code() if isinstance(error, KafkaException) else KafkaError.REQUEST_TIMED_OUT
            hint = HINTS.get(code, "add it by kafka-acls with these options, or try again")
            raise SetupError(f"the broker does not take the ACL '{grant}': {error}; {hint}") from error


def _binding(grant: Grant) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if grant.is_prefix else ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType[grant.kind.upper()],
        grant.name,
        pattern,
        grant.principal,
        "*",
        AclOperation[grant.operation],
        AclPermissionType.ALLOW,
    )
