"""A Java that can run Kafka's classes, and its command lines."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.kafka.jars import Jars
    from quadlog.kafka.java import Java

SMALL = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Java options for many short-lived processes: start-up time and memory matter, peak speed does not."""
OPTIONS = "KAFKA_JVM_PERFORMANCE_OPTS"
"""Environment variable of Kafka's own scripts, with Java options that replace `SMALL`."""
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Java ignores a class archive that no longer fits; without these options it also logs that."""


def is_usable(archive: Path) -> bool:
    """Return whether a class archive exists; an empty file marks a failed attempt, which is not repeated."""
    return archive.is_file() and archive.stat().st_size > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A Java that can run Kafka's classes."""

    java: Java
    jars: Jars
    archive: Path
    options: tuple[str, ...] = ()
    """Java options of `KAFKA_JVM_PERFORMANCE_OPTS`."""

    def command(self, main_class: str, *arguments: str, jvm: tuple[str, ...] = ()) -> list[str]:
        """Return the command line that runs `main_class`; `jvm` are further Java options."""
        shared = (f"-XX:SharedArchiveFile={self.archive}",) if self.has_archive else ()
        class_path = os.pathsep.join(map(str, self.jars.kafka))
        return [
            *(self.java.program, *(self.options or SMALL), *QUIET, *shared, *jvm),
            *("-cp", class_path, main_class, *arguments),
        ]

    @property
    def has_archive(self) -> bool:
        """True if Java starts faster, with an archive of its classes."""
        return is_usable(self.archive)
