"""A block of a coroutine that other code can end with an error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class FailScope:
    """Context manager that ends its block as `asyncio.timeout` does: by cancellation, without an additional task.

    It can be entered again after it was left.
    """

    __slots__ = ("_cancelling", "_error", "_task", "entered")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._error: Exception | None = None
        self._cancelling = 0
        self.entered = 0
        """Number of times that the block was entered."""

    @property
    def is_entered(self) -> bool:
        """True while a task is in the block."""
        return self._task is not None

    def fail(self, error: Exception) -> None:
        """Raise `error` from the block; has no effect while no task is in it.  The first error counts."""
        if self._task is not None and self._error is None:
            self._error = error
            self._task.cancel()

    def __enter__(self) -> None:
        """Enter the block with the current task."""
        self._task = asyncio.current_task()
        assert self._task is not None, "only a task can be cancelled"
        self.entered += 1
        self._cancelling = self._task.cancelling()

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the block; a cancellation from elsewhere remains a cancellation."""
        del trace
        task, error = self._task, self._error
        self._task = self._error = None
        if error is None or task is None:
            return
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise error from raised
