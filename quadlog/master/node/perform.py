"""The order in which a `Ready` is performed: this is the only place that determines it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.synchronous import DECISIONS, decision_in
from quadlog.failpoints import Failpoint, visit

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.messages import Adopted, Ready, Save
    from quadlog.core.model import Entry, Post


def perform(
    ready: Ready,
    *,
    save: Callable[[Save], None],
    publish: Callable[[Entry], None],
    post: Callable[[Post], None],
    cut: Callable[[Adopted], None] | None = None,
    settle: Callable[[], None] | None = None,
) -> None:
    """Make changes durable first, then publish.

    A post is a promise: nothing of this master will ever be placed at or before its counter, and what it
    lists will not be forgotten.  If step 1 fails, steps 2 and 3 are not executed.

    `settle` waits until all produced records are acknowledged; only failpoints use it.
    """
    # 1. Make the changes durable: returns when they are synced.
    save(ready.save)
    visit(Failpoint.AFTER_PERSIST)
    if ready.save.limbo:
        _visit_decisions(ready)
    # 2. Publish what is synchronised: first where the log was cut, and the entries adopted instead.
    if cut is not None and ready.save.adopted is not None:
        cut(ready.save.adopted)
    for number, entry in enumerate(ready.entries, start=1):
        publish(entry)
        if number == len(ready.entries) // 2:
            visit(Failpoint.HALF_AGREED, settle)
    # 3. Publish what waits.
    if ready.post is not None:
        visit(Failpoint.BEFORE_POST)
        post(ready.post)
        visit(Failpoint.AFTER_POST, settle)
        if ready.post.ballot is not None:
            visit(Failpoint.VOTE_POSTED, settle)
        if ready.save.limbo and any(decision_in(pair.digest) for pair in ready.post.queue):
            visit(Failpoint.DECISION_POSTED, settle)


def _visit_decisions(ready: Ready) -> None:
    """Visit the failpoints of decisions on synchronous transactions that were saved just now."""
    if any(decision_in(pair.digest) for pair in ready.save.enqueued):
        visit(Failpoint.DECISION_SAVED)
    if any(entry.kind in DECISIONS for entry in ready.entries):
        visit(Failpoint.DECISION_AGREED)
