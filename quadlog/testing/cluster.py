"""A cluster with faults, with one interface on containers and on processes.

Both run the same lab, whose relays carry all that passes between data centres: it is cut, delayed and limited in the
same way on both.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http import HTTPStatus
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast, get_args

import httpx

from quadlog.errors import SetupError, UserError
from quadlog.testing.attached_lab import AttachedLab, LabProcess, lab_arguments
from quadlog.testing.container import QuadlogContainer, docker_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

Backend = Literal["auto", "docker", "processes"]
BACKEND: Final = "TEST_QUADLOG_BACKEND"
"""Environment variable that decides where a cluster runs whose backend is `auto`."""
DESCRIBE: Final = {"do": "describe"}
"""Request to the lab, for its addresses; without a lab it fails."""
EQUAL_TIMEOUT: Final = 60.0
POLL_S: Final = 0.05
REQUEST_TIMEOUT: Final = 10.0
STATE_TIMEOUT: Final = 2.0
"""Seconds for a state, which a process that is not suspended answers at once."""


@dataclass(frozen=True, slots=True)
class AppliedState:
    """State of a worker's store: equal at equal indexes, whatever happened on the way."""

    index: int
    """Index of the last transaction that is applied."""
    signature: str
    """Sum of blake2b-256 over the lines of all quads, modulo 2^256, in hex."""


class QuadlogCluster:
    """Data centres with a Kafka, masters and workers each.

    Processes have names: `dc1-m1` is a master, `dc1-w2` a worker, `broker-dc1` the Kafka of dc1, and `links` carries
    what passes between data centres.

        with QuadlogCluster(dcs=3, settings={"max-peer-lag": 3}) as cluster:
            cluster.cut("dc1", "dc3")
            httpx.post(f"{cluster.urls['dc1-m1']}/update", data={"update": "INSERT DATA { <urn:a> a <urn:B> }"})
            cluster.heal()
            cluster.wait_equal()
    """

    def __init__(
        self,
        dcs: int = 3,
        masters: int = 1,
        workers: int = 2,
        settings: Mapping[str, object] | None = None,
        *,
        backend: Backend = "auto",
        image: str | None = None,
    ) -> None:
        """Prepare a cluster; `open`, or entering the context, starts it.

        Args:
            dcs: number of data centres.
            masters: number of masters in each.
            workers: number of workers in each.
            settings: settings of masters and workers by their names, such as `max-peer-lag`.
            backend: `docker`: in a container; `processes`: on this machine, which needs Java; `auto`: as
                `TEST_QUADLOG_BACKEND` says, else in a container if a Docker daemon answers.
            image: image for containers; None: `QUADLOG_IMAGE`, or `quadlog`.

        Raises:
            UserError: there is no such backend.

        """
        named = os.environ.get(BACKEND, "auto") if backend == "auto" else backend
        if named not in get_args(Backend):
            raise UserError(
                f"{named!r} is no backend: {BACKEND}, or backend=…, is one of {', '.join(get_args(Backend))}"
            )
        self._backend: Backend = cast("Backend", named)
        self._shape: dict[str, Any] = {
            "dcs": dcs,
            "masters": masters,
            "workers": workers,
            "settings": settings,
        }
        self._image = image
        self._stack = ExitStack()
        self._lab: AttachedLab | None = None
        self._down: set[str] = set()
        """Processes that were killed or paused by this object, and not started again."""
        self.urls: dict[str, str] = {}
        """URLs of masters and workers by their names, from `open` on."""
        self.kafka: dict[str, str] = {}
        """Bootstrap servers by data centre, from `open` on."""
        self.workers: tuple[str, ...] = ()
        """Names of all workers."""
        self.masters: tuple[str, ...] = ()
        """Names of all masters."""

    @property
    def backend(self) -> Backend:
        """Where it runs; `auto` is decided by `open`."""
        return self._backend

    def open(self) -> None:
        """Start the cluster, and wait until all masters take writes and all workers serve.

        Raises:
            SetupError: Docker, the image or Java is missing, or something did not start; nothing is left running.
            UserError: there is no such cluster, or no such setting.

        """
        if self._backend == "auto":
            self._backend = "processes" if docker_error() else "docker"
        try:
            if self._backend == "docker":
                container = QuadlogContainer(self._image, **self._shape)
                self._lab = self._stack.enter_context(container).lab
            else:
                process = self._stack.enter_context(closing(LabProcess(lab_arguments(**self._shape))))
                self._lab = AttachedLab(process)
            self._http = self._stack.enter_context(httpx.Client(timeout=REQUEST_TIMEOUT, trust_env=False))
            self._read(self._ask(DESCRIBE)["lab"]["dcs"])
        except BaseException:
            self.close()
            raise

    def _read(self, dcs: list[dict[str, Any]]) -> None:
        self.kafka = {dc["name"]: dc["kafka"] for dc in dcs}
        self.masters = tuple(node["id"] for dc in dcs for node in dc["masters"])
        self.workers = tuple(node["id"] for dc in dcs for node in dc["workers"])
        self.urls = {node["id"]: node["url"] for dc in dcs for node in (*dc["masters"], *dc["workers"])}

    def close(self) -> None:
        """Stop the cluster, and remove its data."""
        self._lab = None
        self._down.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        """As `open`."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As `close`."""
        self.close()

    # Faults.  All raise UserError for a name that the cluster does not have, and SetupError if it has ended.

    def cut(self, dc1: str, dc2: str, *, one_way: bool = False) -> None:
        """Cut the link between two data centres: nothing passes, connections fall silent, as with a cut cable.

        `one_way`: what `dc1` says no longer reaches `dc2`; `dc1` still hears `dc2`.
        """
        self._link({"do": "cut", "link": [dc1, dc2], "one_way": one_way})

    def heal(self, dc1: str | None = None, dc2: str | None = None) -> None:
        """End the cuts between two data centres, or all; latencies and rates stay.

        Raises:
            UserError: one data centre is given.

        """
        if (dc1 is None) != (dc2 is None):
            raise UserError("a link has two ends: name two data centres, or none to heal all")
        self._link({"do": "heal"} if dc1 is None else {"do": "heal", "link": [dc1, dc2]})

    def link(
        self, dc1: str, dc2: str, *, latency_ms: float | None = None, rate_mbit: float | None = None
    ) -> None:
        """Delay (ms) and limit (Mbit/s) each direction of a link, for open connections too; 0: not at all."""
        self._link({"do": "quality", "link": [dc1, dc2], "latency_ms": latency_ms, "rate_mbit": rate_mbit})

    def _link(self, request: dict[str, Any]) -> None:
        self._ask({"do": "links", "request": request})

    def kill(self, name: str) -> None:
        """Kill a process (SIGKILL), and wait for its end; its data stays."""
        self._signal(name, "KILL")
        self._down.add(name)

    def start(self, name: str) -> None:
        """Start a process that has ended, and wait until it is ready; a master needs a worker of its data centre."""
        self._ask({"do": "start", "id": name})
        self._down.discard(name)

    def pause(self, name: str) -> None:
        """Suspend a process (SIGSTOP)."""
        self._signal(name, "STOP")
        self._down.add(name)

    def resume(self, name: str) -> None:
        """Continue a process that is paused."""
        self._signal(name, "CONT")
        self._down.discard(name)

    def _signal(self, name: str, signal: str) -> None:
        self._ask({"do": "kill", "id": name, "signal": signal})

    # States.

    def signatures(self) -> dict[str, AppliedState]:
        """Return the states of all workers that are not killed or paused, by their names.

        Raises:
            httpx.HTTPError: a worker does not answer.

        """
        self._ask(DESCRIBE)
        return {name: self._applied(name) for name in self.workers if name not in self._down}

    def wait_equal(self, timeout: float = EQUAL_TIMEOUT) -> int:
        """Wait until all masters and workers are at one index, the workers with one signature; return the index.

        Processes that are killed or paused are left out.

        Raises:
            TimeoutError: they are not within `timeout` seconds; the message has their states.

        """
        self._ask(DESCRIBE)
        deadline = time.monotonic() + timeout
        while True:
            states: dict[str, AppliedState | str] = {}
            for name in (*self.masters, *self.workers):
                if name not in self._down:
                    states[name] = self._state(name)
            indexes = {state.index if isinstance(state, AppliedState) else state for state in states.values()}
            signatures = {state for name, state in states.items() if name in self.workers}
            if len(indexes) == 1 and len(signatures) <= 1 and isinstance(index := indexes.pop(), int):
                return index
            if time.monotonic() > deadline:
                raise TimeoutError(f"not equal after {timeout:g} s: {states}")
            time.sleep(POLL_S)

    def _state(self, name: str) -> AppliedState | str:
        """Return the state of a master, without a signature, or of a worker; or why it does not answer."""
        try:
            if name in self.workers:
                return self._applied(name)
            url = f"{self.urls[name]}/cluster/status"
            status = self._http.get(url, timeout=STATE_TIMEOUT).raise_for_status().json()
        except httpx.HTTPError as error:
            return repr(error)
        return AppliedState(status["agreed_index"], "")

    def _applied(self, worker: str) -> AppliedState:
        status = (
            self._http.get(f"{self.urls[worker]}/status", timeout=STATE_TIMEOUT).raise_for_status().json()
        )
        return AppliedState(status["applied_index"], status["signature"])

    def reset(self) -> None:
        """Make the cluster as it was at its start, but for the log: the next test continues it.

        Links are healed and fast, killed and paused processes run, there are no quads, no named graphs and no controls.
        The index goes on, idempotency keys stay known, and settings that were changed by an entry stay.

        Raises:
            SetupError: a process has ended by itself, or the cluster takes no writes.
            TimeoutError: the workers do not become equal.

        """
        self._mend()
        url = self.urls[self.masters[0]]
        for control in self._until_accepted("GET", f"{url}/controls").json()["controls"]:
            self._until_accepted("DELETE", f"{url}/controls/{control['name']}")
        self._until_accepted("POST", f"{url}/update", data={"update": "DROP ALL"})
        self.wait_equal()

    def _mend(self) -> None:
        """Continue what was paused, heal all links, and start what was killed."""
        nodes = self._ask({"do": "status"})["nodes"]
        for node in nodes:
            if node["state"] != "running" and node["id"] not in self._down:
                raise SetupError(
                    f"{node['id']} has ended by itself, {node['state']}: the cluster is unusable, begin a new one"
                )
        ended: dict[str, list[str]] = {node["kind"]: [] for node in nodes}
        for node in nodes:
            if node["state"] == "stopped":
                self.resume(node["id"])
            elif node["state"] != "running":
                ended[node["kind"]].append(node["id"])
        for name in ended.get("links", []):
            self.start(name)
        self._restore_links()
        for kind in ("broker", "worker", "master"):  # a master is ready when its data centre can read
            for name in ended.get(kind, []):
                self.start(name)

    def _restore_links(self) -> None:
        if len(self.kafka) > 1:
            self.heal()
        for dc1, dc2 in combinations(self.kafka, 2):
            self.link(dc1, dc2, latency_ms=0, rate_mbit=0)

    def _until_accepted(self, method: str, url: str, **body: Any) -> httpx.Response:  # noqa: ANN401  as httpx has them
        """Repeat a request that may be repeated until it succeeds: after a cut, some seconds pass before it can."""
        deadline = time.monotonic() + EQUAL_TIMEOUT
        while True:
            try:
                said = self._http.request(method, url, **body)
            except httpx.HTTPError as error:
                why = repr(error)
            else:
                if said.is_success or (method, said.status_code) == ("DELETE", HTTPStatus.NOT_FOUND):
                    return said
                why = f"{said.status_code} {said.text}"
            if time.monotonic() > deadline:
                raise SetupError(f"{method} {url} was not accepted within {EQUAL_TIMEOUT:g} s: {why}")
            time.sleep(POLL_S)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._lab is None:
            raise SetupError("the cluster is not open: use it in a with statement, or call open()")
        return self._lab.ask(request)
