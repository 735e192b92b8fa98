"""Find a Java that is new enough for Kafka."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST = 17
"""Version that Kafka 4 brokers require."""
ADVICE = (
    f"install Java {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-{OLDEST}-jre-headless; "
    f"macOS: brew install openjdk@{OLDEST}) and put it on PATH or set JAVA_HOME"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """One usable Java: its launcher and the version that it reports."""

    program: str
    version: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the Java of JAVA_HOME, or else of PATH.

    Raises:
        SetupError: there is no Java, or it is too old.

    """
    environment = os.environ if environ is None else environ
    home = environment.get("JAVA_HOME")
    candidate = str(Path(home) / "bin" / "java") if home else "java"
    program = shutil.which(candidate, path=environment.get("PATH", os.defpath))
    if program is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on PATH"
        raise SetupError(f"Kafka needs Java and there is none ({where}): {ADVICE}")
    version = _version(program)
    if major(version) < OLDEST:
        raise SetupError(f"Kafka needs Java {OLDEST} or newer, {program} is {version}: {ADVICE}")
    return Java(program=program, version=version)


def _version(program: str) -> str:
    try:
        said = subprocess.run(  # noqa: S603  the program is the operator's own Java
            [program, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{program} is there but does not run ({error}): {ADVICE}") from error
    build = re.search(r"\(build ([^)]+)\)", said)
    quoted = re.search(r'version "([^"]+)"', said)
    found = build or quoted
    return found.group(1) if found else said.strip()


def major(version: str) -> int:
    """Return the major number, also of old versions such as 1.8.

    >>> major("17.0.15+6-Debian-1deb12u1"), major("21"), major("1.8.0_412-b08")
    (17, 21, 8)
    """
    numbers = [int(n) for n in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
