"""`quadlog.testing`: one interface on processes and on containers, and nothing is left, however tests end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.errors import SetupError, UserError
from quadlog.kafka.broker_process import is_serving
from quadlog.kafka.jars import locked
from quadlog.kafka.ports import free_ports
from quadlog.lab import processes
from quadlog.testing import QuadlogCluster, QuadlogContainer
from quadlog.testing.attached_lab import AttachedLab
from quadlog.testing.cluster import BACKEND
from tests.support.clusters.cluster import records, recount, until
from tests.support.clusters.compose import needs_docker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.testing import Backend

ROOT = Path(__file__).parents[2]
IMAGE = "quadlog:test"
BUILD_S = 900
GONE_S = 30.0
EMPTY = f"{0:064x}"
ON_DOCKER = [pytest.mark.soak, pytest.mark.long("an image is built, and a cluster starts in a container")]
HOLDER = """
import json, sys, time
from quadlog.testing import QuadlogCluster
with QuadlogCluster(1, 0, 0, backend=sys.argv[1], image=sys.argv[2]) as cluster:
    print(json.dumps(cluster.kafka), flush=True)
    time.sleep(600)
"""
"""A test process that is killed: its cluster is one Kafka."""


@pytest.fixture(scope="module")
def image() -> str:
    """Built from this checkout, where there is a daemon."""
    needs_docker()
    subprocess.run(["docker", "build", "--quiet", "--tag", IMAGE, "."], cwd=ROOT, check=True, timeout=BUILD_S)
    return IMAGE


@pytest.fixture(scope="module", params=["processes", pytest.param("docker", marks=ON_DOCKER)])
def shared(request: pytest.FixtureRequest) -> Iterator[QuadlogCluster]:
    backend: Backend = request.param
    named = request.getfixturevalue("image") if backend == "docker" else None
    settings = {"request-timeout": 2, "idle-round": 0.25}
    with QuadlogCluster(2, 1, 1, settings, backend=backend, image=named) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: QuadlogCluster) -> QuadlogCluster:
    shared.reset()
    return shared


def write(cluster: QuadlogCluster, master: str, subject: str) -> int:
    """Status of an update."""
    body = {"update": f"INSERT DATA {{ <urn:{subject}> a <urn:Thing> }}"}
    return httpx.post(f"{cluster.urls[master]}/update", data=body, timeout=30).status_code


# A cluster.


def test_an_update_reaches_all_workers_and_is_in_kafka(cluster: QuadlogCluster) -> None:
    assert [*cluster.kafka] == ["dc1", "dc2"]
    assert (cluster.masters, cluster.workers) == (("dc1-m1", "dc2-m1"), ("dc1-w1", "dc2-w1"))
    assert write(cluster, "dc2-m1", "first") == 204
    index = cluster.wait_equal()
    states = cluster.signatures()
    for worker in cluster.workers:
        assert states[worker].index == index
        assert recount(cluster.urls[worker]) == (
            states[worker].signature,
            ["<urn:first> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:Thing> ."],
        )
    for dc, bootstrap in cluster.kafka.items():
        assert any(record.value() for record in records(bootstrap, f"main.{dc}.effects", last=1))


def test_a_cut_stops_what_needs_the_other_side_until_it_heals(cluster: QuadlogCluster) -> None:
    cluster.cut("dc1", "dc2")
    assert write(cluster, "dc1-m1", "meanwhile") in {503, 504}, "neither of two has a majority"
    cluster.heal("dc1", "dc2")
    until(lambda: write(cluster, "dc1-m1", "healed") == 204)
    cluster.wait_equal()


def test_a_link_has_a_latency(cluster: QuadlogCluster) -> None:
    latency_s = 0.15

    def seconds() -> float:
        began = time.monotonic()
        assert write(cluster, "dc1-m1", "timed") == 204
        return time.monotonic() - began

    cluster.link("dc1", "dc2", latency_ms=latency_s * 1000)
    assert seconds() > latency_s
    cluster.link("dc1", "dc2", latency_ms=0)
    until(lambda: seconds() < latency_s)


def test_a_killed_and_a_paused_process_come_back(cluster: QuadlogCluster) -> None:
    cluster.kill("dc2-w1")
    cluster.pause("dc1-w1")
    assert cluster.signatures() == {}
    cluster.resume("dc1-w1")
    assert write(cluster, "dc1-m1", "meanwhile") == 204
    assert [*cluster.signatures()] == ["dc1-w1"]
    index = cluster.wait_equal()
    cluster.start("dc2-w1")
    assert cluster.wait_equal() == index
    assert {state.index for state in cluster.signatures().values()} == {index}


def test_workers_that_stay_apart_are_named(cluster: QuadlogCluster) -> None:
    cluster._signal("dc2-w1", "STOP")  # behind its back: as one that hangs by itself
    try:
        with pytest.raises(TimeoutError, match=r"dc2-w1.*Timeout"):
            cluster.wait_equal(timeout=0.5)
    finally:
        cluster.resume("dc2-w1")


def test_after_a_reset_nothing_is_left_of_the_test_before(cluster: QuadlogCluster) -> None:
    url = cluster.urls["dc1-m1"]
    assert write(cluster, "dc1-m1", "left") == 204
    update = {"update": "INSERT DATA { GRAPH <urn:g> { <urn:a> a <urn:B> } } ; CREATE GRAPH <urn:empty>"}
    assert httpx.post(f"{url}/update", data=update).status_code == 204
    control = "ASK { FILTER NOT EXISTS { ?s a <urn:Forbidden> } }"
    asked = httpx.put(
        f"{url}/controls/forbidden", content=control, headers={"Content-Type": "application/sparql-query"}
    )
    assert asked.is_success, asked.text
    cluster.cut("dc1", "dc2")
    for name in ("dc2-m1", "dc2-w1"):
        cluster.kill(name)
    cluster.pause("dc1-w1")
    cluster.reset()
    assert {state.signature for state in cluster.signatures().values()} == {EMPTY}
    assert httpx.get(f"{url}/controls").json()["controls"] == []
    assert write(cluster, "dc2-m1", "next") == 204


def test_a_name_that_it_does_not_have_is_an_error(cluster: QuadlogCluster) -> None:
    with pytest.raises(UserError, match=r"dc9-w1; it has .*dc1-w1"):
        cluster.kill("dc9-w1")
    with pytest.raises(UserError, match=r"dc9"):
        cluster.cut("dc1", "dc9")
    with pytest.raises(UserError, match=r"two ends"):
        cluster.heal("dc1")


# What is missing is named, with what to do.


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=r"install Java"), QuadlogCluster(1, 1, 1, backend="processes"):
        pass


def test_a_setting_that_there_is_not_is_an_error() -> None:
    with (
        pytest.raises(SetupError, match=r"there is no setting max-per-lag"),
        QuadlogCluster(1, 1, 1, {"max-per-lag": 3}, backend="processes"),
    ):
        pass


def test_without_docker_auto_takes_processes_of_which_a_failed_test_leaves_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.delenv(BACKEND, raising=False)
    with pytest.raises(SetupError, match=r"no Docker daemon answers .*backend='processes'"):
        QuadlogContainer()
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    project = tmp_path / "project"
    project.mkdir()
    for name in ("quadlog", "schemas", "consumers"):  # of the user's own, where the tests run
        (project / f"{name}.py").write_text("raise ImportError")
    monkeypatch.chdir(project)
    lab_ids: list[str] = []

    def fail() -> None:
        with QuadlogCluster(1, 0, 0) as cluster:
            assert cluster.backend == "processes"
            [record] = place.glob("quadlog-lab-*/lab.json")
            lab_ids.append(json.loads(record.read_text())["lab_id"])
            assert processes.of_lab(lab_ids[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert processes.of_lab(lab_ids[0]) == []
    assert [*place.iterdir()] == []


def test_the_variable_decides_and_has_three_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BACKEND, "processes")
    assert QuadlogCluster().backend == "processes"
    assert QuadlogCluster(backend="docker").backend == "docker", "an argument counts more"
    monkeypatch.setenv(BACKEND, "podman")
    with pytest.raises(UserError, match=r"'podman' is no backend: .* auto, docker, processes"):
        QuadlogCluster()


def test_a_cluster_that_is_not_open_says_so() -> None:
    cluster = QuadlogCluster(backend="processes")
    for call in (lambda: cluster.kill("dc1-w1"), cluster.wait_equal, cluster.signatures, cluster.reset):
        with pytest.raises(SetupError, match="not open"):
            call()


def test_an_answer_that_nobody_waited_for_is_not_anothers() -> None:
    """A time-out of a test may interrupt a request; the cluster of the run is used by the next test."""

    class Interrupted:
        def send(self, data: bytes) -> None:
            assert data

        def receive(self, timeout: float) -> bytes:
            assert timeout
            raise ZeroDivisionError

        def last_errors(self) -> str:
            return ""

    lab = AttachedLab(Interrupted())
    with pytest.raises(ZeroDivisionError):
        lab.ask({"do": "start", "id": "dc1-w1"})
    with pytest.raises(SetupError, match="interrupted: close this cluster"):
        lab.ask({"do": "describe"})


# Nothing is left.


@contextmanager
def killed(backend: str, image: str, environment: dict[str, str]) -> Iterator[None]:
    """Run a test process while its cluster is looked at; then kill it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, backend, image],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as holder:
        assert holder.stdout
        try:
            assert is_serving(json.loads(holder.stdout.readline())["dc1"])
            yield
        finally:
            holder.send_signal(signal.SIGKILL)


def test_a_lab_ends_with_its_client_while_it_prepares(tmp_path: Path) -> None:
    """As during a download: another process holds the cache here."""
    cache, temporary = tmp_path / "cache", tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "QUADLOG_CACHE": str(cache)}
    with (
        locked(cache, print),
        subprocess.Popen(
            [sys.executable, "-m", "quadlog", "lab", "up", "--attached", "--dcs", "1"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as lab,
    ):
        assert lab.stdin
        assert lab.stderr
        try:
            assert "waiting for it" in lab.stderr.readline()
            lab.stdin.close()
            lab.wait(GONE_S)
        finally:
            lab.kill()
    assert [*temporary.iterdir()] == []


def test_no_process_and_no_file_outlives_a_killed_test(tmp_path: Path) -> None:
    with killed("processes", "", {"TMPDIR": str(tmp_path)}):
        [record] = tmp_path.glob("quadlog-lab-*/lab.json")
        lab_id = json.loads(record.read_text())["lab_id"]
        assert processes.of_lab(lab_id)
    assert processes.wait_until_gone(lab_id, GONE_S) == []
    until(lambda: not [*tmp_path.glob("quadlog-lab-*")], GONE_S)


# The lab's options for it.


def test_a_lab_takes_commands_from_a_pipe_only() -> None:
    command = [sys.executable, "-m", "quadlog", "lab", "up", "--masters", "0", "--workers", "0", "--attached"]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, "is not a pipe" in ended.stderr) == (1, True), ended.stderr


def test_a_lab_to_which_nobody_speaks_ends(tmp_path: Path) -> None:
    """As a container to whose stdin nobody has connected: its client was killed before."""
    code = "import quadlog.lab.control as c, sys; c.FIRST_TIMEOUT = 1.0; from quadlog.cli import main; main()"
    command = [sys.executable, "-c", code, *("lab", "up", "--masters", "0", "--workers", "0", "--attached")]
    with subprocess.Popen(
        [*command, "--dcs", "1", "--dir", str(tmp_path / "lab")],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as lab:
        assert lab.wait(60) == 0


def test_the_ports_of_a_lab_stay_as_they_were_given(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quadlog", "lab", "up", "--attached", "--dir", str(tmp_path / "lab")]
    options = ["--dcs", "1", "--masters", "0", "--workers", "0", "--first-port"]
    [first] = free_ports(1)
    subprocess.run([*command, *options, str(first)], input=b"", check=True, timeout=60)
    assert json.loads((tmp_path / "lab/lab.json").read_text())["ports"]["broker-dc1"] == first
    refused = subprocess.run(
        [*command, *options, str(first + 1)], capture_output=True, text=True, check=False, timeout=60
    )
    assert f"has broker-dc1 at port {first}, --first-port {first + 1} asks for {first + 1}" in refused.stderr


# Containers.


def docker(*arguments: str) -> set[str]:
    """Lines of what `docker` says."""
    said = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=60)
    return {*said.stdout.split()}


def mine(image: str) -> set[str]:
    """Containers of the image that testcontainers made."""
    filters = ("--filter", f"ancestor={image}", "--filter", "label=org.testcontainers=true")
    return docker("ps", "--all", "--quiet", "--no-trunc", *filters)


def volumes_of(container: str) -> set[str]:
    return docker("inspect", "--format", "{{range .Mounts}}{{.Name}} {{end}}", container)


@pytest.mark.soak
@pytest.mark.long("an image is built, and a cluster starts in a container")
def test_a_container_has_everything_and_is_gone_afterwards(image: str) -> None:
    began = time.monotonic()
    with QuadlogContainer(image) as quadlog:
        print(f"container ready in {time.monotonic() - began:.1f} s")
        said = httpx.post(f"{quadlog.get_url()}/update", data={"update": "INSERT DATA { <urn:a> a <urn:B> }"})
        assert said.status_code == 204
        found = httpx.get(
            f"{quadlog.get_url()}/sparql", params={"query": "ASK { <urn:a> a <urn:B> }"}, timeout=30
        )
        assert found.json()["boolean"]
        assert len([*records(quadlog.get_bootstrap_server(), "main.dc1.agreed")]) >= 1
        container = quadlog.get_container_id()
        assert docker("exec", container, "id", "-u") == {"10001"}
        assert docker("inspect", "--format", "{{.HostConfig.ReadonlyRootfs}}", container) == {"true"}
        published = docker("port", container)
        assert {line for line in published if ":" in line and not line.startswith("127.0.0.1:")} == set()
        volumes = volumes_of(container)
        assert volumes
    assert container not in docker("ps", "--all", "--quiet", "--no-trunc")
    assert not volumes & docker("volume", "ls", "--quiet")


@pytest.mark.soak
@pytest.mark.long("a cluster starts in a container")
def test_no_container_and_no_volume_outlives_a_killed_test(image: str) -> None:
    before = mine(image)
    with killed("docker", image, {}):
        [container] = mine(image) - before
        volumes = volumes_of(container)
    assert volumes
    until(lambda: container not in mine(image), GONE_S)
    until(lambda: not volumes & docker("volume", "ls", "--quiet"), GONE_S)


@pytest.mark.soak
def test_a_container_whose_lab_ends_says_why(image: str) -> None:
    before = mine(image)
    container = QuadlogContainer(image, settings={"max-per-lag": 3})
    with pytest.raises(SetupError, match="there is no setting max-per-lag"):
        container.start()
    assert mine(image) <= before


@pytest.mark.soak
def test_an_image_that_is_missing_says_how_to_build_it() -> None:
    needs_docker()
    with pytest.raises(SetupError, match=r"no image quadlog-none: run `docker build --tag quadlog-none .`"):
        QuadlogContainer("quadlog-none").start()


# The document and the example, as their reader would run them.


@pytest.mark.soak
@pytest.mark.long("clusters of three and of two data centres start, one after the other")
@pytest.mark.parametrize("backend", ["processes", "docker"])
def test_the_document_does_what_it_says(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text(), re.DOTALL)
    settings, test, script, container = blocks
    for name, text in {
        "conftest.py": settings,
        "test_it.py": test,
        "script.py": script,
        "container.py": container,
    }.items():
        (tmp_path / name).write_text(text)
    named = request.getfixturevalue("image") if backend == "docker" else "none"
    environment = os.environ | {BACKEND: backend, "QUADLOG_IMAGE": named}
    commands = [["-m", "pytest", "-q"], ["script.py"], *([["container.py"]] if backend == "docker" else [])]
    said = [
        subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout
        for command in commands
    ]
    assert "1 passed" in said[0]
    assert said[1].startswith(f"{backend} {{'dc1-m1': 'http://127.0.0.1:")
    assert "http://127.0.0.1:" in said[-1]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, and a new environment `venv` with a wheel of this checkout, its extra, and no more."""
    place = tmp_path_factory.mktemp("example")
    shutil.copytree(
        ROOT / "examples/audit", place / "audit", ignore=shutil.ignore_patterns("__pycache__", ".*")
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", place, ROOT],
        check=True,
    )
    venv.create(place / "venv", with_pip=True)
    [wheel] = place.glob("quadlog-*.whl")
    pip = [str(place / "venv/bin/python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, f"{wheel}[testing]"], check=True)
    return place


@pytest.mark.soak
@pytest.mark.long("a wheel is installed with all that it needs, and clusters of three data centres start")
@pytest.mark.parametrize("backend", ["processes", "docker"])
def test_the_example_runs_with_a_wheel_in_an_empty_environment(
    example: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    named = request.getfixturevalue("image") if backend == "docker" else "none"
    ran = subprocess.run(
        [example / "venv/bin/python", "-m", "pytest", "-q"],
        cwd=example / "audit",
        env=os.environ | {BACKEND: backend, "QUADLOG_IMAGE": named},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    print(ran.stdout[-2000:])
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
    assert "skipped" not in ran.stdout
