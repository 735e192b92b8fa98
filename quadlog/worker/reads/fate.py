"""What it means to a query that its process ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.errors import QueryStopped, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.errors import QuadlogError
    from quadlog.worker.reads.call import Call
    from quadlog.worker.reads.reader import Reader


async def bury(reader: Reader, calls: Iterable[Call]) -> None:
    """Clear up behind a process that ended by itself; `calls` are those that it had begun."""
    fate = await reader.fate()
    for call in calls:
        call.fail(_died(fate))
    await reader.end()


def _died(fate: int | None) -> QuadlogError:
    """What it means that a process ended which nobody here ended.

    A signal came because of the query: no more memory, or a fault of the machine's code.  An exit status means
    that the process failed by itself, at its copy for instance, and another worker may answer.
    """
    if fate is not None and fate < 0:
        return QueryStopped(
            f"the query killed the process that ran it (signal {-fate}): it may need more memory than there is"
        )
    how = "stopped answering" if fate is None else f"ended with status {fate}"
    return Unavailable(f"the process that read {how}, see this worker's log: ask another one", retry_after=2)
