"""Java class archive of Spark: parsed and verified classes with which a Spark session starts.

It is made once for each Java and each PySpark, at set-up or before the first session, by a small compaction on a broker
of its own (`rehearsal.py`).  It is valid for one Java, and for jars of the same paths, sizes and modification times:
Java ignores it with any others, so it is made again after PySpark was reinstalled.  Files in the cache:

    spark-<key>.jsa        the archive; empty if Java did not write one
    spark-<key>.json       its checksum, and the PySpark installation that it was made from
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.errors import SetupError
from quadlog.kafka.class_archive import broker_for_once, make_archive
from quadlog.kafka.installation import QUIET, is_usable
from quadlog.kafka.jars import pyspark_jars
from quadlog.kafka.prepare import named, prepare
from quadlog.leash import leashed

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.kafka.installation import Installation
    from quadlog.kafka.jars import Jars
    from quadlog.kafka.java import Java

REHEARSAL_TIMEOUT: Final = 600.0
"""Seconds.  A rehearsal takes 47 s on two busy cores, and four minutes with thirty other loads on them."""
IN_PLACE: Final = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""Map the archive at its original address.  Elsewhere Java rewrites each address in it: 100 MB more private memory."""
_BLOCK: Final = 1024 * 1024


def class_archive(java: Java, jars: Jars, cache: Path, say: Callable[[str], None]) -> tuple[str, ...]:
    """Return the Java options with which Spark's driver uses the archive; empty if there is no archive."""
    archive = jars.home / f"spark-{named(java, str(pyspark_jars()))}.jsa"
    try:
        if is_usable(archive) and (wrong := _wrong_with(archive)):
            say(f"{archive} {wrong}: it is made again")
            archive.unlink(missing_ok=True)
        if not archive.exists():
            _clear(jars.home)
            run = partial(_run_spark, prepare(say, cache=cache), _about(archive))
            make_archive(archive, "Spark's", cache, say, run)
    except (OSError, SetupError) as error:
        say(f"Spark starts without an archive of its classes, more slowly: {error}")
        return ()
    return (*IN_PLACE, f"-XX:SharedArchiveFile={archive}", *QUIET) if is_usable(archive) else ()


def _run_spark(installation: Installation, about: Path, directory: Path, made: Path) -> None:
    """Run the rehearsal on a broker of its own, and describe the archive that it made."""
    with broker_for_once(installation, directory) as kafka, (directory / "said").open("wb") as said:
        rehearsal = [sys.executable, "-m", "quadlog.replay.rehearsal", kafka, str(directory), str(made)]
        subprocess.run(  # noqa: S603  our own command
            leashed(rehearsal), stdout=said, stderr=said, timeout=REHEARSAL_TIMEOUT, check=True
        )
    describe(about, made)


def describe(about: Path, made: Path) -> None:
    """Write the checksum of an archive, and the PySpark installation that it was made from."""
    jars = pyspark_jars()
    about.write_text(json.dumps({"crc32": _sum(made), "of": str(jars), "installed": _installed(jars)}))


def _wrong_with(archive: Path) -> str | None:
    """Return why an archive cannot be used, or None.

    Java checks the head of the file only, and crashes on other damage.  If the jars are not those that the archive was
    made from, Java starts without it and reports nothing visible.
    """
    try:
        about = json.loads(_about(archive).read_text())
        if about.get("installed") != _installed(pyspark_jars()):
            return "was made before PySpark was installed again"
        return None if about["crc32"] == _sum(archive) else "is damaged"
    except (OSError, ValueError, KeyError):
        return "is damaged"


def _installed(jars: Path) -> int:
    """Return a checksum of what Java compares of each jar: name, size in bytes, modification time in seconds."""
    found = sorted((path.name, path.stat()) for path in jars.glob("*.jar"))
    return zlib.crc32(repr([(name, of.st_size, int(of.st_mtime)) for name, of in found]).encode())


def _clear(home: Path) -> None:
    """Remove archives whose PySpark no longer exists: each has 160 MB."""
    for about in home.glob("spark-*.json"):
        with suppress(ValueError, KeyError):
            if not Path(json.loads(about.read_text())["of"]).is_dir():
                about.with_suffix(".jsa").unlink(missing_ok=True)
                about.unlink()


def _about(archive: Path) -> Path:
    return archive.with_suffix(".json")


def _sum(archive: Path) -> int:
    total = 0
    with archive.open("rb") as file:
        while block := file.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total
