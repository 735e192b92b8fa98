"""Names of Kafka's own console tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOOLS = "org.apache.kafka.tools"
TOOLS = {
    "acls": f"{_TOOLS}.AclCommand",
    "broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "cluster": f"{_TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "console-producer": f"{_TOOLS}.ConsoleProducer",
    "console-share-consumer": f"{_TOOLS}.consumer.ConsoleShareConsumer",
    "consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "delegation-tokens": f"{_TOOLS}.DelegationTokenCommand",
    "delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "dump-log": f"{_TOOLS}.DumpLogSegments",
    "features": f"{_TOOLS}.FeatureCommand",
    "get-offsets": f"{_TOOLS}.GetOffsetShell",
    "groups": f"{_TOOLS}.GroupsCommand",
    "jmx": f"{_TOOLS}.JmxTool",
    "leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{_TOOLS}.LogDirsCommand",
    "metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "replica-verification": f"{_TOOLS}.ReplicaVerificationTool",
    "share-groups": f"{_TOOLS}.consumer.group.ShareGroupCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-groups": f"{_TOOLS}.streams.StreamsGroupCommand",
    "topics": f"{_TOOLS}.TopicCommand",
    "transactions": f"{_TOOLS}.TransactionsCommand",
    "verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "verifiable-producer": f"{_TOOLS}.VerifiableProducer",
}
"""Name as in Kafka's `bin/kafka-<name>.sh`, and its class."""


def main_class(name: str) -> str:
    """Return the class of a tool.

    Raises:
        UserError: there is no such tool; the message lists all tools.

    """
    if name not in TOOLS:
        raise UserError(f"Kafka has no tool {name}; there are: {', '.join(TOOLS)}")
    return TOOLS[name]


_CONFIG: Final = "--command-config"
"""Option of the tools with the file of their client's properties."""
_OLD_CONFIGS: Final = ("--admin.config", "--consumer-config", "--consumer.config", "--producer.config")
"""Its former names, which some tools still take."""
_CLUSTER: Final = "cluster"
"""A tool whose commands take the options."""
_WITHOUT: Final = frozenset({"dump-log", "jmx", "replica-verification", "storage"})
"""Tools without that option."""


def has_properties(name: str, arguments: Sequence[str]) -> bool:
    """Return whether these arguments of a tool need no properties of a client: they give some, or cannot.

    >>> has_properties("topics", ["--list", "--command-config=f"]), has_properties("topics", ["--config", "a=b"])
    (True, False)
    """
    names = {_CONFIG, *_OLD_CONFIGS, *(["--config"] if name == _CLUSTER else [])}
    return name in _WITHOUT or "--help" in arguments or any(one.split("=")[0] in names for one in arguments)


def with_properties(name: str, arguments: Sequence[str], file: str) -> list[str]:
    """Return the arguments of a tool with a file of its client's properties.

    >>> with_properties("metadata-quorum", ["describe", "--status"], "f")
    ['--command-config', 'f', 'describe', '--status']
    """
    if name == _CLUSTER:
        return [*arguments, _CONFIG, file]
    return [_CONFIG, file, *arguments]
