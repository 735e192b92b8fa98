"""`quadlog audit run` beside a lab that is disturbed: it finds nothing there, and each forgery within ten seconds.

`TEST_AUDIT_S` is the time of the load, in seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from producers.agreed import AgreedProducer
from producers.effects import EffectsProducer
from producers.status import StatusProducer
from quadlog import codec
from quadlog.broker import KafkaOutlet, end_of
from quadlog.compare.violations import violations_in
from quadlog.core.model import hash_of
from quadlog.core.records import Effect, Heartbeat, LoggedEntry, Violation, ViolationKind
from quadlog.topics import Topics
from tests.support.brokers import never
from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import ending
from tests.support.histories.nemesis import Nemesis
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOAD_S: Final = float(os.environ.get("TEST_AUDIT_S", "120"))
FOUND_S: Final = 10.0
"""Within which a forgery has to be reported."""
STARTED_S: Final = 60.0
"""For Spark to start, and to compare what is there."""


class AuditProcess:
    """The command, which may be killed and started again."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        """Not started."""
        self.dcs: Final[list[dict[str, Any]]] = cluster.lab.dcs
        self.repository, self.directory = cluster.lab.repository, directory
        self.output: Final = directory.with_name("audit.log")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def topic(self) -> str:
        return Topics(self.repository, self.dcs[0]["name"]).audit

    def start(self) -> None:
        kafkas = [word for dc in self.dcs for word in ("--kafka", f"{dc['name']}={dc['kafka']}")]
        command = [sys.executable, "-m", "quadlog", "audit", "run", str(self.directory), *kafkas]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--repository", self.repository], stdout=output, stderr=output
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def found(self) -> list[Violation]:
        return violations_in(self.dcs[0]["kafka"], self.topic)

    def batch(self) -> int:
        """Number of the newest batch; -1: there is none."""
        names = [file.name for file in (self.directory / "state").glob("*")]
        return max((int(name) for name in names if name.isdecimal()), default=-1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both sides of a split go on, so that there are branches."""
    with BROKERS.lab(
        tmp_path_factory.mktemp("audit") / "lab",
        dcs=3,
        workers=2,
        settings=["max-peer-lag=2", "split-recovery=Smart"],
    ) as lab:
        yield Cluster(lab)


@pytest.fixture(scope="module")
def audit(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditProcess]:
    running = AuditProcess(cluster, tmp_path_factory.mktemp("audit") / "directory")
    running.start()
    yield running
    running.kill()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_nothing_is_found_while_masters_die_and_links_are_cut(cluster: Cluster, audit: AuditProcess) -> None:
    """Nor where the audit itself is killed, and continues."""
    stop, chance = threading.Event(), Random(7)
    nemesis = Nemesis(cluster, chance, stop, 8.0, 6.0)
    disturbing = threading.Thread(target=nemesis.run)
    until(lambda: audit.batch() >= 0, STARTED_S)
    with appending(cluster) as appends:
        disturbing.start()
        began, kills = time.monotonic(), 0
        while time.monotonic() - began < LOAD_S:
            time.sleep(min(LOAD_S / 3, 60.0))
            audit.kill()
            kills += 1
            batch = audit.batch()
            audit.start()
            until(lambda batch=batch: audit.batch() > batch, STARTED_S)  # type: ignore[misc]
        stop.set()
        disturbing.join()
        cluster.heal()
        end = ending(cluster, appends, time.monotonic())
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.amiss == Amiss()
    print(
        f"{kills} kills of the audit, batch {audit.batch()}, {dict(nemesis.counts)}, {len(appends.acknowledged)}"
    )
    batch = audit.batch()
    until(lambda: audit.batch() > batch + 8, STARTED_S)  # what waits is overdue
    assert audit.found() == []
    assert sum(nemesis.counts[kind] for kind in ("kill", "pause", "cut", "isolate")) > 3


def newest(kafka: str, topic: str, kind: type[Any]) -> Any:  # noqa: ANN401 - of this kind
    """The newest record of a kind, which has one chunk."""
    _, records = end_of(kafka, topic, count=50)
    return next(said for record in reversed(records) if isinstance(said := codec.decode(record.value), kind))


@pytest.mark.soak
def test_each_forgery_is_found_within_ten_seconds(cluster: Cluster, audit: AuditProcess) -> None:
    """Each once, also over a kill."""
    assert cluster.update("INSERT DATA { <urn:audit> <urn:is> 1 }").is_success
    cluster.wait_until_equal()
    topics = [(dc["kafka"], Topics(audit.repository, dc["name"])) for dc in audit.dcs]
    [(kafka1, dc1), (kafka2, dc2), (kafka3, dc3)] = topics
    outlets = {kafka: KafkaOutlet(kafka, client="forger", failed=never) for kafka, _ in topics}
    last: LoggedEntry = newest(kafka2, dc2.agreed, LoggedEntry)
    effect: Effect = newest(kafka3, dc3.effects, Effect)
    beat: Heartbeat = newest(kafka1, dc1.status, Heartbeat)
    until(lambda: audit.batch() >= 0, STARTED_S)

    def expect(kind: ViolationKind) -> None:
        for outlet in outlets.values():
            outlet.flush()
        began = time.monotonic()
        until(lambda: kind in {one.kind for one in audit.found()}, FOUND_S)
        print(f"{kind} after {time.monotonic() - began:.1f} s")

    StatusProducer(outlets[kafka1], dc1.status).publish(replace(beat, signature=hash_of(b"wrong")))
    expect(ViolationKind.WRONG_STATE)
    forger = EffectsProducer(outlets[kafka3], dc3.effects, "w9", "dc3")
    forger.publish(replace(effect, inserted=("<urn:forged> <urn:p> <urn:o> .",)), at=0)
    expect(ViolationKind.FORGED_EFFECT)
    agreed = AgreedProducer(outlets[kafka2], dc2.agreed, "m9")
    agreed.publish(replace(last, body=b"DROP ALL"), lambda _: None)
    expect(ViolationKind.FORGED_ENTRY)
    agreed.publish(replace(last, index=last.index + 2, previous=last.chain), lambda _: None)
    expect(ViolationKind.MISSING_ENTRY)
    audit.kill()
    before = audit.batch()
    audit.start()
    until(lambda: audit.batch() > before + 8, STARTED_S)
    found = Counter((one.kind, one.topic, one.offset) for one in audit.found())
    assert set(found.values()) == {1}
    report = [sys.executable, "-m", "quadlog", "audit", "report", "--kafka", f"dc1={kafka1}", "--json"]
    said = subprocess.run([*report, "--repository", audit.repository], check=False, capture_output=True)
    assert (said.returncode, len(said.stdout.splitlines())) == (1, len(found))
    assert {json.loads(line)["kind"] for line in said.stdout.splitlines()} >= {"FORGED_ENTRY", "WRONG_STATE"}
    for outlet in outlets.values():
        outlet.close()
