"""`deploy/`: units and settings of three data centres without containers, installed and started as documented.

The hosts of `make soak` are containers whose first process is systemd.
"""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from quadlog.kafka.jars import cache_directory
from quadlog.kafka.ports import free_ports
from quadlog.settings import MasterSettings, WorkerSettings
from tests.support.clusters.cluster import HTTP, UPDATE, until
from tests.support.clusters.compose import ROOT, needs_docker

if TYPE_CHECKING:
    from collections.abc import Iterator

UNITS: Final = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
SECRETS: Final = ROOT / "deploy" / "systemd" / "kafka-secrets.conf"
DCS: Final = ("dc1", "dc2", "dc3")
PROGRAM: Final = "/opt/quadlog/bin/quadlog"
EXPOSURE: Final = 17
"""Ten times what `systemd-analyze security` reports at most."""


def loaded(dc: str) -> tuple[MasterSettings, list[WorkerSettings]]:
    """Settings of the processes of a host, as the product reads them."""
    there = ROOT / "deploy" / "settings" / dc
    assert [path.name for path in sorted(there.iterdir())] == ["master.toml", "worker1.toml", "worker2.toml"]
    workers = [WorkerSettings.load(there / f"worker{number}.toml", {}) for number in (1, 2)]
    return MasterSettings.load(there / "master.toml", {}), workers


def setting(unit: Path, name: str) -> str:
    """The only value of a name in a unit."""
    [found] = re.findall(rf"^{name}=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    return str(found)


def blocks() -> list[str]:
    """Scripts of the guide: what a host needs, quadlog, settings, start, secrets, upgrade."""
    text = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    found = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(found) == 7
    return found


def test_the_settings_of_all_hosts_agree() -> None:
    hosts = {dc: loaded(dc) for dc in DCS}
    masters = [master for master, _ in hosts.values()]
    for dc, (master, workers) in hosts.items():
        assert {
            (peer.id, peer.dc, peer.url, peer.kafka, peer.voting, peer.role) for peer in master.peer.values()
        } == {
            (other.node_id, other.dc, other.master_url, other.kafka, other.voting, other.role)
            for other in masters
            if other is not master
        }
        nodes = [master, *workers]
        assert {node.dc for node in nodes} == {dc}
        assert {node.kafka for node in nodes} == {master.kafka}
        assert len({node.port for node in nodes}) == len({node.data_dir for node in nodes}) == len(nodes)
        assert master.master_url.endswith(f":{master.port}")
        assert all(worker.worker_url == f"http://{worker.host}:{worker.port}" for worker in workers)
    every = [node for master, workers in hosts.values() for node in (master, *workers)]
    assert len({node.node_id for node in every}) == len(every) == 9
    assert {node.repository for node in every} == {"main"}
    assert len({master.cluster for master in masters}) == 1


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_has_the_files_and_the_directories_of_the_settings(unit: Path) -> None:
    for number in ("",) if "@" not in unit.name else ("1", "2"):
        program, _, _, config = shlex.split(setting(unit, "ExecStart").replace("%i", number))
        assert program == PROGRAM
        for dc in DCS:
            file = ROOT / "deploy" / "settings" / dc / Path(config).name
            kind = MasterSettings if "master" in unit.name else WorkerSettings
            data = setting(unit, "StateDirectory").replace("%i", number)
            assert kind.load(file, {}).data_dir == Path("/var/lib") / data


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_wrong_settings_end_the_command_of_a_unit_with_one_clear_line(unit: Path, tmp_path: Path) -> None:
    """What the limit of starts and the excepted status of the units rely on."""
    _, kind, option, config = shlex.split(setting(unit, "ExecStart"))
    file = tmp_path / Path(config).name
    command = [str(Path(sys.executable).with_name("quadlog")), kind, option, str(file)]
    absent = subprocess.run(command, capture_output=True, text=True, check=False)
    assert str(absent.returncode) == setting(unit, "RestartPreventExitStatus")
    assert "does not exist" in absent.stderr
    file.write_text('prot = 7001\nkafka = "k:9092"\n', encoding="utf-8")
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(f"SetupError: settings in {file} ")
    assert "prot: Extra inputs are not permitted" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


def test_the_secret_is_that_of_a_setting(tmp_path: Path) -> None:
    [(name, path)] = re.findall(
        r"^Environment=(\w+)=%d/(.*)$", SECRETS.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert setting(SECRETS, "LoadCredential").partition(":")[0] == path
    (tmp_path / path).write_text("open sesame\n", encoding="utf-8")
    given = {
        name: str(tmp_path / path),
        "QUADLOG_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "QUADLOG_KAFKA_SASL_MECHANISM": "PLAIN",
        "QUADLOG_KAFKA_SASL_USERNAME": "quadlog",
    }
    settings = WorkerSettings.load(ROOT / "deploy" / "settings" / "dc1" / "worker1.toml", given)
    assert settings.credentials().librdkafka()["sasl.password"] == "open sesame"


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on this machine")
    names: list[str] = []
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8")
        (tmp_path / unit.name).write_text(text.replace(PROGRAM, sys.executable), encoding="utf-8")
        names.append(str(tmp_path / unit.name.replace("@", "@1")))
        stated = re.search(r"systemd-analyze security: (\S+) ", text)
        assert stated is not None
        assert float(stated[1]) * 10 == EXPOSURE
    told = subprocess.run([program, "verify", *names], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    exposed = subprocess.run(
        [program, "security", "--offline=true", f"--threshold={EXPOSURE}", *map(str, UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert exposed.returncode == 0, exposed.stdout


IMAGE: Final = "quadlog-deploy:test"
BUILD_S: Final = 900
DOCKERFILE: Final = """\
FROM python:3.12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends systemd curl && rm -rf /var/lib/apt/lists/*
WORKDIR /root
COPY requirements-run.lock 0.sh ./
RUN sh -eux 0.sh
COPY cache /var/cache/quadlog
RUN chmod -R a+rwX /var/cache/quadlog
COPY . .
RUN sh -eux 1.sh
ENV container=docker
COPY init /init
CMD ["sh", "-eu", "/init"]
"""
"""A host on which the first two scripts of the guide were run, with the jars that this machine has."""
INIT: Final = """\
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --make-rshared /
exec /lib/systemd/systemd
"""
"""What a container has to be given so that systemd finds its control groups, and services their credentials."""
AS_A_HOST: Final = (
    *("--cap-add", "SYS_ADMIN", "--cgroupns", "private", "--tmpfs", "/run", "--tmpfs", "/run/lock"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
)
"""What systemd needs as the first process of a container."""
PASSWORD: Final = "open-sesame-4711"
LISTENERS: Final = {
    "KAFKA_LISTENERS": "DC://:9092,SECURE://:9094,CONTROLLER://:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "DC:PLAINTEXT,SECURE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "DC",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
    "KAFKA_LISTENER_NAME_SECURE_PLAIN_SASL_JAAS_CONFIG": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_quadlog="{PASSWORD}";'
    ),
    "KAFKA_HEAP_OPTS": "-Xms128m -Xmx256m",
}
AGAIN_S: Final = 60.0
"""Within which all take writes again."""
NODES: Final = ("quadlog-master", "quadlog-worker@1", "quadlog-worker@2")


def docker(*arguments: str, text: str | None = None, timeout: float = 120) -> str:
    """`docker` with these arguments; its output."""
    done = subprocess.run(
        ["docker", *arguments], input=text, capture_output=True, text=True, check=False, timeout=timeout
    )
    assert done.returncode == 0, (arguments, done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout


class Host:
    """The host of a data centre: a container with systemd."""

    def __init__(self, name: str, dc: str, port: int) -> None:
        """Run `start` once it exists."""
        self.name, self.dc, self.port = name, dc, port
        self.master: Final = f"http://127.0.0.1:{port}"

    def run(self, script: str, *, timeout: float = 120) -> str:
        """Output of a script, run as root in the directory with `deploy/`."""
        return docker("exec", self.name, "bash", "-euc", script, timeout=timeout)

    def shows(self, unit: str, name: str) -> str:
        """What `systemctl show` reports."""
        return self.run(f"systemctl show --value --property {name} {unit}").strip()

    def is_active(self, unit: str) -> bool:
        """Whether its process runs."""
        return self.shows(unit, "ActiveState") == "active"

    def journal(self, unit: str, since: str) -> str:
        """Lines of a unit's log."""
        return self.run(f"journalctl --no-pager --output cat --unit {unit} --since '{since}'")

    def now(self) -> str:
        """Time for `journal`."""
        return self.run("sleep 1; date '+%F %T'").strip()

    def serves(self, port: int, path: str) -> bool:
        """Whether a process on this host answers 200."""
        code = self.run(
            f"curl --silent --output /dev/null --write-out '%{{http_code}}' http://127.0.0.1:{port}{path} || true"
        )
        return code == "200"

    @property
    def is_ready(self) -> bool:
        """Whether its master takes writes."""
        try:
            return HTTP.get(f"{self.master}/healthz/ready").status_code == 200
        except httpx.TransportError:
            return False


def build(directory: Path) -> None:
    """Build the image of a host from the wheel of this tree."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            directory,
            ROOT,
        ],
        check=True,
    )
    shutil.copytree(ROOT / "deploy", directory / "deploy")
    shutil.copy(ROOT / "requirements-run.lock", directory)
    for number, script in enumerate(blocks()):
        (directory / f"{number}.sh").write_text(script, encoding="utf-8")
    shutil.copytree(
        cache_directory(),
        directory / "cache",
        ignore=shutil.ignore_patterns("downloads", "*.jsa", "lock", "classes.*"),
    )
    (directory / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    (directory / "init").write_text(INIT, encoding="utf-8")
    docker("build", "--quiet", "--tag", IMAGE, str(directory), timeout=BUILD_S)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Host]]:
    """Three hosts, each with a Kafka; all take writes, and nothing of them is left afterwards."""
    needs_docker()
    build(tmp_path_factory.mktemp("host"))
    name = f"quadlog-test-{uuid.uuid4().hex[:8]}"
    hosts = [Host(f"{name}-{dc}", dc, port) for dc, port in zip(DCS, free_ports(3), strict=True)]
    try:
        docker("network", "create", name)
        for host in hosts:
            start(host, name)
        with ThreadPoolExecutor(len(hosts)) as threads:
            list(threads.map(lambda host: host.run(blocks()[3], timeout=AGAIN_S), hosts))
        yield hosts
    finally:
        made = [one for host in hosts for one in (host.name, f"{host.name}-kafka")]
        subprocess.run(["docker", "rm", "--force", "--volumes", *made], capture_output=True, check=False)
        subprocess.run(["docker", "network", "rm", name], capture_output=True, check=False)


def start(host: Host, network: str) -> None:
    """Start a host with its settings, and its Kafka, which has the names of three brokers."""
    names = [f"kafka{number}.{host.dc}.example" for number in (1, 2, 3)]
    advertised = f"DC://{names[0]}:9092,SECURE://{names[0]}:9094"
    environment = LISTENERS | {"KAFKA_ADVERTISED_LISTENERS": advertised}
    on_network = ("run", "--detach", "--network", network)
    docker(
        *(*on_network, "--name", f"{host.name}-kafka"),
        *(part for name in names for part in ("--network-alias", name)),
        *(part for key, value in environment.items() for part in ("--env", f"{key}={value}")),
        "apache/kafka:4.3.1",
    )
    docker(
        *(*on_network, "--name", host.name, "--network-alias", f"quadlog.{host.dc}.example"),
        *("--publish", f"127.0.0.1:{host.port}:7001", *AS_A_HOST, IMAGE),
    )
    host.run("until systemctl is-system-running --quiet; do sleep 0.2; done")
    host.run(blocks()[2].replace("dc1", host.dc))
    host.run("echo QUADLOG_KAFKA_REPLICATION=1 >/etc/quadlog/quadlog.env")


def write(host: Host, subject: str) -> None:
    """Write until it is acknowledged."""
    request = functools.partial(
        HTTP.post, f"{host.master}/update", content=f"INSERT DATA {{ <urn:{subject}> a 1 }}", headers=UPDATE
    )
    until(lambda: request().status_code == 204, AGAIN_S)


def has(host: Host, subject: str) -> bool:
    """Whether a read that shows all that was acknowledged finds a subject."""
    answer = HTTP.get(
        f"{host.master}/sparql",
        params={"query": f"ASK {{ <urn:{subject}> a 1 }}"},
        headers={"Quadlog-Consistency": "strict", "Accept": "application/sparql-results+json"},
    )
    return answer.status_code == 200 and bool(answer.json()["boolean"])


@pytest.mark.soak
@pytest.mark.long("an image is built, and three hosts with systemd start")
class TestHosts:
    """What operators do with the units, in the order in which they do it."""

    def test_a_write_at_one_data_centre_is_read_at_the_others(self, hosts: list[Host]) -> None:
        for host in hosts:
            write(host, host.dc)
        assert all(has(host, subject) for host in hosts for subject in DCS)
        assert all(host.shows(unit, "UnitFileState") == "enabled" for host in hosts for unit in NODES)
        assert all(host.serves(port, "/status") for host in hosts for port in (7002, 7003))

    @pytest.mark.parametrize("unit", NODES[:2])
    def test_processes_run_without_rights(self, hosts: list[Host], unit: str) -> None:
        pid = hosts[0].shows(unit, "MainPID")
        status = dict(re.findall(r"^(\w+):\s+(\S+)", hosts[0].run(f"cat /proc/{pid}/status"), re.MULTILINE))
        assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapBnd"], 16)) == ("1", "2", 0)
        assert status["Uid"] == hosts[0].run("id -u quadlog").strip() != "0"
        mounts = hosts[0].run(f"cat /proc/{pid}/mountinfo").splitlines()
        [root] = [fields for line in mounts if (fields := line.split())[4] == "/"]
        assert "ro" in root[5].split(",")
        assert hosts[0].run("stat --format '%U %a' /var/lib/quadlog/*").split() == ["quadlog", "700"] * 3

    @pytest.mark.parametrize("unit", NODES[:2])
    @pytest.mark.parametrize("signal", ["KILL", "HUP"])
    def test_what_a_signal_ends_is_started_again(self, hosts: list[Host], unit: str, signal: str) -> None:
        host = hosts[1]
        host.run(f"systemctl reset-failed {unit}")
        before = host.shows(unit, "MainPID")
        host.run(f"systemctl kill --kill-whom main --signal {signal} {unit}")
        until(lambda: host.shows(unit, "MainPID") not in {before, "0"} and host.is_active(unit), AGAIN_S)
        until(lambda: host.is_ready, AGAIN_S)
        write(host, f"{unit}-{signal}")
        assert has(hosts[2], f"{unit}-{signal}")

    def test_a_stop_is_clean(self, hosts: list[Host]) -> None:
        host, since = hosts[2], hosts[2].now()
        host.run(f"systemctl stop {' '.join(NODES)}", timeout=60)
        for unit in NODES:
            assert [host.shows(unit, name) for name in ("ActiveState", "Result")] == ["inactive", "success"]
            said = host.journal(unit, since)
            assert "Deactivated successfully." in said
            assert "SIGKILL" not in said
            assert "Traceback" not in said
            assert host.shows(unit, "ExecMainStatus") == "0"
            stopped = float(host.shows(unit, "InactiveEnterTimestampMonotonic"))
            took_s = (stopped - float(host.shows(unit, "ExecMainExitTimestampMonotonic"))) / 1e6
            assert took_s < 1, "nothing else of the unit had to be waited for"
        host.run(f"systemctl start {' '.join(NODES)}")
        until(lambda: host.is_ready, AGAIN_S)

    @pytest.mark.parametrize("unit", ["quadlog-master", "quadlog-worker@2"])
    def test_wrong_settings_end_in_a_clear_message_and_a_failed_unit(
        self, hosts: list[Host], unit: str
    ) -> None:
        host, since = hosts[2], hosts[2].now()
        file = f"/etc/quadlog/{unit.removeprefix('quadlog-').replace('@', '')}.toml"
        host.run(
            f"cp --preserve {file} /root/right.toml; sed --in-place '1i prot = 1' {file}; "
            f"systemctl stop {unit}; systemctl reset-failed 'quadlog-*'; systemctl start {unit}"
        )
        try:
            until(lambda: "Start request repeated too quickly" in host.journal(unit, since), AGAIN_S)
        finally:
            host.run(f"sleep 5; mv /root/right.toml {file}")
        said = host.journal(unit, since)
        assert f"SetupError: settings in {file} (and QUADLOG_… variables) are not usable: prot: " in said
        assert 1 < said.count("SetupError") <= 5
        assert host.shows(unit, "ActiveState") == "failed", "it does not go on for ever"
        host.run(f"systemctl reset-failed 'quadlog-*'; systemctl start {unit}")
        until(lambda: host.is_ready, AGAIN_S)

    def test_without_a_settings_file_a_unit_is_failed_at_once(self, hosts: list[Host]) -> None:
        host, unit, since = hosts[2], "quadlog-worker@9", hosts[2].now()
        host.run(f"systemctl start {unit}")
        until(lambda: host.shows(unit, "ActiveState") == "failed", AGAIN_S)
        assert host.shows(unit, "NRestarts") == "0"
        assert "file '/etc/quadlog/worker9.toml' does not" in host.journal(unit, since)

    def test_processes_come_back_when_their_kafka_does(self, hosts: list[Host]) -> None:
        """However long it is away: here longer than five starts of a master take."""
        host = hosts[2]
        docker("stop", f"{host.name}-kafka")
        host.run("systemctl reset-failed 'quadlog-*'")
        host.run(f"systemctl restart {' '.join(NODES)}")
        until(lambda: int(host.shows("quadlog-master", "NRestarts")) > 5, 150)
        assert all(host.shows(unit, "ActiveState") != "failed" for unit in NODES)
        docker("start", f"{host.name}-kafka")
        until(lambda: host.is_ready, AGAIN_S)
        until(lambda: all(host.serves(port, "/status") for port in (7002, 7003)), AGAIN_S)
        write(hosts[0], "after")
        assert has(host, "after")

    def test_spark_runs_in_the_unit_of_a_worker(self, hosts: list[Host]) -> None:
        host, unit, since = hosts[0], "quadlog-worker@2", hosts[0].now()
        host.run(
            f"systemctl stop {unit}; rm -r /var/lib/quadlog/worker2; "
            "sed --in-place '1i catch-up = \"compacted\"' /etc/quadlog/worker2.toml; "
            f"systemctl start {unit}"
        )
        until(lambda: host.serves(7003, "/status"), 180)
        assert "bundle_taken" in host.journal(unit, since)

    def test_a_secret_reaches_the_services_and_nobody_else(self, hosts: list[Host]) -> None:
        host, since = hosts[0], hosts[0].now()
        host.run(blocks()[4])
        host.run(
            f"(umask 077; echo {PASSWORD} >/etc/quadlog/secrets/kafka-sasl-password)\n"
            'sed --in-place \'s/:9092/:9094/g; 1i kafka-security-protocol = "SASL_PLAINTEXT"\\n'
            'kafka-sasl-mechanism = "PLAIN"\\nkafka-sasl-username = "quadlog"\' /etc/quadlog/*.toml'
        )
        host.run(blocks()[5])
        for port, path in ((7002, "/status"), (7003, "/status"), (7001, "/healthz/ready")):
            until(lambda port=port, path=path: host.serves(port, path), AGAIN_S)  # type: ignore[misc]
        write(hosts[1], "secret")
        until(lambda: has(host, "secret"), AGAIN_S)
        for unit in NODES:
            pid = host.shows(unit, "MainPID")
            shown = host.run(f"systemctl show {unit}; tr '\\0' '\\n' </proc/{pid}/environ") + host.journal(
                unit, since
            )
            assert "kafka-sasl-password" in shown
            assert PASSWORD not in shown
            refused = f"! runuser -u nobody -- cat /run/credentials/{unit}.service/kafka-sasl-password"
            assert "Permission denied" in host.run(f"{refused} 2>&1")

    def test_an_upgrade_is_a_restart_of_one_process_after_the_other(self, hosts: list[Host]) -> None:
        host = hosts[1]
        before = [host.shows(unit, "MainPID") for unit in NODES]
        host.run(blocks()[6], timeout=300)
        assert all(host.shows(unit, "MainPID") != pid for unit, pid in zip(NODES, before, strict=True))
        write(host, "upgraded")
        assert all(has(other, "upgraded") for other in hosts)
