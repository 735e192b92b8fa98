"""The archive of Spark's classes: it is made and used, and whatever is wrong with it, Spark starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quadlog.kafka.jars import Jars, cache_directory, pyspark_jars, resolve
from quadlog.kafka.java import Java, find_java
from quadlog.kafka.prepare import named
from quadlog.replay import spark_classes
from quadlog.replay.spark_classes import class_archive
from tests.support.labs import QUICK_JAVA

if TYPE_CHECKING:
    from quadlog.kafka.installation import Installation

JAVA = Java(program="/java", version="17")
SESSION = """
import sys
from quadlog.replay import spark

made, (log, *other) = spark.class_archive, sys.argv[1:]

def classes(*asked):
    own = [f"-XX:SharedArchiveFile={archive}" for archive in other] or made(*asked)
    return *own, "-Xlog:disable", "-Xlog:all=error:stderr", f"-Xlog:class+load:file={log}"

spark.class_archive = classes
with spark.session(spark.SparkSettings(), print) as running:
    assert running.range(5).count() == 5
assert "pandas" not in sys.modules
import pandas
"""
"""Spark counts, and Java says to a file which classes it loads for that, and where it has them from.

With the archive that is there, or another one.  PySpark looks for pandas meanwhile, and is not to have it."""


@pytest.fixture
def jars(tmp_path: Path) -> Jars:
    """A cache without any archive."""
    home = tmp_path / "jars"
    home.mkdir()
    return Jars(home=home, kafka=(), spark=(), w3c=())


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Spark is not run: what would have been written each time."""
    found: list[Path] = []

    def run(_: Installation, about: Path, __: Path, made: Path) -> None:
        made.write_bytes(b"classes" * 1000)
        spark_classes.describe(about, made)
        found.append(made)

    monkeypatch.setattr(spark_classes, "_run_spark", run)
    monkeypatch.setattr(spark_classes, "prepare", prepared)
    return found


def prepared(*_: object, **__: object) -> None:
    """Kafka is not prepared either."""


def loaded(*arguments: str, log: Path) -> list[str]:
    """What Java says of Spark's classes that a session needed."""
    command = [sys.executable, "-c", SESSION, str(log), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=os.environ | QUICK_JAVA
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "cds" not in done.stdout
    return [line for line in log.read_text().splitlines() if " org.apache.spark." in line]


def test_spark_starts_with_the_classes_of_the_archive(tmp_path: Path) -> None:
    """What set-up, or the first session on this machine, has made."""
    lines = loaded(log=tmp_path / "log")
    shared = [line for line in lines if "source: shared objects file (top)" in line]
    from_jars = [line for line in lines if "source: file:" in line]  # others are made as Spark runs
    assert len(shared) > 1000
    assert len(from_jars) < 0.1 * len(shared)


@pytest.mark.soak
def test_a_rehearsal_writes_an_archive(kafka: str, tmp_path: Path) -> None:
    made = tmp_path / "made.jsa"
    command = [sys.executable, "-m", "quadlog.replay.rehearsal", kafka, str(tmp_path), str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "proven" in done.stdout
    assert made.stat().st_size > 100_000_000


@pytest.mark.soak
def test_what_java_does_not_know_is_left_alone(tmp_path: Path) -> None:
    """Another version of Java, say."""
    archive = tmp_path / "other.jsa"
    archive.write_bytes(b"other" * 10_000)
    lines = loaded(str(archive), log=tmp_path / "log")
    assert len(lines) > 1000
    assert not [line for line in lines if "shared objects file (top)" in line]


@pytest.mark.soak
def test_half_of_an_archive_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java would die of it, and here it cannot be made again.

    A start of Spark without an archive, which takes twice as long; that damage is seen: `test_damage_is_seen`.
    """
    java = find_java()
    jars = resolve(cache_directory(), print)
    [whole] = [
        o.partition("=")[2] for o in class_archive(java, jars, cache_directory(), print) if ".jsa" in o
    ]
    home = tmp_path / jars.home.name
    home.mkdir()
    for path in jars.home.iterdir():
        if path.suffix != ".jsa":
            (home / path.name).symlink_to(path)
    content = Path(whole).read_bytes()
    (home / Path(whole).name).write_bytes(content[: len(content) // 2])
    (tmp_path / "lock").mkdir()
    monkeypatch.setenv("QUADLOG_CACHE", str(tmp_path))
    lines = loaded(log=tmp_path / "log")
    assert len(lines) > 1000
    assert not [line for line in lines if "shared objects file (top)" in line]


def test_an_archive_is_made_once(jars: Jars, runs: list[Path]) -> None:
    first, second = (class_archive(JAVA, jars, jars.home.parent, print) for _ in range(2))
    assert len(runs) == 1
    assert first == second
    assert f"-XX:SharedArchiveFile={archive_in(jars)}" in first


def test_two_at_once_make_one(jars: Jars, runs: list[Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(class_archive, JAVA, jars, jars.home.parent, print) for _ in range(4)]
    found = {one.result() for one in asked}
    assert len(runs) == 1
    assert len(found) == 1


def test_another_java_has_another_archive(jars: Jars, runs: list[Path]) -> None:
    options = {class_archive(Java(program="/java", version=v), jars, jars.home.parent, print) for v in "12"}
    assert len(runs) == len(options) == 2


@pytest.mark.parametrize("rest", [b"?" + 3999 * b"s", b""])
def test_damage_is_seen(
    jars: Jars, runs: list[Path], rest: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Java looks at the head alone."""
    class_archive(JAVA, jars, jars.home.parent, print)
    archive = archive_in(jars)
    whole = archive.read_bytes()
    archive.write_bytes(whole[:3000] + rest)
    assert class_archive(JAVA, jars, jars.home.parent, print)
    assert "is damaged" in capsys.readouterr().out
    assert archive.read_bytes() == whole
    assert len(runs) == 2


def test_a_pyspark_that_is_installed_anew_has_a_new_archive(
    jars: Jars,
    runs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same files at the same place, of another time: Java would not take the archive, and say nothing."""
    installed = tmp_path / "pyspark"
    installed.mkdir()
    (installed / "spark.jar").write_bytes(b"classes")
    monkeypatch.setattr(spark_classes, "pyspark_jars", lambda: installed)
    class_archive(JAVA, jars, jars.home.parent, print)
    os.utime(installed / "spark.jar", (0, 0))
    for _ in range(2):
        assert class_archive(JAVA, jars, jars.home.parent, print)
    assert "before PySpark was installed again: it is made again" in capsys.readouterr().out
    assert len(runs) == 2


def test_a_cache_that_cannot_be_written_means_a_slower_start(
    jars: Jars, runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (jars.home.parent / "lock").mkdir()
    assert class_archive(JAVA, jars, jars.home.parent, print) == ()
    assert "more slowly: the cache" in capsys.readouterr().out
    assert not runs


def test_what_failed_is_not_tried_at_every_start(
    jars: Jars, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[int] = []

    def run(*_: object) -> None:
        tried.append(1)
        raise subprocess.CalledProcessError(1, "rehearsal")

    monkeypatch.setattr(spark_classes, "_run_spark", run)
    monkeypatch.setattr(spark_classes, "prepare", prepared)
    assert [class_archive(JAVA, jars, jars.home.parent, print) for _ in range(2)] == [(), ()]
    assert len(tried) == 1
    assert f"remove {archive_in(jars)} to have it tried again" in capsys.readouterr().out


def test_archives_of_what_is_gone_are_removed(jars: Jars, runs: list[Path]) -> None:
    for name, of in (("gone", jars.home / "gone"), ("there", jars.home)):
        (jars.home / f"spark-{name}.jsa").write_bytes(b"classes")
        (jars.home / f"spark-{name}.json").write_text(json.dumps({"crc32": 0, "of": str(of)}))
    class_archive(JAVA, jars, jars.home.parent, print)
    assert len(runs) == 1
    assert sorted(jars.home.glob("*.jsa")) == sorted([jars.home / "spark-there.jsa", archive_in(jars)])


def archive_in(jars: Jars) -> Path:
    """Where `JAVA` has it."""
    return jars.home / f"spark-{named(JAVA, str(pyspark_jars()))}.jsa"
