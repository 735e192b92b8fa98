"""A Java that can run Kafka's classes, and how it is called."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.kafka.jars import Jars
    from quadlog.kafka.java import Java

SMALL = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Short-lived, many to a machine: start-up and memory count, peak speed does not."""
OPTIONS = "KAFKA_JVM_PERFORMANCE_OPTS"
"""The environment variable of Kafka's own scripts: Java's options, instead of `SMALL`."""
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""A class archive that no longer fits is skipped; without this, Java also talks about it."""


def is_usable(archive: Path) -> bool:
    """Whether a class archive is there; empty means: tried once and failed, do not try at every start."""
    return archive.is_file() and archive.stat().st_size > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A Java that can run Kafka's classes."""

    java: Java
    jars: Jars
    archive: Path
    options: tuple[str, ...] = ()
    """What `KAFKA_JVM_PERFORMANCE_OPTS` asks for."""

    def command(self, main_class: str, *arguments: str, jvm: tuple[str, ...] = ()) -> list[str]:
        """Return the command line that runs `main_class`."""
        shared = (f"-XX:SharedArchiveFile={self.archive}",) if self.has_archive else ()
        class_path = os.pathsep.join(map(str, self.jars.kafka))
        return [
            *(self.java.program, *(self.options or SMALL), *QUIET, *shared, *jvm),
            *("-cp", class_path, main_class, *arguments),
        ]

    @property
    def has_archive(self) -> bool:
        """Whether Java starts quicker."""
        return is_usable(self.archive)
