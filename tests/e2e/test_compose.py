"""`docker compose up`, as the first thing that a user types: three data centres, cut off, killed, and gone again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.kafka.ports import free_ports
from tests.support.clusters.cluster import HTTP, UPDATE, ask, until
from tests.support.clusters.compose import BUILD_S, ROOT, Compose, build, composed, needs_docker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.soak, pytest.mark.long("an image is built, and fifteen containers start and die")]

IMAGE = "quadlog:test"
AGAIN_S = 60.0
"""Within which all take writes again, and are equal."""


SECURE = ROOT / "compose.secure.yaml"


@pytest.fixture(scope="module", params=[(), (SECURE,)], ids=["plain", "secured"])
def compose(request: pytest.FixtureRequest) -> Iterator[Compose]:
    needs_docker()
    build(IMAGE)
    with composed(IMAGE, overlays=request.param) as up:
        yield up


def write(url: str, subject: str) -> httpx.Response:
    return HTTP.post(f"{url}/update", content=f"INSERT DATA {{ <urn:{subject}> a 1 }}", headers=UPDATE)


def has(url: str, subject: str) -> bool:
    answer = ask(url, f"ASK {{ <urn:{subject}> a 1 }}")
    return answer.status_code == 200 and bool(answer.json()["boolean"])


def ready(url: str) -> bool:
    try:
        return HTTP.get(f"{url}/healthz/ready").status_code == 200
    except httpx.TransportError:
        return False


def equal(compose: Compose) -> bool:
    """Whether all workers are at one index with one signature."""
    workers = [name for name in compose.containers() if "-worker" in name]
    assert len(workers) == 6
    states = [json.loads(compose.fetch(name, "/status")) for name in workers]
    return len({(state["applied_index"], state["signature"]) for state in states}) == 1


def test_an_update_at_one_data_centre_is_read_at_the_others(compose: Compose) -> None:
    assert write(compose.masters[0], "first").status_code == 204
    until(lambda: all(has(url, "first") for url in compose.masters), 10)
    listed = compose.run("--profile", "tools", "run", "--rm", "tools").split()
    assert {f"main.dc1.{kind}" for kind in ("payloads", "rounds", "agreed", "effects", "status")} <= {*listed}
    words = ["-b", "kafka.dc2:9092", "-t", "main.dc2.effects", "-C", "-o", "-1", "-c", "1", "-f", "%k"]
    assert compose.run("--profile", "tools", "run", "--rm", "--no-TTY", "kcat", *words).split()[-1].isdigit()


def test_a_data_centre_that_is_cut_off_waits_and_comes_back(compose: Compose) -> None:
    """The side with the majority continues after `max-peer-lag`."""
    compose.cut("dc3-master", "kafka-dc3")
    until(lambda: write(compose.masters[0], "meanwhile").status_code == 204, AGAIN_S)
    refused = write(compose.masters[2], "refused")
    assert (refused.status_code, refused.json()["error"]) == (503, "NoMajority")
    compose.heal("dc3-master", "kafka-dc3")
    until(lambda: ready(compose.masters[2]), AGAIN_S)
    until(lambda: equal(compose), AGAIN_S)
    assert [has(url, "meanwhile") for url in compose.masters] == [True, True, True]
    assert [has(url, "refused") for url in compose.masters] == [False, False, False], "a refusal is definite"


def test_every_container_may_be_killed(compose: Compose) -> None:
    """One after the other; what was acknowledged stays."""
    names = [name for name in sorted(compose.containers()) if re.match(r"kafka-|dc\d-", name)]
    assert len(names) == 12
    for number, name in enumerate(names):
        compose.run("kill", "--signal", "KILL", name)
        compose.run("up", "--wait", "--no-recreate", name)
        until(lambda: all(ready(url) for url in compose.masters), AGAIN_S)
        until(lambda n=number: write(compose.masters[n % 3], f"n{n}").status_code == 204, AGAIN_S)  # type: ignore[misc]
    until(lambda: equal(compose), AGAIN_S)
    assert all(has(url, f"n{number}") for url in compose.masters for number in range(12))


def test_secrets_are_in_no_log_and_no_answer(compose: Compose) -> None:
    """Nor in what `docker inspect` shows."""
    if not compose.is_secured:
        assert "credentials" not in compose.containers()
        return
    listed = compose.run("exec", "-T", "dc1-master", "sh", "-c", "cd /security/passwords && grep -H . *")
    passwords = dict(line.split(":", 1) for line in listed.splitlines())
    assert {"admin", "keystore", "reader", "dc1-m1", "dc3-w2"} < passwords.keys()
    said = {"logs": compose.run("logs", "--no-color")}
    for name, container in compose.containers().items():
        said[f"inspect {name}"] = compose.docker("inspect", container)
        if "-worker" in name:
            said[name] = compose.fetch(name, "/status")
    for url in compose.masters:
        for path in ("/cluster/status", "/cluster/settings", "/metrics"):
            said[url + path] = HTTP.get(url + path).text
    assert min(map(len, said.values())) > 0
    assert [
        (place, user) for place, text in said.items() for user, word in passwords.items() if word in text
    ] == []


def test_it_runs_without_rights_and_nothing_of_it_is_left(compose: Compose) -> None:
    assert compose.run("exec", "-T", "dc1-master", "id", "-u").strip() == "10001"
    refused = subprocess.run(
        ["docker", "exec", compose.containers()["dc1-master"], "touch", "/opt/quadlog/x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Read-only file system" in refused.stderr
    compose.run("down", "--volumes", "--timeout", "10")
    for kind in ("container", "network", "volume"):
        left = compose.docker(
            kind, "ls", "--quiet", "--filter", f"label=com.docker.compose.project={compose.name}"
        )
        assert left == ""


@pytest.mark.timeout(1200)
def test_the_quickstart_does_what_it_says() -> None:
    """Block by block, with ports of its own and without anything that is left of another run."""
    needs_docker()
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 7
    name, ports = f"quadlog-test-{uuid.uuid4().hex[:8]}", free_ports(4)
    environment = os.environ | {"COMPOSE_PROJECT_NAME": name}
    environment |= {f"QUADLOG_DC{number}_PORT": str(port) for number, port in enumerate(ports[1:], 1)}
    environment["QUADLOG_SPARK_PORT"] = str(ports[0])
    said = ""
    try:
        for block in blocks:
            script = re.sub(r"127\.0\.0\.1:808(\d)", lambda found: f"127.0.0.1:{ports[int(found[1])]}", block)
            script = re.sub(r"\bquadlog([_-])(?=wan|dc|kafka)", rf"{name}\1", script)
            done = subprocess.run(
                ["bash", "-euc", script],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=BUILD_S,
            )
            assert done.returncode == 0, (block, done.stdout[-2000:], done.stderr[-4000:])
            said += done.stdout
    finally:
        subprocess.run(
            ["docker", "compose", "--profile", "*", "down", "--volumes"],
            cwd=ROOT,
            env=environment,
            check=False,
        )
    for answer in (
        "hello",
        "meanwhile",
        '"state":"applied"',
        "ok\n",
        "entry 1: ",
        "main.dc2.effects",
        "2 inserted",
    ):
        assert answer in said
    assert not subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", f"name={name}"], capture_output=True, check=True
    ).stdout
