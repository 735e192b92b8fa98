"""The order of work that a `Ready` asks for: the one place that decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """Durable first, then said.

    A post is a promise: that nothing of this master will ever stand at or before its counter, and
    that what it lists will not be forgotten.  If step 1 fails, 2 and 3 have not happened.

    Failpoints use `settle`, which waits until all that was said is acknowledged.
    """
    # 1. Make it durable: returns when it is synced.
    save(ready.save)
    visit(Failpoint.AFTER_PERSIST)
    # 2. Say what is synchronised: first where the log was cut, and what was taken for it.
    if cut is not None and ready.save.adopted is not None:
        cut(ready.save.adopted)
    for number, entry in enumerate(ready.entries, start=1):
        publish(entry)
        if number == len(ready.entries) // 2:
            visit(Failpoint.HALF_AGREED, settle)
    # 3. Say what waits.
    if ready.post is not None:
        visit(Failpoint.BEFORE_POST)
        post(ready.post)
        visit(Failpoint.AFTER_POST, settle)
        if ready.post.ballot is not None:
            visit(Failpoint.VOTE_POSTED, settle)
