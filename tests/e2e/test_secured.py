"""Brokers with TLS, passwords and ACLs: all of quadlog works there with the least rights, and keeps its secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import KafkaError, Producer

from quadlog.kafka.acls import Grant
from quadlog.kafka.broker_process import watcher
from quadlog.kafka.broker_security import ADMIN, MECHANISM, PROTOCOL, BrokerSecurity
from quadlog.kafka.java import find_java
from quadlog.lab.security import READER
from tests.support.clusters.cluster import HTTP, Cluster, until
from tests.support.labs import QUICK_JAVA, quadlog, running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess


class Secured(NamedTuple):
    """A lab, and what its users need."""

    cluster: Cluster
    security: BrokerSecurity

    def kafka(self, dc: int) -> str:
        """Bootstrap servers of a data centre, by its place."""
        found: str = self.cluster.lab.dcs[dc]["kafka"]
        return found

    def variables(self, user: str) -> dict[str, str]:
        """What a command of this user needs."""
        return {
            "QUADLOG_KAFKA_SECURITY_PROTOCOL": PROTOCOL,
            "QUADLOG_KAFKA_SSL_CA": str(self.security.ca),
            "QUADLOG_KAFKA_SASL_MECHANISM": MECHANISM,
            "QUADLOG_KAFKA_SASL_USERNAME": user,
            "QUADLOG_KAFKA_SASL_PASSWORD_FILE": str(self.security.password_file(user)),
        }

    def run(self, user: str, *arguments: str) -> CompletedProcess[str]:
        """A command of quadlog, as this user."""
        return quadlog(*arguments, environment=self.variables(user) | QUICK_JAVA)

    def acls(self, dc: int, *arguments: str) -> None:
        """Kafka's own tool, as the administrator."""
        done = self.run(ADMIN, "kafka", "acls", "--bootstrap-server", self.kafka(dc), *arguments)
        assert done.returncode == 0, done.stderr

    def broker_logs(self) -> str:
        """What the brokers wrote."""
        return "".join(path.read_text() for path in (self.cluster.lab.directory / "logs").glob("broker-*"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured") / "lab"
    with running_lab(directory, dcs=2, workers=1, secured=True) as lab:
        cluster = Cluster(lab)
        cluster.wait_until_equal()
        yield Secured(cluster, BrokerSecurity(directory=directory / "security"))


def refusal(secured: Secured, user: str, dc: int, topic: str) -> int | None:
    """Code of the error with which a user's record is refused; None: it is taken."""
    codes: list[int | None] = []
    producer = Producer(
        {
            "bootstrap.servers": secured.kafka(dc),
            "message.timeout.ms": 10_000,
            "log_level": 0,
            **secured.security.client(user),
        }
    )
    producer.produce(
        topic, b"{}", key=b"k", on_delivery=lambda error, _: codes.append(error.code() if error else None)
    )
    assert producer.flush(15) == 0
    return codes[0]


def test_each_user_may_do_what_it_needs_and_no_more(secured: Secured) -> None:
    """Nothing that quadlog does is denied by the ACLs of its table; what others might do is."""
    cluster = secured.cluster
    for number in range(4):
        assert (
            cluster.update(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}", master=number % 2).status_code
            == 204
        )
    cluster.wait_until_equal()
    denied = re.findall(
        r"Principal = (\S+) is Denied operation = (\S+) .* resource = (\S+)", secured.broker_logs()
    )
    assert not denied, denied

    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert refusal(secured, "dc2-m1", 0, "main.dc1.rounds") == refused
    assert refusal(secured, "dc1-w1", 0, "main.dc1.agreed") == refused
    assert refusal(secured, READER, 0, "main.dc1.effects") == refused
    assert watcher(secured.kafka(0), secured.security.client("dc2-w1")).list_topics(timeout=5).topics == {}


def test_commands_log_in_by_variables(secured: Secured, tmp_path: Path) -> None:
    cluster, kafka = secured.cluster, secured.kafka(1)
    listed = secured.run(READER, "kafka", "topics", "--bootstrap-server", kafka, "--list")
    assert listed.stdout.split() == ["main.dc2.agreed", "main.dc2.effects"], listed.stderr
    name = cluster.update("INSERT DATA { <urn:s> <urn:p> 'to revert' }").headers["Quadlog-Tx"]
    index = cluster.wait_until_equal()
    reverted = secured.run(READER, "tx", "revert", name, "--at", cluster.masters[1])
    assert reverted.returncode == 0, reverted.stderr

    bundle = tmp_path / "bundle"
    compacted = secured.run(
        READER, "compact", str(bundle), "--kafka", kafka, "--dc", "dc2", "--until", str(index)
    )
    assert compacted.returncode == 0, compacted.stderr
    assert f"effects 1 to {index}" in compacted.stdout


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> BrokerSecurity:
    """Of another Kafka."""
    other = BrokerSecurity(directory=tmp_path_factory.mktemp("other") / "security")
    other.prepare(find_java(), [], "dns:localhost")
    return other


@pytest.mark.parametrize("wrong", ["password", "certificate", "protocol"])
def test_a_node_that_is_refused_says_why(
    secured: Secured, other: BrokerSecurity, tmp_path: Path, wrong: str
) -> None:
    password = {"QUADLOG_KAFKA_SASL_PASSWORD_FILE": str(other.password_file(ADMIN))}
    environment, words = {
        "password": (secured.variables("dc1-m1") | password, "SASL authentication error"),
        "certificate": (
            secured.variables("dc1-m1") | {"QUADLOG_KAFKA_SSL_CA": str(other.ca)},
            "certificate could not be verified",
        ),
        "protocol": ({}, "or give the settings kafka-… of its security if it has some"),
    }[wrong]
    known = (secured.cluster.lab.directory / "nodes" / "dc1-m1" / "master.toml").read_text().splitlines()
    file = tmp_path / "master.toml"
    kept = [line for line in known if not line.startswith(("kafka-s", "data-dir", "port"))]
    file.write_text("\n".join([f'data-dir = "{tmp_path / "data"}"', "port = 1", *kept]))
    done = quadlog("master", "--config", str(file), environment=environment)
    assert done.returncode != 0
    *_, said = (
        line for line in done.stderr.splitlines() if not line.startswith("%")
    )  # librdkafka's own lines
    assert words in said, done.stderr


def test_rights_that_are_taken_and_given_again(secured: Secured) -> None:
    """A peer that may not read any more is silent to that side; nobody ends, and all go on when it may."""
    cluster = secured.cluster
    pids = {node["id"]: node["pid"] for node in (*cluster.lab.masters, *cluster.lab.workers)}
    right = Grant(principal="User:dc2-m1", operation="READ", name="main.dc1.", is_prefix=True)
    secured.acls(
        0, "--force", *str(right).replace("--add --allow-principal", "--remove --allow-principal").split()
    )
    until(lambda: cluster.status(1)["split"]["waits_for"])
    secured.acls(0, *str(right).split())
    until(lambda: not cluster.status(1)["split"]["waits_for"])
    answer = cluster.update("INSERT DATA { <urn:s> <urn:p> 'again' }", master=1)
    assert answer.status_code == 204, answer.text
    cluster.wait_until_equal()
    assert {name: state for name, state in cluster.lab.states().items() if state != "running"} == {}
    assert {node["id"]: node["pid"] for node in (*cluster.lab.masters, *cluster.lab.workers)} == pids


def test_secrets_are_in_no_log_and_no_answer(secured: Secured) -> None:
    """Passwords are in files that only their owner reads, and in the settings that name them."""
    cluster, security = secured.cluster, secured.security
    passwords = {user: security.password(user) for user in security.users}
    assert len(set(passwords.values())) == 6  # two masters, two workers, reader, admin
    said = {str(path): path.read_text() for path in (cluster.lab.directory / "logs").iterdir()}
    said["lab"] = cluster.lab.output.read_text() + json.dumps(cluster.lab.data)
    for url in cluster.masters:
        for path in ("/cluster/status", "/cluster/settings", "/metrics", "/healthz/ready"):
            said[url + path] = HTTP.get(url + path).text
    for url in cluster.workers.values():
        said[f"{url}/status"] = HTTP.get(f"{url}/status").text
    for pid in cluster.lab.pids():
        said[f"arguments of {pid}"] = Path(f"/proc/{pid}/cmdline").read_text()
    assert min(map(len, said.values())) > 0
    found = [
        (place, user) for place, text in said.items() for user, word in passwords.items() if word in text
    ]
    assert not found, found
    for file in (cluster.lab.directory / "nodes").rglob("*"):
        if file.is_file() and file.suffix in {".toml", ".properties"}:
            secret = any(word in file.read_text() for word in passwords.values())
            assert not (secret and file.stat().st_mode & 0o077), file
