"""The consequences for a query if its process has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.errors import QueryStopped, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.errors import QuadlogError
    from quadlog.worker.reads.call import ReadCall
    from quadlog.worker.reads.reading_process import ReadingProcess


async def bury(reader: ReadingProcess, calls: Iterable[ReadCall]) -> None:
    """Clean up after a process that ended on its own, and fail `calls`, those that it had begun."""
    fate = await reader.fate()
    for call in calls:
        call.fail(_died(fate))
    await reader.end()


def _died(fate: int | None) -> QuadlogError:
    """Return the error for a query whose process was not ended by this worker.

    A signal was caused by the query: memory was exhausted, or native code failed.  An exit status means that the
    process itself failed, for instance at its copy, and that another worker may answer.
    """
    if fate is not None and fate < 0:
        return QueryStopped(
            f"the query killed the process that ran it (signal {-fate}): it may need more memory than there is"
        )
    how = "stopped answering" if fate is None else f"ended with status {fate}"
    return Unavailable(f"the process that read {how}, see this worker's log: ask another one", retry_after=2)
