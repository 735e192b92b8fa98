"""One KRaft broker, including its controller: its files, its commands, and checks that it serves.

The data directory is formatted once, with a cluster id of its own that is stored next to it.  A broker killed by
SIGKILL restarts on the same data.
"""

from __future__ import annotations

import base64
import logging
import time
import uuid
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from quadlog.kafka.broker_security import BrokerSecurity
    from quadlog.kafka.installation import Installation

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map={protocols}
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
# The logs are the database: quadlog cuts them itself, by offset.
log.retention.ms=-1
# There is one broker.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# After kill -9 the controller waits this long before it believes that its broker was gone:
# with Kafka's 9 s a restart takes 11 s, with 6 s 8 s.  With 2 s the broker of a busy machine is fenced again and again.
broker.session.timeout.ms=6000
# With 1 s a start takes 0.4 s longer; with 250 ms an idle broker takes a quarter more CPU.
broker.heartbeat.interval.ms=500
# Where nothing happens, the controller says so in its log: by default twice a second.
metadata.max.idle.interval.ms=5000
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=2
background.threads=2
log.cleaner.threads=1
# Kafka's default takes 128 MB of the heap at once.
log.cleaner.dedupe.buffer.size=8388608
"""

LOG4J2_PROPERTIES = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.append = true
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c)%n%ex
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerListener:
    """A listener for one peer data centre, whose clients connect to it through a link.

    Kafka's clients reconnect to the address that the listener advertises, so that must be the address of the link.
    """

    dc: str
    port: int
    advertised_port: int

    @property
    def name(self) -> str:
        """Name of the listener; Kafka requires upper case."""
        return f"FROM_{self.dc.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProcess:
    """A broker's directory, its ports, and the commands that format and run it."""

    installation: Installation
    directory: Path
    log: Path
    port: int
    controller_port: int
    peer_listeners: tuple[PeerListener, ...] = ()
    security: BrokerSecurity | None = None
    """None: without passwords and encryption."""
    bind: str = "127.0.0.1"
    """Address at which it listens for clients, which are told 127.0.0.1."""

    @property
    def bootstrap(self) -> str:
        """Address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Kafka's own log directory."""
        return self.directory / "data"

    @property
    def is_formatted(self) -> bool:
        """True if the data directory is formatted: Kafka writes this file last."""
        return (self.data / "meta.properties").is_file()

    def write_files(self) -> None:
        """Write the broker's configuration; keep an existing cluster id."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._server_properties.touch(mode=0o600)
        self._server_properties.write_text(self._properties())
        self._log4j2_properties.write_text(LOG4J2_PROPERTIES.format(log=self.log))
        if not self._cluster_id.exists():
            making = self._cluster_id.with_suffix(".new")
            making.write_text(new_cluster_id())
            making.replace(self._cluster_id)

    def format_command(self) -> list[str]:
        """Return the command to run before the first start; `write_files` must be called first."""
        cluster_id = self._cluster_id.read_text().strip()
        if not cluster_id:
            message = f"{self._cluster_id} is empty: restore it, or remove {self.directory} and its data"
            raise StateError(message)
        users = self.security.format_arguments() if self.security else []
        arguments = (
            "format",
            "--ignore-formatted",
            "-t",
            cluster_id,
            "-c",
            str(self._server_properties),
            *users,
        )
        return self.installation.command("kafka.tools.StorageTool", *arguments, jvm=self._jvm)

    def run_command(self, *jvm: str) -> list[str]:
        """Return the command that runs the broker; `jvm` are further Java options."""
        return self.installation.command("kafka.Kafka", str(self._server_properties), jvm=(*self._jvm, *jvm))

    def commands(self) -> list[list[str]]:
        """Return the commands of the next start: the format of its storage, unless that was done, and the broker."""
        formatting = [] if self.is_formatted else [self.format_command()]
        return [*formatting, self.run_command()]

    def _properties(self) -> str:
        listeners = {"PLAINTEXT": self.port} | {peer.name: peer.port for peer in self.peer_listeners}
        advertised = listeners | {peer.name: peer.advertised_port for peer in self.peer_listeners}
        own = SERVER_PROPERTIES.format(
            controller_port=self.controller_port,
            data=self.data,
            listeners=_addresses(listeners | {"CONTROLLER": self.controller_port}, PLAINTEXT=self.bind),
            advertised=_addresses(advertised),
            protocols=",".join(f"{name}:{self._protocol(name)}" for name in (*listeners, "CONTROLLER")),
        )
        # Each listener has its own threads: with eight peers, one thread each is enough.
        threads = [f"listener.name.{peer.name.lower()}.num.network.threads=1" for peer in self.peer_listeners]
        secured = self.security.properties(listeners) if self.security else []
        return "\n".join([own.rstrip("\n"), *threads, *secured, ""])

    def _protocol(self, listener: str) -> str:
        return self.security.protocol(listener) if self.security else "PLAINTEXT"

    @property
    def _jvm(self) -> tuple[str, ...]:
        return (f"-Dlog4j2.configurationFile={self._log4j2_properties}",)

    @property
    def _server_properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _log4j2_properties(self) -> Path:
        return self.directory / "log4j2.properties"

    @property
    def _cluster_id(self) -> Path:
        return self.directory / "cluster-id"


def _addresses(ports: Mapping[str, int], **bind: str) -> str:
    return ",".join(f"{name}://{bind.get(name, '127.0.0.1')}:{port}" for name, port in ports.items())


def new_cluster_id() -> str:
    """Return 16 random bytes in Kafka's notation, never with a leading `-`, which marks an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def watcher(bootstrap: str, properties: Mapping[str, str] = MappingProxyType({})) -> AdminClient:
    """Return a client that logs nothing, with `properties` for its security, for a broker that may not be up yet."""
    quiet = logging.getLogger("quadlog.kafka.watcher")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 100,
            **properties,
        },
        logger=quiet,
    )


def answers(client: AdminClient) -> bool:
    """Return whether the broker answers now, within half a second."""
    try:
        return bool(client.list_topics(timeout=0.5).brokers)
    except KafkaException:
        return False


def is_serving(bootstrap: str, properties: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Return whether the broker answers a new client."""
    return answers(watcher(bootstrap, properties))


def until(condition: Callable[[], bool], timeout: float) -> None:
    """Wait until `condition` returns True.

    Raises:
        TimeoutError: it did not within `timeout` seconds.

    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
