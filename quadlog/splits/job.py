"""`quadlog split preview`, `report`, `list`, `show` and `export`: each is one session of Spark, and changes nothing."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

from quadlog.errors import SetupError, StateError, UserError
from quadlog.progress import Phases
from quadlog.quadstore.quaddir import FILES, new_reserved_graph
from quadlog.quadstore.store_reader import StoreReader
from quadlog.replay.spark import session, shown, told
from quadlog.replay.survey import Surveyor
from quadlog.splits.branch_patch import write_patch
from quadlog.splits.branch_state import store_of
from quadlog.splits.cases import branches_that_are_over, case_of_now
from quadlog.splits.html import html_of
from quadlog.splits.rdf import turtle_of
from quadlog.splits.report import Report
from quadlog.splits.topics import WORK, opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from quadlog.core.records import LoggedEntry
    from quadlog.replay.replay import Phase
    from quadlog.splits.cases import CaseBranch
    from quadlog.splits.topics import DataCentreTopics, SplitOptions


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


def run_show(wanted: SplitOptions, name: str, query: str, accept: str, output: IO[bytes]) -> None:
    """Write the answer to a query on the state after the last entry of a branch.

    `scratch` of Spark is for the store, too; `accept` are media types of the answer, as in HTTP.

    Raises:
        UserError: there is no such branch, or the query is refused.
        Unavailable: no data centre is reached, or effects of the branch are missing.

    """
    phases = Phases()
    with TemporaryDirectory(prefix="quadlog-branch-", dir=wanted.spark.scratch) as directory:
        with session(wanted.spark, phases.write) as spark, told("nothing was changed"):
            reader = shown_branch(
                wanted, spark, lambda part: shown(phases, spark, part), name, Path(directory)
            )
        reader.query(query, accept=accept).write_to(output)
        output.flush()


def shown_branch(
    wanted: SplitOptions, spark: SparkSession, phase: Phase, name: str, directory: Path
) -> StoreReader:
    """Return a reader of the state after the last entry of a branch, which is stored in an empty directory."""
    with opened(wanted, Surveyor(spark), phase) as (dcs, _):
        store = store_of(_branch_named(dcs, name, phase), directory / FILES, phase)
    return StoreReader(store, new_reserved_graph(directory))


def _branch_named(dcs: Mapping[str, DataCentreTopics], name: str, phase: Phase) -> CaseBranch:
    """Return a branch.

    Raises:
        UserError: there is no branch of this name.

    """
    branches = {one.name: one for one in (*branches_that_are_over(dcs), *case_of_now(dcs, phase).branches)}
    if name not in branches:
        raise UserError(f"there is no branch {name}; there are {', '.join(branches) or 'none'}")
    return branches[name]


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
                    "masters": _masters_of(branch, last),
                    "is_over": branch in over,
                    "fork": branch.fork.index,
                    "entries": branch.entries,
                    "bytes": _size_of(branch, phase),
                    "first_at": first.created,
                    "last_at": last.created,
                }
            )
    return [*found, *({"name": None, **one} for one in unreachable)]


def _masters_of(branch: CaseBranch, last: LoggedEntry) -> list[str]:
    """Return the members of the view of its last entry; none if no post is left that names them."""
    if not branch.side.posts:
        posts = branch.topics.posts(since=last.created, before=last.epoch + 1)
        branch.side.posts += [post for post in posts if post.view.id == last.lineage]
    return [*branch.side.masters]


def _size_of(branch: CaseBranch, phase: Phase) -> int | None:
    """Return the number of bytes of its effects; None if some are missing."""
    with suppress(StateError):  # the topic was shortened
        spans, last = branch.topics.effects_on(branch.path, branch.fork.index, phase)
        if last >= branch.path.last.index:
            return branch.topics.compaction(phase).size_of(spans)
    return None


def exported(wanted: SplitOptions, spark: SparkSession, phase: Phase, name: str, target: Path) -> int:
    """Do what `run_export` does."""
    making = target.with_name(f"{target.name}.making")
    try:
        with opened(wanted, Surveyor(spark), phase) as (dcs, _), making.open("w", encoding="utf-8") as out:
            quads = write_patch([_branch_named(dcs, name, phase)], out, phase)
        making.rename(target)
    finally:
        making.unlink(missing_ok=True)
    return quads
