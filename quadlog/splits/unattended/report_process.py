"""Process of a master that makes reports of splits that are over.

Its standard input is a `ReportRequest`; the last line of its standard output is a `ReportOutcome`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from quadlog.errors import QuadlogError
from quadlog.master.split_reports.report_request import ReportOutcome, ReportRequest


def outcome_of(request: ReportRequest) -> ReportOutcome:
    """Make the reports; a failure is part of the outcome, so that the master can show it."""
    try:
        from quadlog.broker.connection import log_in  # noqa: PLC0415 - a host may lack Spark
        from quadlog.replay.spark import session, told  # noqa: PLC0415
        from quadlog.splits.unattended.missing_reports import MissingReports, spark_of  # noqa: PLC0415
    except ImportError as error:
        return ReportOutcome(error=f"{error}: install quadlog with Spark, or set split-reports to 0")
    try:
        log_in(request.credentials)
        with session(spark_of(request), _log) as spark, told("there is no report"):
            return MissingReports(request, spark).make()
    except (QuadlogError, OSError) as error:
        return ReportOutcome(error=f"{type(error).__name__}: {error}")


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _be_the_first_to_be_killed() -> None:
    """Have a kernel without memory kill this process and its Java, not the master."""
    with suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    _be_the_first_to_be_killed()
    outcome = outcome_of(ReportRequest.model_validate_json(sys.stdin.read()))
    print(outcome.model_dump_json(ensure_ascii=True))  # noqa: T201 - the answer
