"""Make a class archive: run a Java program once, and have Java write the classes that it loaded.

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
"""Seconds for Java to end; writing Kafka's archive takes 2 to 3 s of them."""
AT_EXIT: Final = "-XX:ArchiveClassesAtExit="
"""Option, followed by a path to which Java writes an archive when it ends."""


def make_archive(
    archive: Path, whose: str, cache: Path, say: Callable[[str], None], run: Callable[[Path, Path], None]
) -> None:
    """Make an archive; if that fails, write an empty file: the program then starts slower, without a new attempt.

    Args:
        archive: file to make; if it exists, nothing is done.
        whose: owner of the classes, for messages.
        cache: directory whose lock is held meanwhile.
        say: receives messages about the progress.
        run: runs the program in a directory, to write the archive to a path.

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
    """Run a broker, and yield its bootstrap string once it serves.  At the end it is terminated and waited for.

    Raises:
        SubprocessError: the broker cannot be formatted, or does not end in time.
        TimeoutError: the broker does not serve in time.

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
