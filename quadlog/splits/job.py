"""`quadlog split preview`, `report`, `list` and `export`: each is one session of Spark, and changes nothing."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from quadlog.core.effects.patch import exact
from quadlog.errors import SetupError, Unavailable, UserError
from quadlog.progress import Phases
from quadlog.replay.spark import session, shown, told
from quadlog.replay.survey import Surveyor
from quadlog.splits.cases import branches_that_are_over, case_of_now
from quadlog.splits.changes import net_change
from quadlog.splits.html import html_of
from quadlog.splits.rdf import turtle_of
from quadlog.splits.report import Report
from quadlog.splits.topics import WORK, opened

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from quadlog.replay.replay import Phase
    from quadlog.splits.topics import SplitOptions


def run_split(wanted: SplitOptions) -> dict[str, Any]:
    """Make one report, and write it into its directory.

    Raises:
        UserError: the directory is there already, or there is no such branch.
        QuadlogError: a topic cannot be read, or Spark failed.

    """
    directory = wanted.directory
    if directory.exists():
        raise UserError(f"{directory} is there already: remove it, or name another directory")
    phases = Phases()
    work = directory / WORK
    try:
        work.mkdir(parents=True)
    except OSError as error:
        raise SetupError(f"{directory} cannot be made: {error}") from error
    try:
        with session(wanted.spark, phases.write) as spark, told("there is no report"):
            report = Report(wanted, spark, lambda name: shown(phases, spark, name)).make()
        write_report(report, directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)
    return report


def write_report(report: dict[str, Any], directory: Path) -> None:
    """Write a report in all formats."""
    texts = {
        "report.json": json.dumps(report, indent=1, ensure_ascii=False) + "\n",
        "report.html": html_of(report),
        "report.ttl": turtle_of(report),
    }
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")


def run_list(wanted: SplitOptions) -> list[dict[str, Any]]:
    """Return the branches, those that are over first, then those of now; then the data centres that are not reached.

    Raises:
        Unavailable: no data centre is reached.

    """
    phases = Phases()
    with session(wanted.spark, phases.write) as spark, told("nothing was changed"):
        return listed(wanted, spark, lambda name: shown(phases, spark, name))


def run_export(wanted: SplitOptions, name: str, target: Path) -> int:
    """Write the net change of a branch since its fork as an RDF Patch; return the number of quads.

    Raises:
        UserError: the file is there already, or there is no such branch.
        Unavailable: no data centre is reached, or effects of the branch are missing.

    """
    if target.exists():
        raise UserError(f"{target} is there already: remove it, or name another file")
    phases = Phases()
    with session(wanted.spark, phases.write) as spark, told("there is no file"):
        return exported(wanted, spark, lambda part: shown(phases, spark, part), name, target)


def listed(wanted: SplitOptions, spark: SparkSession, phase: Phase) -> list[dict[str, Any]]:
    """Return what `run_list` returns."""
    found = list[dict[str, Any]]()
    with opened(wanted, Surveyor(spark), phase) as (dcs, unreachable):
        over = branches_that_are_over(dcs)
        for branch in (*over, *case_of_now(dcs, phase).branches):
            first = branch.topics.head_of(branch.path, branch.fork.index + 1)
            last = branch.topics.head_of(branch.path, branch.path.last.index)
            found.append(
                {
                    "name": branch.name,
                    "dcs": branch.side.dcs,
                    "is_over": branch in over,
                    "fork": branch.fork.index,
                    "entries": branch.entries,
                    "first_at": first.created,
                    "last_at": last.created,
                }
            )
    return [*found, *({"name": None, **one} for one in unreachable)]


def exported(wanted: SplitOptions, spark: SparkSession, phase: Phase, name: str, target: Path) -> int:
    """Do what `run_export` does."""
    making = target.with_name(f"{target.name}.making")
    try:
        with opened(wanted, Surveyor(spark), phase) as (dcs, _), making.open("w", encoding="utf-8") as out:
            branches = {
                one.name: one for one in (*branches_that_are_over(dcs), *case_of_now(dcs, phase).branches)
            }
            if name not in branches:
                raise UserError(f"there is no branch {name}; there are {', '.join(branches) or 'none'}")
            branch = branches[name]
            spans, last = branch.topics.effects_on(branch.path, branch.fork.index, phase)
            if last < branch.path.last.index:
                raise Unavailable(
                    f"the effects of {name} go up to {last} of {branch.path.last.index}: try again"
                )
            quads = 0
            out.write(f"H branch {json.dumps(name)} .\nTX .\n")
            for row in net_change(branch.topics.compaction(phase).changes(spans)).toLocalIterator():
                out.write(f"{'A' if row['there'] else 'D'} {exact(row['line'])}\n")
                quads += 1
            out.write("TC .\n")
        making.rename(target)
    finally:
        making.unlink(missing_ok=True)
    return quads
