"""A worker is started beside the others, is fed, serves, is stopped and dismissed, while the cluster runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from quadlog.kafka.ports import free_ports
from quadlog.lab.processes import LAB_ID
from tests.support.clusters.cluster import HTTP, Cluster, recount, until
from tests.support.clusters.trouble import reads_served, told
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

NEW = "dc1-w3"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("go") / "lab"
    with BROKERS.lab(directory, dcs=1, masters=2, workers=1) as running:
        yield Cluster(running)


@contextmanager
def one_more(lab: Cluster, path: Path) -> Iterator[str]:
    """A worker as an operator starts it; its URL."""
    directory = lab.lab.directory
    settings = tomllib.loads((directory / "nodes" / "dc1-w1" / "worker.toml").read_text())
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings |= {"node-id": NEW, "port": port, "data-dir": str(path / "data"), "worker-url": url}
    file = path / "worker.toml"
    file.write_text("".join(f"{key} = {value!r}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "quadlog", "worker", "--config", str(file)]
    with subprocess.Popen(command, env=os.environ | {LAB_ID: lab.lab.lab_id}) as process:
        try:
            yield url
        finally:
            process.terminate()


def states(lab: Cluster, master: int = 0) -> dict[str, str]:
    return {worker["id"]: worker["state"] for worker in lab.status(master)["workers"]}


def dismiss(lab: Cluster, worker: str, master: int = 0) -> httpx.Response:
    return HTTP.delete(f"{lab.masters[master]}/cluster/workers/{worker}")


def until_serving(lab: Cluster, worker: str) -> None:
    until(lambda: all(states(lab, master).get(worker) == "serving" for master in (0, 1)))


def until_it_is(lab: Cluster, master: int, *, serving: set[str]) -> None:
    """Each master hears of workers by itself."""
    until(lambda: {worker for worker, state in states(lab, master).items() if state == "serving"} == serving)


def test_it_is_fed_serves_and_goes(lab: Cluster, tmp_path: Path) -> None:
    for number in range(50):
        assert lab.update(f"INSERT DATA {{ <urn:s{number}> <urn:p> {number} }}").status_code == 204
    with reads_served(lab):
        with one_more(lab, tmp_path) as url:
            until_serving(lab, NEW)
            refused = dismiss(lab, NEW)
            assert (refused.status_code, refused.json()["error"]) == (409, "StillServing")
            assert lab.update("INSERT DATA { <urn:s50> <urn:p> 50 }").status_code == 204
            index = lab.wait_until_equal()
            until(lambda: HTTP.get(f"{url}/status").json()["applied_index"] >= index)
            assert recount(url) == recount(lab.workers["dc1-w1"])
            lab.lab.kill("dc1-w1", "TERM")  # it has the reads, and evaluates
            assert lab.update("INSERT DATA { <urn:s51> <urn:p> 51 }").status_code == 204
            lab.lab.start("dc1-w1")
            lab.wait_until_equal()  # a worker that was away serves from where it was, and nothing later
            told(lab)
        told(lab, f"worker-stopped {NEW}")
        for master in (0, 1):
            until_it_is(lab, master, serving={"dc1-w1"})
            assert dismiss(lab, NEW, master).status_code == 204
            assert states(lab, master) == {"dc1-w1": "serving"}
        told(lab)
        unknown = dismiss(lab, NEW)
        assert (unknown.status_code, unknown.json()["error"]) == (404, "NoSuchWorker")
    assert lab.wait_until_equal() == index + 1
