"""Make a class archive: run a program of Java's once, and have it keep what it loaded.

Kafka's brokers and tools have one, and Spark's driver another (`quadlog/replay/spark_classes.py`).
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.errors import QuadlogError
from quadlog.kafka.broker_process import BrokerProcess, is_serving, until
from quadlog.kafka.jars import locked
from quadlog.kafka.ports import free_ports
from quadlog.leash import leashed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from quadlog.kafka.installation import Installation

START_TIMEOUT = 60.0
DUMP_TIMEOUT = 60.0
"""Writing Kafka's archive takes 2 to 3 s here."""
AT_EXIT: Final = "-XX:ArchiveClassesAtExit="
"""Before a path: Java writes an archive there when it ends."""


def make_archive(
    archive: Path, whose: str, cache: Path, say: Callable[[str], None], run: Callable[[Path, Path], None]
) -> None:
    """Make an archive; where that fails leave an empty file, and what it is for starts slower.

    Args:
        archive: the file; nothing is done if it is there.
        whose: classes they are.
        cache: whose lock is held meanwhile.
        say: is told what takes so long.
        run: runs the program in a directory, to write such a file.

    Raises:
        SetupError: the cache cannot be written.

    """
    with locked(cache, say):
        if archive.exists():
            return
        say(f"preparing {whose} classes for a quick start (once per Java, some seconds)")
        with tempfile.TemporaryDirectory(prefix="classes.", dir=cache) as name:
            made = Path(name) / "made.jsa"
            with suppress(QuadlogError, TimeoutError, subprocess.SubprocessError):
                run(Path(name), made)
            if not made.is_file():
                made.write_bytes(b"")
                say(
                    f"Java did not write an archive of {whose} classes: all works, and starts more slowly; remove"
                    f" {archive} to have it tried again"
                )
            made.replace(archive)


def run_kafka(installation: Installation, directory: Path, made: Path) -> None:
    """Run a broker until it serves."""
    plain = replace(installation, archive=directory / "none")
    with broker_for_once(plain, directory, f"{AT_EXIT}{made}", "-Xlog:disable"):
        pass


@contextmanager
def broker_for_once(installation: Installation, directory: Path, *options: str) -> Generator[str]:
    """A broker that serves: its bootstrap string.  At the end it is told to end, and has time for that.

    Raises:
        SubprocessError: it does not start, or not end.
        TimeoutError: it does not serve.

    """
    port, controller_port = free_ports(2)
    broker = BrokerProcess(
        installation=installation,
        directory=directory,
        log=directory / "log",
        port=port,
        controller_port=controller_port,
    )
    broker.write_files()
    with (directory / "out").open("wb") as out:
        subprocess.run(  # noqa: S603  our own command
            leashed(broker.format_command()), stdout=out, stderr=out, timeout=START_TIMEOUT, check=True
        )
        with subprocess.Popen(leashed(broker.run_command(*options)), stdout=out, stderr=out) as process:  # noqa: S603
            try:
                until(lambda: process.poll() is not None or is_serving(broker.bootstrap), START_TIMEOUT)
                yield broker.bootstrap
                process.terminate()
                process.wait(DUMP_TIMEOUT)
            finally:
                process.kill()
