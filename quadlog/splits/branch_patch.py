"""The net change of branches since their forks, as an RDF Patch that `/update` takes."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

from quadlog.core.effects.patch import exact
from quadlog.errors import Unavailable
from quadlog.splits.changes import net_change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.replay.replay import Phase
    from quadlog.splits.cases import CaseBranch


def write_patch(branches: Sequence[CaseBranch], out: IO[str], phase: Phase) -> int:
    """Write one transaction for each branch; return the number of quads.

    Raises:
        Unavailable: effects of a branch are missing.

    """
    quads = 0
    for branch in branches:
        out.write(f"H branch {json.dumps(branch.name)} .\n")
    for branch in branches:
        spans, last = branch.topics.effects_on(branch.path, branch.fork.index, phase)
        if last < branch.path.last.index:
            raise Unavailable(
                f"the effects of {branch.name} go up to {last} of {branch.path.last.index}: try again"
            )
        out.write("TX .\n")
        for row in net_change(branch.topics.compaction(phase).changes(spans)).toLocalIterator():
            out.write(f"{'A' if row['there'] else 'D'} {exact(row['line'])}\n")
            quads += 1
        out.write("TC .\n")
    return quads
