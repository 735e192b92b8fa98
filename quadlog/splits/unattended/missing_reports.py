"""The reports of splits that are over and have none: one session of Spark for all of them.

Each report is made in a directory with a name that begins with a dot, and moved to its place when it is complete.
"""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quadlog.errors import QuadlogError, Unavailable
from quadlog.master.split_reports.report_files import MAKING, PATCH, SUMMARY
from quadlog.master.split_reports.report_request import ReportOutcome
from quadlog.replay.spark import SparkSettings, told
from quadlog.replay.survey import Surveyor
from quadlog.splits.branch_patch import write_patch
from quadlog.splits.cases import ended_branches
from quadlog.splits.job import write_report
from quadlog.splits.plan import UpdateClass
from quadlog.splits.report import Report
from quadlog.splits.topics import WORK, SplitOptions, opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from quadlog.master.split_reports.report_request import EndedSide, ReportRequest
    from quadlog.splits.cases import Case


class MissingReports:
    """The reports that one request asks for."""

    def __init__(self, request: ReportRequest, spark: SparkSession) -> None:
        """Start without reading anything."""
        self._request, self._spark = request, spark
        self._known = set(request.known)
        self._made: list[str] = []
        self._missing: list[tuple[EndedSide, str]] = []
        self._failed: list[tuple[EndedSide, str]] = []

    def make(self) -> ReportOutcome:
        """Make a report of each side that has a branch without one; those of one split have one report.

        Raises:
            QuadlogError: the branches cannot be read.

        """
        names, unreachable = self._branches()
        for side in self._request.sides:
            is_urgent = side in self._request.urgent
            if unreachable and not is_urgent:
                self._missing.append((side, unreachable))
            elif (name := names[side]) is None:
                self._missing.append((side, f"the agreed topic of {side.dc} has no branch after {side.fork}"))
            elif name not in self._known:
                try:
                    with told("there is no report"):
                        self._make_one(name, side, is_urgent=is_urgent)
                except (QuadlogError, OSError) as error:
                    self._failed.append((side, f"{type(error).__name__}: {error}"))
        return ReportOutcome(made=tuple(self._made), missing=tuple(self._missing), failed=tuple(self._failed))

    def _branches(self) -> tuple[dict[EndedSide, str | None], str]:
        """Return the name of the newest branch of each side, and which data centres are not reached, and why."""
        with opened(self._options(), Surveyor(self._spark), lambda _: nullcontext()) as (dcs, lost):
            newest = {
                (topics.dc, branch.fork.index): name for name, topics, branch in ended_branches(dcs)
            }  # in the order of the cuts
        names = {side: newest.get((side.dc, side.fork)) for side in self._request.sides}
        return names, "; ".join(f"{one['dc']} is not reached: {one['reason']}" for one in lost)

    def _make_one(self, name: str, side: EndedSide, *, is_urgent: bool) -> None:
        wanted = replace(self._options(), branch=name)
        shutil.rmtree(wanted.directory, ignore_errors=True)
        (wanted.directory / WORK).mkdir(parents=True)
        report = Report(wanted, self._spark, lambda _: nullcontext()).make(
            partial(_write_patch, wanted.directory / PATCH)
        )
        if not is_urgent and (reason := missing_in(report)):
            self._missing.append((side, reason))
            return
        write_report(report, wanted.directory)
        summary = json.dumps(summary_of(report, name), indent=1) + "\n"
        (wanted.directory / SUMMARY).write_text(summary, "utf-8")
        shutil.rmtree(wanted.directory / WORK, ignore_errors=True)
        target = self._request.directory / name
        shutil.rmtree(target, ignore_errors=True)  # one without a summary
        wanted.directory.rename(target)
        self._made.append(name)
        self._known.update(branch["name"] for branch in report["branches"])

    def _options(self) -> SplitOptions:
        request = self._request
        return SplitOptions(
            kafkas=request.kafkas,
            directory=request.directory / MAKING,
            repository=request.repository,
            is_over=True,
            archive=request.archive,
            spark=spark_of(request),
        )


def _write_patch(path: Path, case: Case) -> None:
    """Write the net change of the branches; without their effects there is none."""
    with suppress(Unavailable):
        draft = path.with_name(f".{path.name}")
        with draft.open("w", encoding="utf-8") as out:
            write_patch(case.branches, out, lambda _: nullcontext())
        draft.rename(path)


def spark_of(request: ReportRequest) -> SparkSettings:
    """Return how Spark runs."""
    return SparkSettings(master=request.spark_master, memory_mb=request.spark_memory, scratch=request.scratch)


def missing_in(report: Mapping[str, Any]) -> str:
    """Return what a report does not have yet; empty if it is complete."""
    waits = {one["name"]: one["classes"].get(UpdateClass.WAITS, 0) for one in report["branches"]}
    return "; ".join(
        f"{count} updates of {name} are not evaluated again yet" for name, count in waits.items() if count
    )


def summary_of(report: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what a list of reports shows of one."""
    kept = ("name", "dcs", "fork", "entries", "updates", "classes", "disputed")
    branches = [
        {field: one[field] for field in kept} | {"fork": one["fork"]["index"]} for one in report["branches"]
    ]
    classes = sorted({kind for one in branches for kind in one["classes"]})
    return {
        "name": name,
        "plan": report["plan"],
        "made_at": report["made_at"],
        "kind": report["kind"],
        "fork": min(one["fork"] for one in branches),
        "entries": sum(one["entries"] for one in branches),
        "dcs": sorted({dc for one in branches for dc in one["dcs"]}),
        "classes": {kind: sum(one["classes"].get(kind, 0) for one in branches) for kind in classes},
        "branches": branches,
        "unreachable": [one["dc"] for one in report["unreachable"]],
    }
