"""Make the class archive: run a broker once, with Java told to keep what it loaded."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from quadlog.kafka.broker_process import BrokerProcess, is_serving, until
from quadlog.kafka.jars import locked
from quadlog.kafka.leash import leashed
from quadlog.kafka.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.kafka.installation import Installation

START_TIMEOUT = 60.0
DUMP_TIMEOUT = 60.0
"""Writing the archive takes 2 to 3 s here."""


def make_archive(installation: Installation, cache: Path, say: Callable[[str], None]) -> None:
    """Make `installation.archive`; where that fails leave an empty file, and Kafka starts slower."""
    with locked(cache, say):
        if installation.archive.exists():
            return
        say("preparing Kafka's classes for a quick start (once per Java, some seconds)")
        with tempfile.TemporaryDirectory(prefix="classes.", dir=cache) as name:
            made = Path(name) / "made.jsa"
            if not _run_once(installation, Path(name), made):
                made.write_bytes(b"")
                say("Java did not write its class archive: Kafka works, and starts more slowly")
            made.replace(installation.archive)


def _run_once(installation: Installation, directory: Path, made: Path) -> bool:
    port, controller_port = free_ports(2)
    plain = replace(installation, archive=directory / "none")
    broker = BrokerProcess(
        installation=plain,
        directory=directory,
        log=directory / "log",
        port=port,
        controller_port=controller_port,
    )
    broker.write_files()
    options = ("-XX:ArchiveClassesAtExit=" + str(made), "-Xlog:disable")
    with (directory / "out").open("wb") as out:
        formatting = subprocess.run(  # noqa: S603  our own command
            leashed(broker.format_command()), stdout=out, stderr=out, timeout=START_TIMEOUT, check=False
        )
        if formatting.returncode != 0:
            return False
        with subprocess.Popen(leashed(broker.run_command(*options)), stdout=out, stderr=out) as process:  # noqa: S603
            try:
                until(lambda: process.poll() is not None or is_serving(broker.bootstrap), START_TIMEOUT)
                process.terminate()
                process.wait(DUMP_TIMEOUT)
            except (TimeoutError, subprocess.TimeoutExpired):
                return False
            finally:
                process.kill()
    return made.is_file()
