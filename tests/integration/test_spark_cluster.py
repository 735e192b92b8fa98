"""Compaction on a cluster of Spark: its own master and worker, as they come with PySpark, and quadlog as a wheel."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from quadlog.errors import SparkFailed
from quadlog.kafka.java import find_java
from quadlog.kafka.ports import free_ports
from quadlog.leash import leashed
from quadlog.replay import compact
from quadlog.replay.bundle import BundleManifest
from quadlog.replay.compact import CompactOptions, run_compact
from quadlog.replay.replay import CompactedRange, Compaction
from quadlog.replay.spark import SparkSettings
from quadlog.topics import Topics
from tests.support.clusters.cluster import until
from tests.support.labs import QUICK_JAVA, quadlog
from tests.support.masters.random_effects import RandomTopic
from tests.support.workers.replayed import agreed_for, produced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
SPARK_ENV = {"SPARK_HOME": str(SPARK), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}

WHERE = """
import sys
from quadlog.replay.spark import SparkSettings, session

def where(_):
    import quadlog, schemas
    assert "quadlog.Effect" in schemas.record_name(29)
    return quadlog.__file__

with session(SparkSettings(master=sys.argv[1], py_files=(sys.argv[2],)), print) as spark:
    print(spark.sparkContext.parallelize([0], 1).map(where).collect()[0])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [found] = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def spark_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the cluster is."""
    directory = tmp_path_factory.mktemp("spark")
    port, web, worker_web = free_ports(3)
    url = f"spark://127.0.0.1:{port}"
    java = [find_java().program, "-cp", f"{SPARK}/jars/*"]
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
    worker = ["--host", "127.0.0.1", "--webui-port", str(worker_web), "--cores", "2", "--memory", "1g"]
    commands = [
        [*java, "org.apache.spark.deploy.master.Master", *master],
        [*java, "org.apache.spark.deploy.worker.Worker", *worker, "--work-dir", str(directory), url],
    ]
    with ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((directory / f"{number}.log").open("w"))
            process = subprocess.Popen(
                leashed(command),
                stdout=log,
                stderr=log,
                env=os.environ | SPARK_ENV | QUICK_JAVA,
            )
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)

        def has_worker() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
                    return b'"aliveworkers" : 1' in answer.read()
            except OSError:
                return False

        until(has_worker, 60)
        yield url


@pytest.mark.soak
def test_executors_have_quadlog_of_the_wheel(spark_master: str, wheel: Path) -> None:
    command = [sys.executable, "-c", WHERE, spark_master, str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"{wheel.stem}.zip" in done.stdout


@pytest.mark.long("a cluster of Spark of its own")
def test_a_bundle_is_made_on_a_cluster(spark_master: str, wheel: Path, kafka: str, tmp_path: Path) -> None:
    """By the command, as an operator has it."""
    topic = RandomTopic(random.Random(4))
    while topic.index < 50:
        topic.say()
    effects = produced(kafka, topic.records, "bundled.dc1.effects")
    agreed_for(kafka, topic.effects, "bundled.dc1.agreed")
    assert effects == "bundled.dc1.effects"
    options = {
        "--kafka": kafka,
        "--dc": "dc1",
        "--repository": "bundled",
        "--spark": spark_master,
        "--py-files": str(wheel),
    }
    words = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "quadlog", "compact", str(tmp_path / "bundle"), *words]
    environment = os.environ | QUICK_JAVA
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    manifest = BundleManifest.read(tmp_path / "bundle")
    manifest.verify(tmp_path / "bundle")
    assert manifest.after.index == topic.index
    assert manifest.after.signature == topic.worlds[topic.index].signature()
    assert "effects 1 to 50" in done.stdout


def test_what_is_no_state_is_refused(tmp_path: Path) -> None:
    said = quadlog(
        "compact", str(tmp_path / "bundle"), "--kafka", "127.0.0.1:1", "--dc", "dc1", "--applied", "7,x"
    )
    assert (said.returncode, said.stderr.split(":")[:2]) == (
        1,
        ["UserError", " --applied is no state of a store"],
    )
    assert not list(tmp_path.iterdir())


def test_a_job_that_fails_is_one_message(
    spark: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Spark's own: here it is asked for something else."""
    topics = Topics("failing", "dc1")
    for topic in (topics.effects, topics.agreed):
        produced(kafka, [], topic)

    def failing(job: Compaction, *_: object) -> None:
        job._spark.sql("SELECT raise_error('there is no space')").collect()

    monkeypatch.setattr(Compaction, "write", failing)
    monkeypatch.setattr(compact, "session", lambda *_: nullcontext(spark))
    wanted = CompactOptions(
        kafka=kafka, topics=topics, target=tmp_path / "bundle", range=CompactedRange(), spark=SparkSettings()
    )
    with pytest.raises(
        SparkFailed, match=r"a job of Spark failed, and there is no bundle: .*there is no space"
    ):
        run_compact(wanted, print)
    assert not list(tmp_path.iterdir())
