"""What updates change on a branch and behind the log of the winner, compared line by line with Spark.

    winner   line, moment         all changes of the winner after the fork, as `Compaction.changes` returns them
    there    line, n, change      changes on the branch by its n-th update
    here     line, n, change      changes behind the log of the winner, by this branch and those considered before

A change is `GONE`, `NEVER` or `THERE`, as in `replay.py`.  Each line is followed on its own, through all updates that
change it: the state of a line before the first one is that of the winner, or of the fork if the winner has not changed
it.  That is known without a store: an effect says exactly what it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from quadlog.core.effects.signature import empty_graph_line
from quadlog.replay.replay import GONE, MOMENTS, THERE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GRAPH: Final = empty_graph_line("")


def by_update(changes: DataFrame) -> DataFrame:
    """Return line, n and change of each line that an update changes, from columns line and moment (n * 4 + change)."""
    return (
        changes.select("line", f.expr(f"moment div {MOMENTS}").alias("n"), "moment")
        .groupBy("line", "n")
        .agg((f.max("moment") % MOMENTS).alias("change"))
    )


def compared(winner: DataFrame, there: DataFrame, here: DataFrame, *, first: int) -> DataFrame:
    """Return one row for each line and update that changes it there or here, or of a branch before, with its states.

    Columns: line, n, `l` and `p` (is it there after the update on the branch, and here; null: unchanged), `w` (after
    the winner's last entry; null: the winner has not changed it), `base`, `after` (here, after the update), and
    `w_index` (the winner's entry that changed it last).

    `first` is the number of the first update of this branch; rows of branches before have smaller ones.
    """
    lines = there.select("line").union(here.filter(f.col("n") >= first).select("line")).distinct()
    ends = (
        winner.join(lines, "line", "left_semi")
        .groupBy("line")
        .agg(f.min("moment").alias("begins"), f.max("moment").alias("ends"))
        .select(
            "line",
            _is_gone_by(f.col("begins") % MOMENTS).alias("w_base"),
            _is_there(f.col("ends") % MOMENTS).alias("w"),
            f.expr(f"ends div {MOMENTS}").alias("w_index"),
        )
    )
    rows = there.select("line", "n", f.col("change").alias("theirs")).join(
        here.join(lines, "line", "left_semi").select("line", "n", f.col("change").alias("ours")),
        ["line", "n"],
        "full_outer",
    )
    known = rows.join(ends, "line", "left")
    ordered = Window.partitionBy("line").orderBy("n")
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # Of a line that the winner has not changed, the first change on the branch tells the state at the fork: else the
    # first one here, unless that is of a branch before, whose fork is another one.
    of_fork = f.coalesce(
        f.col("w_base"),
        f.first(_is_gone_by(f.col("theirs")), ignorenulls=True).over(whole),
        f.first(_is_gone_by(f.col("ours")), ignorenulls=True).over(whole),
    )
    with_base = known.withColumn("base", of_fork).withColumn("p", _is_there(f.col("ours")))
    return with_base.select(
        "line",
        "n",
        _is_there(f.col("theirs")).alias("l"),
        "p",
        "w",
        "w_index",
        "base",
        f.coalesce(f.last("p", ignorenulls=True).over(so_far), "w", "base").alias("after"),
    )


def updates_of(states: DataFrame, *, first: int) -> DataFrame:
    """Return one row for each update of this branch that changes lines, with the fields of a `Comparison`.

    Besides, `deleted` and `inserted` are the number of quads that it changes here, `deleted_there` and
    `inserted_there` those on the branch.
    """
    theirs, ours = f.col("l").isNotNull(), f.col("p").isNotNull()
    quad = ~f.col("line").startswith(GRAPH)
    return (
        states.filter(f.col("n") >= first)
        .groupBy("n")
        .agg(
            _number(theirs).alias("there"),
            _number(ours).alias("here"),
            _number(ours & f.col("w").isNotNull() & (f.col("p") != f.col("w"))).alias("opposite"),
            _number(ours & (~theirs | (f.col("l") != f.col("p")))).alias("extra"),
            _number(theirs & (f.col("l") != f.col("after"))).alias("unmet"),
            _number(ours & quad & ~f.col("p")).alias("deleted"),
            _number(ours & quad & f.col("p")).alias("inserted"),
            _number(theirs & quad & ~f.col("l")).alias("deleted_there"),
            _number(theirs & quad & f.col("l")).alias("inserted_there"),
        )
    )


def disputed_in(states: DataFrame, *, first: int) -> DataFrame:
    """Return line, base, winner, branch, result, w_index and n of the disputed quads of this branch, in their order.

    `n` is the update of the branch that changed it last, there or here.
    """
    own = f.col("n") >= first
    touched = own & (f.col("l").isNotNull() | f.col("p").isNotNull())
    found = (
        states.filter(f.col("w").isNotNull() & ~f.col("line").startswith(GRAPH))
        .groupBy("line")
        .agg(
            f.first("base").alias("base"),
            f.first("w").alias("winner"),
            f.max_by("l", f.when(f.col("l").isNotNull(), f.col("n"))).alias("last_there"),
            f.max_by("after", "n").alias("result"),
            f.first("w_index").alias("w_index"),
            f.max(f.when(touched, f.col("n"))).alias("n"),
        )
        .withColumn("branch", f.coalesce("last_there", "base"))
        .filter("n is not null and not (winner = branch and branch = result)")
    )
    return found.select("line", "base", "winner", "branch", "result", "w_index", "n").orderBy("line")


def net_change(changes: DataFrame) -> DataFrame:
    """Return line and `there` of each quad that is changed in the end, removals first, from columns line and moment."""
    ends = changes.groupBy("line").agg(f.min("moment").alias("begins"), f.max("moment").alias("ends"))
    return (
        ends.filter(~f.col("line").startswith(GRAPH))
        .select(
            "line",
            _is_gone_by(f.col("begins") % MOMENTS).alias("before"),
            _is_there(f.col("ends") % MOMENTS).alias("there"),
        )
        .filter("before != there")
        .orderBy("there", "line")
    )


def _number(condition: Column) -> Column:
    return f.sum(f.when(condition, 1).otherwise(0))


def _is_there(change: Column) -> Column:
    return f.when(change.isNotNull(), change == THERE)


def _is_gone_by(change: Column) -> Column:
    """Return whether a line existed before its first change."""
    return f.when(change.isNotNull(), change == GONE)
