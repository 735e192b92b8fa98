"""Failpoints: named places in the code at which a test kills the process, as by kill -9.

`QUADLOG_FAILPOINT` sets the failpoint and the number of the visit: with `after-persist` the process dies at the first
visit, with `after-persist:30` at the thirtieth.  If it is not set, a visit costs one comparison.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quadlog.lean import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

WITHIN_MS: Final = 30
"""Maximum delay in milliseconds before `within` kills the process: a commit of 10,000 quads takes longer."""


class Failpoint(StrEnum):
    """A failpoint; each docstring describes the state in which the process dies."""

    AFTER_PAYLOAD = "after-payload"
    """A client's payload is durable in Kafka; no pair of it exists."""
    AFTER_PERSIST = "after-persist"
    """A round is synced; nothing of it was published."""
    HALF_AGREED = "half-agreed"
    """Half of a round's entries are in the agreed topic; the other half is only saved."""
    BEFORE_POST = "before-post"
    """A round is saved and its entries are published; its post is not."""
    AFTER_POST = "after-post"
    """The post is in Kafka; what it promises is stored on disk only."""
    HALF_MIRROR = "half-mirror"
    """A copy of an effect or of a peer's payload is in Kafka; the next one is not."""
    BEFORE_HANDOVER = "before-handover"
    """It is agreed that another data centre evaluates; the effects topic does not contain the handover yet."""
    HANDED_OVER = "handed-over"
    """A handover is in Kafka; its writer has not read it back."""
    GIVEN_UP = "given-up"
    """The members that a master gave up are saved; no other master knows."""
    VOTE_SAVED = "vote-saved"
    """A vote, or an own ballot, is saved; no other master knows."""
    VOTE_POSTED = "vote-posted"
    """A vote is in Kafka; its view is not installed here."""
    INSTALLED = "installed"
    """A view is saved, on the side that gives way with all of the other log; nothing of it was published."""
    JOINING = "joining"
    """The view to which a master requests admission is saved; no other master knows."""
    BESIDE_BEGUN = "beside-begun"
    """The point where the other log parts from the own one is saved; nothing of it was read."""
    HALF_BESIDE = "half-beside"
    """A part of the other log is saved, separately from the own one."""
    ADOPTED = "adopted"
    """The other log has replaced the own one by a single mark; it is still stored separately."""
    CUT_SAID = "cut-said"
    """A cut is in the agreed topic; nothing follows it."""
    HALF_BEHIND_CUT = "half-behind-cut"
    """A part of the adopted log is in the agreed topic, after the cut."""
    REWIND_SAID = "rewind-said"
    """A rewind is in the effects topic; nothing follows it."""
    HALF_BEHIND_REWIND = "half-behind-rewind"
    """Some of the other side's effects are in the own topic, after the rewind."""
    DECISION_SAVED = "decision-saved"
    """A decision on synchronous transactions is saved, or received; this master has not posted it."""
    DECISION_POSTED = "decision-posted"
    """The decision is in Kafka; this master has not added it."""
    DECISION_AGREED = "decision-agreed"
    """The decision is in this master's log; its agreed topic does not have it."""
    AFTER_EVALUATE = "after-evaluate"
    """An effect is computed, and perhaps in the evaluating worker's store; it is not in Kafka."""
    AFTER_PUBLISH = "after-publish"
    """An effect is in Kafka; its evaluator has not read it back."""
    WITHIN_APPLY = "within-apply"
    """A commit is running in a worker's store."""
    AFTER_APPLY = "after-apply"
    """A batch of effects is in a worker's store; this was not reported to any other node."""


class _Armed:
    """The failpoint that is set, and the number of remaining visits."""

    point: Failpoint | None = None
    visits: int = 0


def parse(text: str) -> tuple[Failpoint, int] | None:
    """Parse a value of `QUADLOG_FAILPOINT`; ValueError if it is invalid.

    >>> parse("after-post:3"), parse("")
    ((<Failpoint.AFTER_POST: 'after-post'>, 3), None)
    """
    if not text:
        return None
    name, _, count = text.partition(":")
    visits = int(count or 1)
    if visits < 1:
        raise ValueError(f"a failpoint dies at visit 1 or later, not at {visits}")
    return Failpoint(name), visits


def arm(text: str) -> None:
    """Set the failpoint of this process."""
    _Armed.point, _Armed.visits = parse(text) or (None, 0)


def visit(point: Failpoint, settle: Callable[[], None] | None = None) -> None:
    """Visit a failpoint; before the process dies, `settle` waits until all produced records are in Kafka."""
    if _Armed.point is not point:
        return
    _Armed.visits -= 1
    if _Armed.visits == 0:
        if settle is not None:
            settle()
        _die()


@contextmanager
def within(point: Failpoint) -> Generator[None]:
    """Visit a failpoint that lasts for this context: the process dies at a random moment in it.

    If the context ends earlier, the process logs a warning and dies at its end.
    """
    if _Armed.point is not point:
        yield
        return
    _Armed.visits -= 1
    if _Armed.visits == 0:
        threading.Timer(secrets.randbelow(WITHIN_MS) / 1000, _die).start()
    yield
    if _Armed.visits == 0:
        logger().warning("failpoint_section_completed", failpoint=point.value)
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
