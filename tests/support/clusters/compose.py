"""`compose.yaml`, run by `docker compose` under a name and with ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quadlog.kafka.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

ROOT = Path(__file__).parents[3]
UP_S = 90
"""Within which all take writes, where the images are there."""
BUILD_S = 900


class Compose:
    """A running project."""

    def __init__(self, name: str, image: str, overlays: Sequence[Path] = ()) -> None:
        """Nothing runs yet.  Overlays are further files for `docker compose --file`."""
        self.name = name
        *ports, spark = free_ports(4)
        self.masters = [f"http://127.0.0.1:{port}" for port in ports]
        self.spark = f"http://127.0.0.1:{spark}"
        own = {f"QUADLOG_DC{n}_PORT": str(port) for n, port in enumerate(ports, 1)}
        self._environment = os.environ | own | {"QUADLOG_SPARK_PORT": str(spark), "QUADLOG_IMAGE": image}
        self.is_secured = any(path.name == "compose.secure.yaml" for path in overlays)
        self._files = [word for path in (ROOT / "compose.yaml", *overlays) for word in ("--file", str(path))]

    def run(self, *arguments: str, timeout: float = 120) -> str:
        """`docker compose` with these arguments; its output."""
        return self._call("compose", "--project-name", self.name, *self._files, *arguments, timeout=timeout)

    def docker(self, *arguments: str) -> str:
        """`docker` with these arguments; its output."""
        return self._call(*arguments, timeout=60)

    def _call(self, *arguments: str, timeout: float) -> str:
        done = subprocess.run(
            ["docker", *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr[-4000:])
        return done.stdout

    def containers(self) -> dict[str, str]:
        """Name of the container of each service."""
        listed = self.run("ps", "--all", "--format", "json").splitlines()
        return {one["Service"]: one["Name"] for one in map(json.loads, listed)}

    def cut(self, *services: str) -> None:
        """Take services off the network of the masters."""
        names = self.containers()
        for service in services:
            self.docker("network", "disconnect", f"{self.name}_wan", names[service])

    def heal(self, *services: str) -> None:
        """Put them back, under the names that others know."""
        names = self.containers()
        for service in services:
            alias = f"{service.replace('kafka-', 'kafka.')}.wan" if service.startswith("kafka") else service
            self.docker("network", "connect", "--alias", alias, f"{self.name}_wan", names[service])

    def fetch(self, service: str, path: str) -> str:
        """What a service answers to a request from inside its container."""
        code = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:7001{path}', timeout=5).read().decode())"
        return self.run("exec", "-T", service, "python3", "-c", code)


def needs_docker() -> None:
    """Skip the test where no daemon answers; where there is one, compose has to be there, too."""
    program = shutil.which("docker")
    if program is None or subprocess.run([program, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker daemon answers: start one, or set DOCKER_HOST")


def build(image: str) -> None:
    """Build the image of this tree."""
    subprocess.run(["docker", "build", "--quiet", "--tag", image, "."], cwd=ROOT, check=True, timeout=BUILD_S)


@contextmanager
def composed(image: str, *services: str, overlays: Sequence[Path] = ()) -> Generator[Compose]:
    """The project, up and waited for, or only some services of it; nothing of it is left afterwards."""
    compose = Compose(f"quadlog-test-{uuid.uuid4().hex[:8]}", image, overlays)
    try:
        compose.run("up", "--wait", "--quiet-pull", *services, timeout=UP_S)
        yield compose
    finally:
        compose.run("--profile", "*", "down", "--volumes", "--timeout", "5")
