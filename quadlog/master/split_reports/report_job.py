"""The process that makes reports: it dies with its master, and what it logs goes to its master's log.

It is not `quadlog split report`: one session of Spark finds the branches and makes the reports of all of them, and each
Kafka has a login of its own, which that command cannot be given.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from quadlog.errors import QuadlogError
from quadlog.leash import leashed
from quadlog.master.split_reports.report_request import ReportOutcome, ReportRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.master.split_reports.report_files import ReportFiles
    from quadlog.master.split_reports.report_request import WantedReports
    from quadlog.settings import MasterSettings

MODULE: Final = "quadlog.splits.unattended.report_process"
LONGEST_S: Final = 3600.0
"""Seconds after which the process is killed: the next attempt may be faster, and no side waits forever."""


def make_reports(
    files: ReportFiles, settings: MasterSettings, kafkas: Mapping[str, str], wanted: WantedReports
) -> ReportOutcome:
    """Make reports, and return when it is done; `kafkas`: bootstrap servers of all data centres that the master knows.

    Raises:
        QuadlogError: it could not be run, or it ended without an answer.

    """
    request = ReportRequest(
        **dict(wanted),
        directory=files.path,
        repository=settings.repository,
        kafkas=kafkas,
        credentials={servers: settings.kafka_credentials[servers] for servers in kafkas.values()},
        archive=None if settings.log_archive is None else settings.log_archive.absolute(),
        spark_master=settings.spark_master,
        spark_memory=settings.spark_memory,
        scratch=files.scratch,
    )
    command = leashed([sys.executable, "-m", MODULE])
    try:
        files.begin()
        done = subprocess.run(  # noqa: S603 - our own program
            command,
            check=False,
            input=request.model_dump_json(ensure_ascii=True),
            stdout=subprocess.PIPE,
            text=True,
            cwd=files.scratch,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired as error:
        raise QuadlogError(f"the process was killed after {LONGEST_S:.0f} s: is Spark too slow?") from error
    except OSError as error:
        raise QuadlogError(f"the process could not be run in {files.scratch}: {error}") from error
    finally:
        files.end()
    try:
        return ReportOutcome.model_validate_json((done.stdout.strip().splitlines() or [""])[-1])
    except ValueError as error:
        raise QuadlogError(
            f"the process ended with {done.returncode}, without an answer; what it logged is in the log of this master"
        ) from error
