"""The state after the last entry of a branch, as a store that can be queried: made from effects, and proven."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from pyoxigraph import Store
from pyspark.sql import functions as f

from quadlog.core.effects.lines import graph_of, quads_of
from quadlog.core.effects.signature import LineCount, as_bytes
from quadlog.errors import SetupError, StateError, Unavailable
from quadlog.replay.replay import MOMENTS, THERE
from quadlog.splits.changes import GRAPH

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.replay.replay import Phase
    from quadlog.splits.cases import CaseBranch

BULK: Final = 50_000
"""Lines that are loaded at once."""


def store_of(branch: CaseBranch, directory: Path, phase: Phase) -> Store:
    """Return a store in a directory that does not exist yet, with the state after the last entry of a branch.

    Raises:
        Unavailable: effects of the branch are missing.
        SetupError: the log begins with a seed, which is not in the topics.
        StateError: the effects do not lead to the state that they claim.

    """
    topics, path, fork = branch.topics, branch.path, branch.fork
    newest, _ = topics.newest_effect_on(path, fork.index, phase) or (None, None)
    spans, last = topics.effects_on(path, fork.index, phase)
    if newest is None or last < path.last.index:
        raise Unavailable(f"the effects of {branch.name} go up to {last} of {path.last.index}: try again")
    if (seed := topics.lineage(phase).seed) is not None:
        raise SetupError(
            f"the log begins with a seed of {seed.quads} quads, which is not in the topics: use a fork backup of a"
            " worker, or `quadlog split export`"
        )
    before, known = topics.effects_on(path.until(fork), 0, phase) if fork.index else ([], 0)
    if known < fork.index:
        raise Unavailable(f"effects before {branch.name} are missing: they go up to {known} of {fork.index}")
    changes = topics.compaction(phase).changes([*before, *spans])
    ends = changes.groupBy("line").agg((f.max("moment") % MOMENTS).alias("change"))
    store, count = Store(str(directory)), LineCount()
    with phase("load"):
        rows = ends.filter(f.col("change") == THERE).select("line").toLocalIterator()
        lines = (row["line"] for row in rows)
        while some := list(islice(lines, BULK)):
            count.add(line.encode() for line in some)
            store.bulk_extend(quads_of(line for line in some if not line.startswith(GRAPH)))
            for line in some:
                if line.startswith(GRAPH):
                    store.add_graph(graph_of(line.removeprefix(GRAPH)))
    if as_bytes(count.signature) != newest.signature_after:
        raise StateError(
            f"the effects of {branch.name} do not lead to the state that effect {newest.index} claims: it was not shown"
        )
    return store
