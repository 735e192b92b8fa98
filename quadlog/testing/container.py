"""One container with a whole cluster in it: Kafka, masters, workers, and the links between data centres."""

from __future__ import annotations

import os
import random
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient, get_docker_host

from quadlog.errors import SetupError
from quadlog.kafka.ports import bounds, is_free
from quadlog.lab.shape import LabRequest, LabShape
from quadlog.testing.attached_lab import AttachedLab, lab_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

IMAGE: Final = "QUADLOG_IMAGE"
"""Environment variable with the name of the image."""
DEFAULT_IMAGE: Final = "quadlog"
HOST: Final = "127.0.0.1"
ELSEWHERE: Final = "or use QuadlogCluster with backend='processes'"
PROCESS_MB: Final = 640
"""Limit of memory for each process in the container: a broker's heap has 256 MB, a worker has reading processes."""
BASE_MB: Final = 1024
PIDS: Final = 4096
"""Limit of processes and threads in the container."""
PORT_ATTEMPTS: Final = 5
REMOVAL_TIMEOUT: Final = 20.0
"""Seconds until the daemon has removed a killed container."""
REACHED_TIMEOUT: Final = 5.0
ERROR_LINES: Final = 15
STDERR: Final = 2
"""Number of stderr in the frames of an attached container."""
HEADER: Final = 8
"""Bytes before each frame: its stream, and in the last four its length."""


def docker_error() -> str | None:
    """Return why no Docker daemon can be used; None if one answers."""
    address = get_docker_host() or "unix:///var/run/docker.sock"
    try:
        if address.startswith("unix://"):
            with socket.socket(socket.AF_UNIX) as probe:  # docker-py leaves a socket open where this fails
                probe.connect(address.removeprefix("unix://"))
        client: Any = DockerClient().client
        client.ping()
        client.close()
    except (OSError, DockerException) as error:
        return f"{address}: {error}"
    return None


class QuadlogContainer(DockerContainer):
    """A container that is removed with its data at the end, and when the process that started it dies.

        with QuadlogContainer() as quadlog:
            httpx.post(f"{quadlog.get_url()}/update", data={"update": "INSERT DATA { <urn:a> a <urn:B> }"})

    Its addresses, for HTTP and Kafka, are on 127.0.0.1, and the same inside and outside.  It runs as the user of the
    image, without capabilities, with a read-only root file system and limited memory.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        dcs: int = 1,
        masters: int = 1,
        workers: int = 1,
        settings: Mapping[str, object] | None = None,
        **kwargs: Any,  # noqa: ANN401  as docker-py has them
    ) -> None:
        """Prepare a container; `start`, or entering the context, starts it.

        `image` is of the same version of quadlog, None: `QUADLOG_IMAGE`, or `quadlog`.  `kwargs` are further arguments
        of docker-py's `containers.create`, all others as of `QuadlogCluster`.

        Raises:
            SetupError: no Docker daemon answers.
            UserError: there is no such cluster.

        """
        shape = LabRequest(dcs=dcs, masters=masters, workers=workers).fill(LabShape())
        limits: dict[str, Any] = {
            "auto_remove": True,
            "cap_drop": ["ALL"],
            "healthcheck": {"test": ["NONE"]},  # the image's is for one process
            "mem_limit": f"{BASE_MB + PROCESS_MB * len(shape.nodes)}m",
            "pids_limit": PIDS,
            "read_only": True,
            "security_opt": ["no-new-privileges:true"],
            "stdin_open": True,
        }
        if (why := docker_error()) is not None:
            raise SetupError(f"no Docker daemon answers ({why}): start one, set DOCKER_HOST, {ELSEWHERE}")
        super().__init__(image or os.environ.get(IMAGE, DEFAULT_IMAGE), **limits | kwargs)
        self.tmpfs["/tmp"] = "exec"  # noqa: S108  the container's; for libraries that Java unpacks
        self._lab_arguments = lab_arguments(dcs=dcs, masters=masters, workers=workers, settings=settings)
        self._port_count = len(shape.client_ports)
        self._streams: _ContainerStreams | None = None
        self._lab: AttachedLab | None = None
        self._master = self._kafka = ""

    @property
    def lab(self) -> AttachedLab:
        """The lab in the container.

        Raises:
            SetupError: the container is not started.

        """
        if self._lab is None:
            raise SetupError("the container is not started: call start(), or use it in a with statement")
        return self._lab

    def get_url(self) -> str:
        """Return the URL of the first master, such as `http://127.0.0.1:23101`."""
        assert self.lab
        return self._master

    def get_bootstrap_server(self) -> str:
        """Return the address of the first data centre's Kafka, such as `127.0.0.1:23100`."""
        assert self.lab
        return self._kafka

    def start(self) -> Self:
        """Start the container, and wait until all in it serves.

        Raises:
            SetupError: the image is missing, the container did not start, or its ports are not reachable from here.

        """
        try:
            self._check_image()
            self._start()
            self._streams = _ContainerStreams(self._container)
            self._lab = AttachedLab(self._streams)
            dc = self._lab.ask({"do": "describe"})["lab"]["dcs"][0]
            self._master, self._kafka = next((each["url"] for each in dc["masters"]), ""), dc["kafka"]
            self._check_reachable()
        except BaseException:
            self.stop()
            raise
        return self

    def _check_image(self) -> None:
        client: Any = self.get_docker_client().client
        try:
            client.images.get(self.image)
        except ImageNotFound as error:
            raise SetupError(
                f"the Docker daemon has no image {self.image}: run `docker build --tag {self.image} .` in a checkout"
                f" of quadlog, pull one, set {IMAGE} to the name of another one, {ELSEWHERE}"
            ) from error

    def _start(self) -> None:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            first = _consecutive_ports(self._port_count)
            published: dict[str, Any] = {
                str(port): (HOST, port) for port in range(first, first + self._port_count)
            }
            self.ports = published
            self._command = [
                *("lab", "up", "--attached", "--bind", "0.0.0.0", "--first-port", str(first)),  # noqa: S104  published on HOST alone
                *("--dir", "/var/lib/quadlog/lab", *self._lab_arguments),
            ]
            try:
                super().start()
            except DockerException as error:
                self._remove()
                if attempt < PORT_ATTEMPTS and ("already in use" in str(error) or "allocated" in str(error)):
                    continue  # another program took a port meanwhile
                raise SetupError(
                    f"the container of {self.image} did not start: {error}{_hint(error)}"
                ) from error
            return

    def _check_reachable(self) -> None:
        address, _, port = self._kafka.partition(":")
        try:
            socket.create_connection((address, int(port)), timeout=REACHED_TIMEOUT).close()
        except OSError as error:
            raise SetupError(
                f"the container serves, but {self._kafka} is not reachable from here ({error}): the Docker daemon is on"
                f" another machine, or this is a container itself; run the tests where the daemon is, {ELSEWHERE}"
            ) from error

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: FBT001, FBT002  as inherited
        """Kill and remove the container with its data."""
        del force, delete_volume
        if self._streams is not None:
            self._streams.close()
            self._streams = self._lab = None
        self._remove()
        client: Any = self.get_docker_client().client
        client.close()

    def _remove(self) -> None:
        """Remove the container, if there is one, and wait until it is gone."""
        container: Any = self._container
        if container is None:
            return
        with suppress(APIError):  # it is being removed already, because it has ended
            container.remove(force=True, v=True)
        deadline = time.monotonic() + REMOVAL_TIMEOUT
        with suppress(NotFound):
            while time.monotonic() < deadline:
                container.reload()
                time.sleep(0.05)
        self._container = None


class _ContainerStreams:
    """Stdin, stdout and stderr of a container, over one connection to the daemon.

    It is the only one: when it closes, stdin ends, the lab stops, and the daemon removes the container.
    """

    def __init__(self, container: Any) -> None:  # noqa: ANN401  docker-py has no types
        """Attach to the container.

        Raises:
            SetupError: the container has ended already.

        """
        try:
            # Kept: with some transports, the connection closes when it is collected.
            self._kept = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        except APIError as error:
            raise SetupError(f"the container ended during its start: {error}") from error
        self._socket: socket.socket = getattr(self._kept, "_sock", self._kept)
        self._errors: deque[str] = deque(maxlen=ERROR_LINES)

    def send(self, data: bytes) -> None:
        """Write to stdin."""
        self._socket.sendall(data)

    def receive(self, timeout: float) -> bytes:
        """Return the next bytes of stdout."""
        deadline = time.monotonic() + timeout
        while header := self._exactly(HEADER, deadline):
            content = self._exactly(int.from_bytes(header[4:], "big"), deadline)
            if header[0] != STDERR:
                return content
            self._errors.extend(content.decode(errors="replace").splitlines())
        return b""

    def _exactly(self, count: int, deadline: float) -> bytes:
        """Return so many bytes; empty if the connection has ended."""
        content = b""
        while len(content) < count:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            piece = self._socket.recv(count - len(content))
            if not piece:
                return b""
            content += piece
        return content

    def last_errors(self) -> str:
        """Return the last lines of stderr."""
        return "\n".join(self._errors)

    def close(self) -> None:
        """End the lab's stdin."""
        self._socket.close()
        self._kept.close()


def _hint(error: DockerException) -> str:
    """Return what to do if it was testcontainers' own container that did not start."""
    if "ryuk" not in str(error):
        return ""
    return "; set TESTCONTAINERS_RYUK_DISABLED=true: this container removes itself, and does not need Ryuk"


def _consecutive_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports.

    Raises:
        SetupError: there are none.

    """
    lowest, highest = bounds()
    starts = range(lowest, highest - count + 1, count)
    for first in random.sample(starts, len(starts)):
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise SetupError(
        f"there are no {count} consecutive free ports between {lowest} and {highest}: stop what uses them"
    )
