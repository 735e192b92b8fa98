"""Memory of one large transaction: how far each process grows, in times the payload.

    python -m tests.bench.memory [MEGABYTES …] [--sparql] [--blank]

One data centre, a master and two workers, an empty store each time; a patch of lines of some 110 bytes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import httpx

from quadlog.settings.units import MIB
from tests.support.labs import RunningLab, running_lab

LINE = "<http://data.example.org/thing/{0}> <http://data.example.org/property> {1} <http://data.example.org/graph> ."


def payload(size: int, *, sparql: bool, blank: bool) -> bytes:
    """A patch, or the same as INSERT DATA."""
    lines: list[str] = []
    length, number = 0, 0
    while length < size:
        value = f"_:b{number}" if blank else f'"value {number:08}"'
        line = "A " + LINE.format(number, value)
        if sparql:
            line = f"<http://data.example.org/thing/{number}> <http://data.example.org/property> {value} ."
        lines.append(line)
        length += len(line) + 1
        number += 1
    text = "\n".join(lines)
    return (
        f"INSERT DATA {{ GRAPH <http://data.example.org/graph> {{ {text} }} }}" if sparql else text
    ).encode()


def memory_of(pid: int) -> tuple[int, int]:
    """Resident bytes now, and at most since `forget`."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = {line.split(":")[0]: line.split()[1] for line in status if line.startswith(("VmRSS", "VmHWM"))}
    return int(values["VmRSS"]) * 1024, int(values["VmHWM"]) * 1024


def forget(pid: int) -> None:
    """The most that it had is what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def measure(lab: RunningLab, body: bytes, media_type: str) -> None:
    """Send it, wait until both workers have it, print how far each grew."""
    url = lab.masters[0]["url"]
    first = {"Content-Type": "application/sparql-update"}
    assert httpx.post(f"{url}/update", content="INSERT DATA { <urn:a> a 1 }", headers=first).is_success
    processes = {p["id"]: p["pid"] for p in (*lab.masters, *lab.workers)}
    for pid in processes.values():
        forget(pid)
    before = {name: memory_of(pid)[0] for name, pid in processes.items()}
    began = time.monotonic()
    headers = {"Content-Type": media_type, "Idempotency-Key": "large"}
    answer = httpx.post(f"{url}/update", content=body, headers=headers, timeout=120)
    answered = time.monotonic() - began
    evaluating = wait_for(lab, url)
    took = time.monotonic() - began
    size = f"{len(body) / MIB:.0f} MiB of {media_type}"
    print(f"{size}: {answer.status_code} after {answered:.1f} s, everywhere after {took:.1f} s")
    for name, pid in processes.items():
        role = "evaluates" if name == evaluating else "follows" if "-w" in name else "master"
        grew, had = memory_of(pid)[1] - before[name], before[name] / MIB
        print(
            f"  {name} ({role}): {had:.0f} + {grew / MIB:.0f} MiB, {grew / len(body):.1f} times", flush=True
        )


def wait_for(lab: RunningLab, url: str) -> str:
    """Until all workers have it; which of them evaluates."""
    while (found := httpx.get(f"{url}/tx/large", timeout=60).json())["state"] != "applied":
        assert found["state"] == "pending", found
        time.sleep(0.1)
    evaluating = ""
    for worker in lab.workers:
        while (status := httpx.get(f"{worker['url']}/status", timeout=60).json())["applied_index"] < found[
            "index"
        ]:
            time.sleep(0.1)
        evaluating = worker["id"] if status["evaluating"] else evaluating
    return evaluating


def main() -> None:
    """One lab for each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("megabytes", nargs="*", type=int, default=[32, 64])
    parser.add_argument("--sparql", action="store_true")
    parser.add_argument("--blank", action="store_true")
    asked = parser.parse_args()
    media_type = "application/sparql-update" if asked.sparql else "application/rdf-patch"
    for megabytes in asked.megabytes:
        body = payload(megabytes * MIB - 200, sparql=asked.sparql, blank=asked.blank)
        with (
            tempfile.TemporaryDirectory(prefix="quadlog-memory-") as place,
            running_lab(Path(place) / "lab", dcs=1, workers=2) as lab,
        ):
            measure(lab, body, media_type)


if __name__ == "__main__":
    main()
