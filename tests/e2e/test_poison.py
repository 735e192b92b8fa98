"""An update that no worker survives: it is rejected everywhere, and everything else goes on."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

import pytest

from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, ask, evaluating, index_of, name, until
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

TIMEOUT_S = 2
MIB = 1024 * 1024
ENVIRONMENT = {
    "QUADLOG_UPDATE_TIMEOUT": str(TIMEOUT_S),
    "QUADLOG_CONTROL_TIMEOUT": str(TIMEOUT_S),
    "QUADLOG_UPDATE_MEMORY": str(64 * MIB),  # eaten before the time is over, also on a busy machine
}
SEED = "INSERT DATA { " + " ".join(f"<urn:s{n}> <urn:poison> {n} ." for n in range(60)) + " }"
CROSS = " ".join(f"?a{n} <urn:poison> ?b{n} ." for n in range(12))
ENDLESS = f"INSERT {{ <urn:x> <urn:n> ?n }} WHERE {{ SELECT (COUNT(*) AS ?n) {{ {CROSS} }} }}"
HUNGRY = f"INSERT {{ ?a0 <urn:n> ?b0 }} WHERE {{ SELECT ?a0 ?b0 {{ {CROSS} }} ORDER BY ?b1 ?b2 ?b3 }}"
ENDLESS_ASK = f"ASK {{ {{ SELECT (COUNT(*) AS ?n) {{ {CROSS} }} }} FILTER(?n > 0) }}"
ENDLESS_ONCE = f"""@prefix sh: <http://www.w3.org/ns/shacl#> .
<urn:S> a sh:NodeShape ; sh:targetClass <urn:Trigger> ; sh:sparql [ sh:select '''
SELECT $this WHERE {{ $this a <urn:Trigger> . {CROSS} FILTER({" + ".join(f"?b{n}" for n in range(12))} < 0) }}''' ] .
"""
"""Ends as long as there is no trigger."""


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two data centres whose workers give an update little time and memory."""
    directory = tmp_path_factory.mktemp("poison") / "lab"
    with BROKERS.lab(directory, dcs=2, workers=2, environment=ENVIRONMENT) as lab:
        cluster = Cluster(lab)
        assert cluster.update(SEED).status_code == 204
        yield cluster


class Reader:
    """Reads at a master as fast as it answers, in a thread of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[int] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:  # noqa: D105
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:  # noqa: D105
        self._stopping.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stopping.wait(0.02):
            self.answers.append(ask(self.url, "ASK { <urn:s1> <urn:poison> 1 }").status_code)


def rejected(answer: httpx.Response, reason: str) -> None:
    assert answer.status_code == 409, answer.text
    assert reason in answer.json()["message"]


def goes_on(cluster: Cluster, *, more_than: int) -> None:
    """The next update has the next index, and all are equal."""
    answer = cluster.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", master=1)
    assert answer.status_code == 204, answer.text
    assert index_of(answer) == more_than + 1
    assert cluster.wait_until_equal() == more_than + 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [(ENDLESS, "evaluator-timeout"), (HUNGRY, "evaluator-memory")],
    ids=["endless", "hungry"],
)
def test_an_update_above_its_limits_is_rejected_everywhere(
    impatient: Cluster, text: str, reason: str
) -> None:
    before = impatient.wait_until_equal()
    pids = {worker["id"]: worker["pid"] for worker in impatient.lab.workers}
    with Reader(impatient.masters[0]) as reader, Reader(impatient.masters[1]) as elsewhere:
        answer = impatient.update(text, master=1)
    rejected(answer, reason)
    assert set(reader.answers + elsewhere.answers) == {200}
    assert min(len(reader.answers), len(elsewhere.answers)) > 20
    elsewhere_too = f"{impatient.masters[0]}{answer.headers['Location']}"
    until(lambda: HTTP.get(elsewhere_too).json()["state"] != "pending")
    told = HTTP.get(elsewhere_too).json()
    assert (told["state"], told["index"]) == ("rejected", before + 1)
    assert reason in told["reason"]
    assert pids == {worker["id"]: worker["pid"] for worker in impatient.lab.workers}, "all are still there"
    goes_on(impatient, more_than=before + 1)


def test_a_worker_that_is_killed_at_it_has_a_successor_that_survives(impatient: Cluster) -> None:
    before = impatient.wait_until_equal()
    first = evaluating(impatient)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(impatient.update(ENDLESS, master=1)))
    asking.start()
    until(lambda: impatient.status()["agreed_index"] > before)
    impatient.lab.kill(first)
    began = time.monotonic()
    waits = impatient.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}")
    stalled = time.monotonic() - began
    asking.join()
    rejected(answers[0], "evaluator-timeout")
    assert waits.status_code == 204, waits.text
    assert evaluating(impatient) != first
    assert stalled < 2 + TIMEOUT_S + 6, "found dead, tried, rejected; with room for a slow machine"
    print(f"others waited {stalled:.1f} s: 2 s until it was found dead, {TIMEOUT_S} s for the trial")
    impatient.lab.start(first)
    goes_on(impatient, more_than=before + 2)


def put(cluster: Cluster, text: str, media_type: str) -> httpx.Response:
    return HTTP.put(
        f"{cluster.masters[1]}/controls/poison", content=text, headers={"Content-Type": media_type}
    )


def test_a_control_that_never_ends_is_not_set(impatient: Cluster) -> None:
    before = impatient.wait_until_equal()
    pids = {worker["id"]: worker["pid"] for worker in impatient.lab.workers}
    with Reader(impatient.masters[0]) as reader:
        rejected(put(impatient, ENDLESS_ASK, "application/sparql-query"), "control poison: control-timeout")
    assert set(reader.answers) == {200}
    assert HTTP.get(f"{impatient.masters[0]}/controls").json() == {"controls": []}
    assert pids == {worker["id"]: worker["pid"] for worker in impatient.lab.workers}, "all are still there"
    goes_on(impatient, more_than=before + 1)


def test_an_update_that_makes_a_control_endless_is_rejected(impatient: Cluster) -> None:
    """Those that come after it, and do not, are not; the control can be deleted."""
    before = impatient.wait_until_equal()
    assert put(impatient, ENDLESS_ONCE, "text/turtle").status_code == 204
    impatient.wait_until_equal()  # it is set by a master of the other data centre
    update, updates = "INSERT DATA { <urn:x> a <urn:Trigger> }", f"{impatient.masters[0]}/update"
    dry = HTTP.post(f"{updates}?dry-run=true", content=update, headers=UPDATE).json()
    assert dry["outcome"] == "REJECTED"
    assert dry["reason"].startswith("control poison: control-timeout")
    rejected(impatient.update(update), "control poison: control-timeout")
    goes_on(impatient, more_than=before + 2)
    assert HTTP.delete(f"{impatient.masters[0]}/controls/poison").status_code == 204
    assert impatient.update(update).status_code == 204
    assert impatient.update("DELETE DATA { <urn:x> a <urn:Trigger> }").status_code == 204
    impatient.wait_until_equal()
