"""Kafka's jars, Spark's Kafka connectors and the W3C's tests of SPARQL, resolved once into a cache of the user.

The resolver is the Ivy inside pyspark, with its default settings: this module names no registry.  Layout of the
cache, which several checkouts can share:

    lock                           locked while anything below is made
    ivy/                           Ivy's own downloads
    jars-<key>/kafka/*.jar         a broker's and the console tools' class path
    jars-<key>/spark/*.jar         jars for Spark that pyspark does not contain
    jars-<key>/w3c/*.jar           the W3C's test suites as RDF4J ships them: files, no classes
    jars-<key>/versions.json       the marker: coordinates, file names and sizes
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from quadlog.errors import SetupError
from quadlog.leash import leashed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from quadlog.kafka.java import Java

KAFKA = "4.3.1"
SPARK = "4.0.0"
COORDINATES = {
    "kafka": [
        f"org.apache.kafka:kafka_2.13:{KAFKA}",
        f"org.apache.kafka:kafka-tools:{KAFKA}:alone",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    ],
    "spark": [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK}",
        f"org.apache.spark:spark-avro_2.13:{SPARK}",
    ],
    "w3c": ["org.eclipse.rdf4j:rdf4j-sparql-testsuite:5.1.0:alone"],
}
"""organisation:module:version; with `alone`, dependencies are left out."""
ATTEMPTS = 2
"""A second attempt is enough after a short network failure: Ivy keeps what it has downloaded."""
LAST_LINES = 12
SAY_INTERVAL = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """Paths of the resolved jars."""

    home: Path
    kafka: tuple[Path, ...]
    spark: tuple[Path, ...]
    w3c: tuple[Path, ...]


def cache_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return QUADLOG_CACHE, or ~/.cache/quadlog."""
    environment = os.environ if environ is None else environ
    named = environment.get("QUADLOG_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "quadlog").absolute()


def resolve(cache: Path, java: Java, say: Callable[[str], None]) -> Jars:
    """Return the jars; download them first if the cache does not have them.

    Raises:
        SetupError: the cache cannot be written, or the download fails.

    """
    home = cache / f"jars-{_key()}"
    found = _read(home)
    if found is not None:
        return found
    with locked(cache, say):
        found = _read(home)  # another process may have made it while this one waited
        if found is None:
            _resolve_into(home, java, say)
            found = _read(home)
    if found is None:
        message = f"{home} was just made and is not complete: remove it and try again"
        raise SetupError(message)
    return found


@contextmanager
def locked(cache: Path, say: Callable[[str], None]) -> Generator[None]:
    """Hold the lock of the cache, which is also released if the process ends."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("a")
    except OSError as error:
        message = f"the cache {cache} cannot be written ({error.strerror}): mend it or set QUADLOG_CACHE"
        raise SetupError(message) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is filling {cache}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _key() -> str:
    digest = hashlib.blake2b(json.dumps(COORDINATES, sort_keys=True).encode(), digest_size=4)
    return f"kafka-{KAFKA}-spark-{SPARK}-{digest.hexdigest()}"


def _read(home: Path) -> Jars | None:
    """Return the jars that the marker lists, if every file exists with its full size; else None."""
    try:
        sizes: dict[str, dict[str, int]] = json.loads((home / "versions.json").read_text())["files"]
        paths = {kind: tuple(home / kind / name for name in sorted(files)) for kind, files in sizes.items()}
        if any(path.stat().st_size != sizes[kind][path.name] for kind in paths for path in paths[kind]):
            return None
        return Jars(home=home, kafka=paths["kafka"], spark=paths["spark"], w3c=paths["w3c"])
    except (OSError, ValueError, KeyError):
        return None


def _resolve_into(home: Path, java: Java, say: Callable[[str], None]) -> None:
    """Make `home` with one rename, so that it is either complete or absent."""
    for left_over in home.parent.glob(f"{home.name}.*"):
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{home.name}.", dir=home.parent) as name:
        making = Path(name) / "jars"
        making.mkdir()
        _run_ivy(making, home.parent / "ivy", java, say)
        files = {
            kind: {path.name: path.stat().st_size for path in (making / kind).glob("*.jar")}
            for kind in COORDINATES
        }
        marker = {"coordinates": COORDINATES, "files": files}
        (making / "versions.json").write_text(json.dumps(marker, indent=1, sort_keys=True))
        if home.exists():  # damaged, otherwise `_read` would have accepted it
            home.rename(Path(name) / "damaged")
        making.rename(home)


def _run_ivy(target: Path, ivy_home: Path, java: Java, say: Callable[[str], None]) -> None:
    brought = pyspark_jars()
    ivy_file = target / "ivy.xml"
    ivy_file.write_text(_ivy_xml(brought))
    command = [
        *(java.program, f"-Divy.default.ivy.user.dir={ivy_home}"),
        *("-cp", str(next(brought.glob("ivy-*.jar"))), "org.apache.ivy.Main"),
        *("-cache", str(ivy_home), "-ivy", str(ivy_file)),
        *("-retrieve", f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
        *("-types", "jar", "bundle"),
    ]
    lines: deque[str] = deque(maxlen=LAST_LINES)
    for attempt in range(1, ATTEMPTS + 1):
        say(f"downloading Kafka {KAFKA} and Spark's connectors into {ivy_home.parent} (attempt {attempt})")
        if _run(command, lines, say) == 0:
            return
    last = "\n  ".join(lines)
    message = (
        f"Kafka's jars could not be downloaded into {ivy_home.parent}: check the network (Java takes a proxy "
        "from JAVA_TOOL_OPTIONS) and run it again, what has arrived is kept. Ivy's last lines:\n  " + last
    )
    raise SetupError(message)


def _run(command: list[str], lines: deque[str], say: Callable[[str], None]) -> int:
    """Run Ivy, report its progress, keep its last lines; never leave it running."""
    counts: Counter[str] = Counter()
    said = time.monotonic()
    with subprocess.Popen(  # noqa: S603  our own command
        leashed(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        try:
            for line in ivy.stdout or ():
                if re.search(r"\w", line):
                    lines.append(line.strip()[:300])
                counts[line.partition(" ")[0].strip()] += 1
                if time.monotonic() > said + SAY_INTERVAL:
                    said = time.monotonic()
                    say(f"{counts['found']} modules found, {counts['downloading']} jars downloaded")
            return ivy.wait()
        finally:
            ivy.kill()


def pyspark_jars() -> Path:
    """Return the directory of the jars in pyspark.

    Raises:
        SetupError: pyspark or its Ivy is missing.

    """
    spec = find_spec("pyspark")  # without an import, which takes half a second
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        jars = Path(folder) / "jars"
        if any(jars.glob("ivy-*.jar")):
            return jars
    message = "pyspark, whose Ivy fetches Kafka's jars, is not installed as a wheel here: pip install quadlog"
    raise SetupError(message)


def _ivy_xml(brought: Path) -> str:
    """Return the request as an Ivy module; Spark's part excludes the jars of pyspark."""
    shipped = sorted({re.sub(r"-\d[^/]*\.jar$", "", path.name) for path in brought.glob("*.jar")})
    wanted = [
        f'<dependency org="{org}" name="{module}" rev="{version}" conf="{kind}->default"'
        f' transitive="{"false" if alone else "true"}"/>'
        for kind, coordinates in COORDINATES.items()
        for org, module, version, *alone in (c.split(":") for c in coordinates)
    ]
    left_out = [f'<exclude module="{module}" conf="spark"/>' for module in shipped]
    kinds = [f'<conf name="{kind}"/>' for kind in COORDINATES]
    return "\n".join(
        [
            '<ivy-module version="2.0"><info organisation="quadlog" module="jars"/>',
            *("<configurations>", *kinds, "</configurations>"),
            *("<dependencies>", *wanted, *left_out, "</dependencies>"),
            "</ivy-module>",
        ]
    )
