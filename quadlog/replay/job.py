"""A Spark job that a master or a worker starts: a process that dies with it; its output goes to its log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final, Literal

from quadlog.errors import QuadlogError
from quadlog.leash import leashed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from quadlog.settings.common import NodeSettings

SCRATCH: Final = "spark"
"""Directory under the data directory for what does not fit into memory, and for libraries that Java unpacks and runs.

`/tmp` may be in memory, and hosts may forbid to run what is there.
"""


def run_job(
    name: Literal["archive", "compact"], directory: Path, settings: NodeSettings, options: Mapping[str, str]
) -> None:
    """Run `quadlog archive` or `quadlog compact`, for the topics of a node's data centre.

    `directory` is the archive, or the bundle to make; `options` are further options of the command.

    Raises:
        QuadlogError: the job failed.

    """
    scratch = settings.data_dir.absolute() / SCRATCH
    shared = {
        "--kafka": settings.kafka,
        "--dc": settings.dc,
        "--repository": settings.repository,
        "--spark": settings.spark_master,
        "--memory": str(settings.spark_memory),
        "--scratch": str(scratch),
    }
    words = [word for option in (shared | dict(options)).items() for word in option]
    command = leashed([sys.executable, "-m", "quadlog", name, str(directory.absolute()), *words])
    remove_scratch(settings)
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = settings.kafka_credentials[settings.kafka].environment(scratch)
        done = subprocess.run(command, check=False, env=environment, cwd=scratch)  # noqa: S603 - our own program
    except OSError as error:
        raise QuadlogError(f"quadlog {name} could not be run in {scratch}: {error}") from error
    finally:
        remove_scratch(settings)
    if done.returncode:
        raise QuadlogError(f"quadlog {name} ended with {done.returncode}; what it said stands above")


def remove_scratch(settings: NodeSettings) -> None:
    """Remove what a job has left that was killed with its node."""
    shutil.rmtree(settings.data_dir.absolute() / SCRATCH, ignore_errors=True)
