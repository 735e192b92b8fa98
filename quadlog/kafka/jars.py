"""Kafka's jars, Spark's Kafka connectors and the W3C's tests of SPARQL, downloaded once into a cache of the user.

``jars.lock`` lists them with their digests (``make lock`` writes it).  Layout of the cache, which several checkouts can
share:

    lock                           locked while anything below is made
    downloads/                     what has arrived of a download that was interrupted
    jars-<key>/kafka/*.jar         a broker's and the console tools' class path
    jars-<key>/spark/*.jar         jars for Spark that pyspark does not contain
    jars-<key>/w3c/*.jar           the W3C's test suites as RDF4J ships them: files, no classes
    jars-<key>/versions.json       the marker: file names and sizes
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

KAFKA: Final = "4.3.1"
SPARK: Final = "4.0.0"
LOCK: Final = "jars.lock"
KINDS: Final = ("kafka", "spark", "w3c")
MIRROR: Final = "QUADLOG_MAVEN"
"""Environment variable with the address of another Maven repository."""
CENTRAL: Final = "https://repo1.maven.org/maven2"
AT_ONCE: Final = 8
"""Number of files that are downloaded at the same time."""
ATTEMPTS: Final = 3
SILENCE_S: Final = 30
SAY_EACH: Final = 10
"""Number of files after which progress is reported."""


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


def resolve(cache: Path, say: Callable[[str], None]) -> Jars:
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
            _download_into(home, say)
            found = _read(home)
    if found is None:
        raise SetupError(f"{home} was just made and is not complete: remove it and try again")
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
    digest = hashlib.blake2b(_lock().encode(), digest_size=4)
    return f"kafka-{KAFKA}-spark-{SPARK}-{digest.hexdigest()}"


def _lock() -> str:
    return (files("quadlog.kafka") / LOCK).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Jar:
    """A line of ``jars.lock``."""

    kind: str
    path: str
    """Path within a Maven repository."""
    size: int
    sha256: str

    def file_in(self, home: Path) -> Path:
        return home / self.kind / self.path.rpartition("/")[2]


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


def _download_into(home: Path, say: Callable[[str], None]) -> None:
    """Make `home` with one rename, so that it is either complete or absent."""
    mirror = os.environ.get(MIRROR, CENTRAL).rstrip("/")
    jars = [
        _Jar(kind, path, int(size), sha256)
        for kind, path, size, sha256 in map(str.split, _lock().splitlines())
    ]
    downloads = home.parent / "downloads"
    for kind in KINDS:
        (downloads / kind).mkdir(parents=True, exist_ok=True)
    total = sum(jar.size for jar in jars) // 1_000_000
    say(f"downloading Kafka {KAFKA} and Spark's connectors from {mirror} ({len(jars)} files, {total} MB)")
    waiting, results = SimpleQueue[_Jar](), SimpleQueue[SetupError | None]()
    for jar in jars:
        waiting.put(jar)

    def download_all() -> None:
        with suppress(Empty):
            while True:
                jar = waiting.get_nowait()
                results.put(_download(jar, jar.file_in(downloads), mirror))

    for _ in range(AT_ONCE):
        Thread(target=download_all, daemon=True).start()  # not an executor: an interrupt must not wait for it
    for number in range(1, len(jars) + 1):
        if error := results.get():
            raise error
        if number % SAY_EACH == 0:
            say(f"{number} of {len(jars)} files are there")
    sizes = {kind: {jar.file_in(home).name: jar.size for jar in jars if jar.kind == kind} for kind in KINDS}
    (downloads / "versions.json").write_text(json.dumps({"files": sizes}, indent=1, sort_keys=True))
    if home.exists():  # damaged, otherwise `_read` would have accepted it
        shutil.rmtree(home)
    downloads.rename(home)


def _download(jar: _Jar, target: Path, mirror: str) -> SetupError | None:
    """Download a file, if `target` is not that file already; return why this is impossible."""
    if target.exists() and _is_intact(target, jar):
        return None
    address, why = f"{mirror}/{jar.path}", ""
    for _ in range(ATTEMPTS):
        try:
            with (
                urllib.request.urlopen(address, timeout=SILENCE_S) as answer,  # noqa: S310  the mirror is the user's
                target.open("wb") as file,
            ):
                shutil.copyfileobj(answer, file)
        except (OSError, HTTPException, ValueError) as error:  # ValueError: it is no address
            why = str(error) or type(error).__name__
            continue
        if _is_intact(target, jar):
            return None
        why = f"it has {target.stat().st_size} bytes and is not the file that {LOCK} lists"
    return SetupError(
        f"{address} could not be downloaded: {why}. Check the network (https_proxy is used), or set {MIRROR} to "
        "another Maven repository, and run it again: what has arrived is kept"
    )


def _is_intact(path: Path, jar: _Jar) -> bool:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


def pyspark_jars() -> Path:
    """Return the directory of the jars in pyspark.

    Raises:
        SetupError: pyspark is missing.

    """
    spec = find_spec("pyspark")  # without an import, which takes half a second
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        jars = Path(folder) / "jars"
        if any(jars.glob("spark-core_*.jar")):
            return jars
    raise SetupError("pyspark is not installed as a wheel here: pip install quadlog")
