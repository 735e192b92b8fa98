"""What an evaluating worker asks of its store, written down and asked again without a line of ours.

So much of an evaluator's time is pyoxigraph's own: however the rest is written, no evaluator that decides before it
shows, and can take back what it decided, is faster on this store.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyoxigraph import Quad, Store


class Asked(NamedTuple):
    """One call."""

    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


class StoreRecorder:
    """A store that writes down what it is asked."""

    def __init__(self, store: Store) -> None:
        """Ask `store`."""
        self._store = store
        self.asked: list[Asked] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """One of the store's methods."""
        ask = getattr(self._store, method)

        def asking(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
            self.asked.append(Asked(method, arguments, named))
            return ask(*arguments, **named)

        return asking

    def __contains__(self, quad: Quad) -> bool:
        """Whether the store has it."""
        self.asked.append(Asked("__contains__", (quad,), {}))
        return quad in self._store


def seconds(store: Store, asked: Sequence[Asked]) -> float:
    """CPU of asking all of it again, and of hearing each answer to its end."""
    calls = [(getattr(store, one.method), one.arguments, one.named) for one in asked]
    began = time.thread_time()
    for ask, arguments, named in calls:
        answer = ask(*arguments, **named)
        if hasattr(answer, "__next__"):
            for _ in answer:
                pass
    return time.thread_time() - began
