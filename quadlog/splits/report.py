"""A preview or a report: what becomes of each update of a branch, with Spark; nothing is changed.

    1. paths      the agreed topics: sides, forks, branches (`topics.py`, `cases.py`)
    2. state      of a preview: the winner's state, compacted by Spark, in a store (`replay/compact.py`)
    3. evaluate   of a preview: the updates of the branch on that store, one after the other (`foresight.py`)
    4. compare    what they change on the branch and here, line by line (`changes.py`)
    5. plan       a class for each update, totals, and the plan hash (`plan.py`)

This process holds a row for each thousand entries, the ids that both sides have, and the listed details; everything
else is in Spark or on disk, in `DIRECTORY/.work`, which is removed at the end.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from dataclasses import asdict
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from quadlog.core.approval import REASON as DROPPED
from quadlog.core.approval import approval_in
from quadlog.core.catchup import Rates
from quadlog.core.cluster_settings import SETTING, VALUE
from quadlog.core.effects import control
from quadlog.core.membership.electorate import PEER
from quadlog.core.model import TransactionKind
from quadlog.core.records import Outcome
from quadlog.core.sparql.operations import Load, Modify
from quadlog.core.sparql.update import parse_update
from quadlog.core.sparql.using import Using
from quadlog.errors import SetupError, Unavailable, UserError
from quadlog.quadstore.quadstore import QuadStore
from quadlog.replay.replay import GONE, MOMENTS, NEVER, THERE, CompactedRange
from quadlog.replay.survey import Surveyor
from quadlog.splits.cases import Case, CaseBranch, case_of_now, case_that_is_over
from quadlog.splits.changes import GRAPH, by_update, compared, disputed_in, updates_of
from quadlog.splits.description import Counted, described_branch, described_sides, strategy_of
from quadlog.splits.foresight import Foresight
from quadlog.splits.plan import FORMAT, Comparison, PlanHash, UpdateClass, class_of
from quadlog.splits.sides import reasons_of
from quadlog.splits.topics import WORK, opened
from quadlog.worker.catchup.bundle_loader import load_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

    from quadlog.core.records import Effect, LoggedEntry
    from quadlog.replay.lineage import Span
    from quadlog.replay.replay import Phase
    from quadlog.splits.topics import DataCentreTopics, SplitOptions

_CHANGES: Final = "line string, n long, change int"
_UPDATES: Final = "n long, index long, id string, synchronous boolean, foreseen boolean"
_VERDICTS: Final = "n long, became long, outcome string, reason string"
_EXTERNAL: Final = re.compile(rb"(?i)\b(?:LOAD|SERVICE)\b")
_COMPARED: Final = ("there", "here", "opposite", "extra", "unmet")
_QUADS: Final = ("deleted", "inserted", "deleted_there", "inserted_there")


class Report:
    """One report in the making."""

    def __init__(self, wanted: SplitOptions, spark: SparkSession, phase: Phase) -> None:
        """Start without reading anything."""
        self._wanted, self._spark, self._phase = wanted, spark, phase
        self._surveyor: Final = Surveyor(spark)
        self._work: Final = wanted.directory / WORK
        self._here = list[DataFrame]()
        """Changes behind the log of the winner, of each branch considered."""
        self._before = list[DataFrame]()
        """Updates of the branches considered."""

    def make(self, then: Callable[[Case], object] = lambda _: None) -> dict[str, Any]:
        """Return the report; `then` is called with what it is about, while the topics are open.

        Raises:
            UserError: there is no such branch, or the topics do not go back to the fork.
            Unavailable: no data centre is reached, or effects are missing.
            StateError: records are missing.

        """
        with opened(self._wanted, self._surveyor, self._phase) as (dcs, unreachable):
            case = (
                case_that_is_over(dcs, self._wanted.branch)
                if self._wanted.is_over
                else case_of_now(dcs, self._phase)
            )
            report = self._report(case, unreachable, dcs)
            then(case)
            return report

    def _report(
        self, case: Case, unreachable: list[dict[str, str]], dcs: Mapping[str, DataCentreTopics]
    ) -> dict[str, Any]:
        plan = PlanHash(
            self._wanted.repository,
            case.winner.last,
            [(one.fork.index, one.path.last) for one in case.branches],
        )
        branches, first = list[dict[str, Any]](), 1
        foresight = None if case.is_over or not case.branches else self._foresight(case)
        try:
            for branch in case.branches:
                counted = self._branch(case, branch, first, foresight, plan)
                first += branch.entries
                branches.append(described_branch(branch, counted))
        finally:
            if foresight is not None:
                foresight.close()
        if not case.is_over:
            self._refuse_unknown_drops(branches)
        return {
            "format": FORMAT,
            "kind": "report" if case.is_over else "preview",
            "repository": self._wanted.repository,
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "plan": plan.hexdigest(),
            "strategy": strategy_of(case),
            "sides": described_sides(case),
            "reasons": reasons_of(case.winner, [one.side for one in case.sides]),
            "behind": [asdict(one) for one in case.behind],
            "unreachable": unreachable,
            "branches": branches,
            "workers": self._workers(case, dcs, branches),
        }

    def _refuse_unknown_drops(self, branches: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a preview with dropped updates that no branch has, or that the winner has as well."""
        dropped = sum(one["classes"].get(UpdateClass.DROPPED, 0) for one in branches)
        if dropped != len(self._wanted.drop):
            raise UserError(
                f"of {len(self._wanted.drop)} updates to drop only {dropped} are of a branch that gives way, and not in"
                " the winner's log: drop ids that the preview without --drop lists"
            )

    # --- the winner's state -----------------------------------------------------------------------------

    def _foresight(self, case: Case) -> Foresight:
        """Return an evaluator with the winner's state.

        Raises:
            Unavailable: the effects of some entries are not there yet.

        """
        last = case.winner.last.index
        store_path = self._work / "store"
        if last:
            _, evaluated = case.topics.effects_on(case.path, last - 1, self._phase)
            if evaluated < last:
                raise Unavailable(
                    f"the effects topic of {case.topics.dc} does not have the effect of entry {last} yet: try again"
                )
            compaction = case.topics.compaction(self._phase)
            if (lineage := case.topics.lineage(self._phase)).seed is not None:
                raise SetupError(
                    f"the log begins with a seed of {lineage.seed.quads} quads, which is not in the topics:"
                    " a preview cannot know the state; make the report when the split is over"
                )
            draft = compaction.write(CompactedRange(until=last), self._work / "bundle")
            draft.proven()
        store = QuadStore.open(store_path)
        if last:
            load_bundle(store, self._work / "bundle")
        return Foresight(store, self._work / "trial", self._wanted.limits)

    # --- one branch -------------------------------------------------------------------------------------

    def _branch(
        self, case: Case, branch: CaseBranch, first: int, foresight: Foresight | None, plan: PlanHash
    ) -> Counted:
        """Add a branch to the plan.  The update at the fork + i has the number first + i - 1."""
        counted = Counted()
        work = self._work / f"branch-{first}"
        work.mkdir(parents=True)
        shift = first - 1 - branch.fork.index
        self._list_updates(branch, shift, work, counted)
        updates = self._spark.read.schema(_UPDATES).json(str(work / "updates"))
        spans, _ = branch.topics.effects_on(branch.path, branch.fork.index, self._phase)
        there = self._shifted(branch.topics, spans, shift)
        duplicates = self._duplicates(case, branch, updates)
        if foresight is None:
            new = updates.filter(~f.col("id").isin(*duplicates)) if duplicates else updates
            verdicts, here = self._became(case, new)
        else:
            with self._phase("evaluate"):
                self._foresee(branch, shift, duplicates, foresight, work)
            verdicts = self._spark.read.schema(_VERDICTS).json(str(work / "verdicts"))
            here = self._spark.read.schema(_CHANGES).json(str(work / "changes"))
        self._here.append(here)
        own_spans, _ = case.topics.effects_on(case.path, branch.fork.index, self._phase)
        winner = self._changes(case.topics, own_spans)
        told_there = self._told(branch.topics, spans, shift)
        with self._phase("compare"):
            states_path = str(work / "states")
            tasks = self._surveyor.tasks_for(sum(one.end - one.start for one in (*spans, *own_spans)))
            self._spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            compared(winner, there, reduce(DataFrame.union, self._here), first=first).write.parquet(
                states_path
            )
            states = self._spark.read.parquet(states_path)
            rows = (
                updates.join(told_there, "n", "left")
                .join(verdicts, "n", "left")
                .join(updates_of(states, first=first), "n", "left")
                .orderBy("n")
            )
            for row in rows.toLocalIterator():
                self._add_update(row, duplicates, counted, plan)
            for one in counted.ended:
                plan.add_ended(one["index"], one["id"])
            for row in disputed_in(states, first=first).toLocalIterator():
                self._add_disputed(row, shift, counted, plan)
        return counted

    def _list_updates(self, branch: CaseBranch, shift: int, work: Path, counted: Counted) -> None:
        """Write which updates a branch has, and count its other entries."""
        with (work / "updates").open("w") as out:
            for entry in branch.topics.entries(branch.path, branch.fork):
                if entry.kind is TransactionKind.TX:
                    row = {
                        "n": entry.index + shift,
                        "index": entry.index,
                        "id": entry.id.hex(),
                        "synchronous": entry.is_synchronous,
                        "foreseen": self._wanted.is_over or not _is_external(entry),
                    }
                    out.write(json.dumps(row) + "\n")
                    counted.updates += 1
                elif entry.kind is TransactionKind.CONFIG:
                    what = _said_of(entry)
                    counted.ended.append({"index": entry.index, "id": entry.id.hex(), "what": what})
                else:
                    counted.decisions += 1

    def _duplicates(self, case: Case, branch: CaseBranch, updates: DataFrame) -> dict[str, int | None]:
        """Return the ids that are agreed before: with the index in the winner's path, or None if of another branch."""
        found = dict[str, int | None]()
        for before in self._before:
            rows = before.select("id").join(updates.select("id"), "id", "left_semi").collect()
            found.update((row["id"], None) for row in rows)
        self._before.append(updates)
        return {**found, **self._on_the_path(case, branch, updates)}

    def _on_the_path(self, case: Case, branch: CaseBranch, updates: DataFrame) -> dict[str, int]:
        path, after = case.path, branch.fork.index
        if path.last.index <= after:
            return {}
        start = (
            case.topics.agreed.topic.beginning if after == path.before.index else path.offset_of(after) + 1
        )
        found = self._surveyor.ids(case.topics.agreed.topic, start, path.offset_of(path.last.index) + 1)
        rows = found.join(updates.select("id"), "id", "left_semi").collect()
        return {row["id"]: row["index"] for row in rows if after < row["index"] <= path.last.index}

    def _foresee(
        self,
        branch: CaseBranch,
        shift: int,
        duplicates: Mapping[str, int | None],
        foresight: Foresight,
        work: Path,
    ) -> None:
        """Write outcomes and changes of the updates that would be evaluated."""
        numbers = deque[int]()
        """Of the updates that are being evaluated."""

        def entries() -> Iterator[LoggedEntry]:
            for entry in branch.topics.entries(branch.path, branch.fork):
                is_known = entry.id.hex() in duplicates
                is_evaluated = not is_known and not self._drops(entry) and not _is_external(entry)
                if entry.kind is TransactionKind.TX and is_evaluated:
                    numbers.append(entry.index + shift)
                    yield entry

        with (work / "verdicts").open("w") as verdicts, (work / "changes").open("w") as changes:
            for entry in branch.topics.entries(branch.path, branch.fork) if self._wanted.drop else ():
                if self._drops(entry):
                    row = {"n": entry.index + shift, "outcome": Outcome.REJECTED.value, "reason": DROPPED}
                    verdicts.write(json.dumps(row) + "\n")
            for effect in foresight.effects(entries()):
                n = numbers.popleft()
                row = {"n": n, "outcome": effect.outcome.value, "reason": effect.reason}
                verdicts.write(json.dumps(row) + "\n")
                for line, change in _lines(effect):
                    changes.write(json.dumps({"line": line, "n": n, "change": change}) + "\n")

    def _drops(self, entry: LoggedEntry) -> bool:
        return entry.kind is TransactionKind.TX and entry.id.hex() in self._wanted.drop

    def _became(self, case: Case, updates: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Return outcomes and changes of the updates in the log behind the winner's last entry."""
        topics, path = case.topics, case.topics.path
        last = case.winner.last.index
        none = self._empty(_VERDICTS), self._empty(_CHANGES)
        if path.last.index <= last:
            return none
        start = topics.agreed.topic.beginning if last == path.before.index else path.offset_of(last) + 1
        found = self._surveyor.ids(topics.agreed.topic, start, path.offset_of(path.last.index) + 1)
        became = (
            found.filter(f.col("index") > last)
            .join(updates.select("id", "n"), "id")
            .groupBy("n")
            .agg(f.min("index").alias("became"))
        ).persist()
        spans, _ = topics.effects_on(path, last, self._phase)
        if not spans:
            return none
        compaction = topics.compaction(self._phase)
        outcomes = _whole(compaction.outcomes(spans)).withColumnRenamed("index", "became")
        verdicts = became.join(outcomes, "became").select("n", "became", "outcome", "reason")
        changes = by_update(self._changes(topics, spans)).withColumnRenamed("n", "became")
        here = changes.join(became, "became").select("line", "n", f.col("change").cast("int").alias("change"))
        return verdicts, here

    def _changes(self, topics: DataCentreTopics, spans: Sequence[Span]) -> DataFrame:
        if not spans:
            return self._empty("line string, moment long")
        # A graph that is dropped with its quads was no empty graph, and is none.
        return topics.compaction(self._phase).changes(spans).filter(f.col("moment") % MOMENTS != NEVER)

    def _empty(self, columns: str) -> DataFrame:
        """Return a table without rows; `columns`: names and types."""
        pairs = (one.split() for one in columns.split(", "))
        return self._spark.range(0).selectExpr(*(f"cast(null as {kind}) as {name}" for name, kind in pairs))

    def _shifted(self, topics: DataCentreTopics, spans: Sequence[Span], shift: int) -> DataFrame:
        """Return the changes of a branch by the numbers of its updates."""
        changes = self._changes(topics, spans)
        moved = changes.select("line", (f.col("moment") + shift * MOMENTS).alias("moment"))
        return by_update(moved).select("line", "n", f.col("change").cast("int").alias("change"))

    def _told(self, topics: DataCentreTopics, spans: Sequence[Span], shift: int) -> DataFrame:
        """Return n, outcome and reason on the branch."""
        if not spans:
            return self._empty("n long, told string, reason_there string")
        rows = _whole(topics.compaction(self._phase).outcomes(spans))
        return rows.select(
            (f.col("index") + shift).alias("n"),
            f.col("outcome").alias("told"),
            f.col("reason").alias("reason_there"),
        )

    def _add_update(
        self, row: Row, duplicates: Mapping[str, int | None], counted: Counted, plan: PlanHash
    ) -> None:
        """Classify an update, and add it to the plan and to the totals."""
        is_duplicate = row["id"] in duplicates
        outcome = Outcome(row["outcome"]) if row["outcome"] and not is_duplicate else None
        update_class = class_of(
            outcome,
            Comparison(**{name: row[name] or 0 for name in _COMPARED}),
            is_duplicate=is_duplicate,
            is_dropped=row["reason"] == DROPPED,
            is_foreseen=row["foreseen"],
        )
        quads = {name: row[name] or 0 for name in _QUADS}
        plan.add_update(
            row["index"],
            row["id"],
            update_class,
            outcome,
            deleted=quads["deleted"],
            inserted=quads["inserted"],
        )
        answer = row["told"] or "UNKNOWN"
        counted.classes[update_class] += 1
        counted.answers.setdefault(answer, Counter())[update_class] += 1
        if counted.shown[update_class] >= self._wanted.details:
            return
        counted.shown[update_class] += 1
        counted.transactions.append(
            {
                "index": row["index"],
                "id": row["id"],
                "class": update_class.value,
                "told": answer,
                "reason_there": row["reason_there"],
                "outcome": None if outcome is None else outcome.value,
                "reason": row["reason"],
                "became": duplicates.get(row["id"], row["became"]),
                "synchronous": row["synchronous"],
                **quads,
            }
        )

    def _add_disputed(self, row: Row, shift: int, counted: Counted, plan: PlanHash) -> None:
        states = {name: bool(row[name]) for name in ("base", "winner", "branch", "result")}
        plan.add_disputed(row["line"], states)
        counted.disputed += 1
        if counted.disputed <= self._wanted.details:
            counted.disputed_quads.append(
                {
                    "line": row["line"],
                    **states,
                    "winner_index": row["w_index"],
                    "branch_index": row["n"] - shift,
                }
            )

    # --- cost -------------------------------------------------------------------------------------------

    def _workers(
        self, case: Case, dcs: Mapping[str, DataCentreTopics], branches: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return what each worker of the data centres that give way has to do."""
        found = list[dict[str, Any]]()
        again = sum(one["updates"] - one["classes"].get(UpdateClass.DUPLICATE, 0) for one in branches)
        for branch in case.branches:
            own = case.winner.last.index - branch.fork.index
            spans, _ = case.topics.effects_on(case.path, branch.fork.index, self._phase)
            size = case.topics.compaction(self._phase).size_of(spans)
            there, _ = branch.topics.effects_on(branch.path, branch.fork.index, self._phase)
            size += branch.topics.compaction(self._phase).size_of(there)
            for dc in branch.side.dcs:
                for beat in dcs[dc].beats():
                    applied = beat.applied.index
                    back = max(0, min(applied, branch.path.last.index) - branch.fork.index)
                    forward = own + again
                    found.append(
                        {
                            "worker": beat.worker,
                            "dc": dc,
                            "applied": applied,
                            "back": back,
                            "forward": forward,
                            "bytes": size,
                            "seconds": round((back + forward) / Rates().incremental, 1),
                        }
                    )
        return found


def _lines(effect: Effect) -> Iterator[tuple[str, int]]:
    """Yield the lines that an effect changes, as `Compaction.changes` names them, but those of dropped graphs."""
    there = {**dict.fromkeys(effect.deleted, GONE), **dict.fromkeys(effect.inserted, THERE)}
    yield from there.items()
    graphs = {
        **dict.fromkeys(effect.filled, GONE),
        **dict.fromkeys(effect.emptied, THERE),
    }
    for graph, change in graphs.items():
        yield f"{GRAPH}{graph}", change


def _whole(outcomes: DataFrame) -> DataFrame:
    """Return one row for each effect: an effect in chunks has a row for each."""
    return outcomes.groupBy("index").agg(
        f.first("outcome").alias("outcome"), f.first("reason", ignorenulls=True).alias("reason")
    )


def _is_external(entry: LoggedEntry) -> bool:
    """Return whether the evaluation of an update needs another server."""
    if not _EXTERNAL.search(entry.body):
        return False
    try:
        operations = parse_update(entry.body.decode(), tx_id=entry.id, using=Using.of(entry.options))
    except (UserError, UnicodeDecodeError):
        return False  # it is rejected, or no SPARQL
    return any(
        isinstance(one, Load) or (isinstance(one, Modify) and one.where.services) for one in operations
    )


def _said_of(entry: LoggedEntry) -> str:
    """Return what a CONFIG entry changes."""
    options = entry.options
    if (approval := approval_in(options)) is not None:
        return f"approval of plan {approval.plan.hex()}, which was not carried out"
    if (name := options.get(SETTING)) is not None:
        return f"setting {name} = {options.get(VALUE, '')}"
    if (name := options.get(control.NAME)) is not None:
        return f"control {name} {'set' if options.get(control.IS) else 'deleted'}"
    if (name := options.get(PEER)) is not None:
        return f"peer {name}"
    return "configuration"
