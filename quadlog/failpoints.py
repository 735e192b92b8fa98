"""Failpoints: named places where a test lets a process die as by kill -9.

`QUADLOG_FAILPOINT` says where, and at which visit: `after-persist` dies at the first, `after-persist:30` at
the thirtieth.  Unset, a visit costs one comparison.
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
"""After at most so long something dies that dies while it is under way: a commit of 10,000 quads takes longer."""


class Failpoint(StrEnum):
    """Where; what is said is what has just happened, or is about to."""

    AFTER_PAYLOAD = "after-payload"
    """A client's payload is durable in Kafka; no pair of it exists."""
    AFTER_PERSIST = "after-persist"
    """A round is synced; nothing of it was said."""
    HALF_AGREED = "half-agreed"
    """Half of a round's entries are in the agreed topic, the other half is only saved."""
    BEFORE_POST = "before-post"
    """A round is saved and its entries said; its post is not."""
    AFTER_POST = "after-post"
    """The post is in Kafka; what it promised is remembered on disk only."""
    HALF_MIRROR = "half-mirror"
    """A copy of an effect or of a peer's payload is in Kafka; the next one is not."""
    BEFORE_HANDOVER = "before-handover"
    """It is agreed that another data centre evaluates; the effects do not say so yet."""
    HANDED_OVER = "handed-over"
    """A handover is in Kafka; who wrote it has not read it back."""
    GIVEN_UP = "given-up"
    """It is saved whom a master gave up; nobody was told."""
    VOTE_SAVED = "vote-saved"
    """A vote, or an own ballot, is saved; nobody was told."""
    VOTE_POSTED = "vote-posted"
    """A vote is in Kafka; its view is not installed here."""
    INSTALLED = "installed"
    """A view is saved, of who gave way with all of the other log; nothing of it was said."""
    JOINING = "joining"
    """It is saved by whom a master asks to be let in; nobody was told."""
    BESIDE_BEGUN = "beside-begun"
    """It is saved where the other log parts from the own one; nothing of it was read."""
    HALF_BESIDE = "half-beside"
    """Some of the other log is saved beside the own one."""
    ADOPTED = "adopted"
    """The other log has taken the place of the own one, with one mark; all of it still stands beside."""
    CUT_SAID = "cut-said"
    """A cut is in the agreed topic; nothing behind it is."""
    HALF_BEHIND_CUT = "half-behind-cut"
    """Some of the log that was adopted is in the agreed topic, behind the cut."""
    REWIND_SAID = "rewind-said"
    """A rewind is in the effects; nothing behind it is."""
    HALF_BEHIND_REWIND = "half-behind-rewind"
    """Some of the other side's effects are in the own topic, behind the rewind."""
    AFTER_EVALUATE = "after-evaluate"
    """An effect is computed, and perhaps in the evaluating worker's store; Kafka does not know it."""
    AFTER_PUBLISH = "after-publish"
    """An effect is in Kafka; its own evaluator has not read it back."""
    WITHIN_APPLY = "within-apply"
    """A commit is under way in a worker's store."""
    AFTER_APPLY = "after-apply"
    """A batch of effects is in a worker's store; nobody was told."""


class _Armed:
    """The one that is set, and how many visits it takes."""

    point: Failpoint | None = None
    visits: int = 0


def parse(text: str) -> tuple[Failpoint, int] | None:
    """What `QUADLOG_FAILPOINT` says; ValueError if that is nothing.

    >>> parse("after-post:3"), parse("")
    ((<Failpoint.AFTER_POST: 'after-post'>, 3), None)
    """
    if not text:
        return None
    name, _, count = text.partition(":")
    visits = int(count or 1)
    if visits < 1:
        message = f"a failpoint dies at visit 1 or later, not at {visits}"
        raise ValueError(message)
    return Failpoint(name), visits


def arm(text: str) -> None:
    """Set the failpoint of this process."""
    _Armed.point, _Armed.visits = parse(text) or (None, 0)


def visit(point: Failpoint, settle: Callable[[], None] | None = None) -> None:
    """Pass by a failpoint; `settle` waits until all that was said is in Kafka, before the process dies."""
    if _Armed.point is not point:
        return
    _Armed.visits -= 1
    if _Armed.visits == 0:
        if settle is not None:
            settle()
        _die()


@contextmanager
def within(point: Failpoint) -> Generator[None]:
    """Pass through a failpoint: the process dies at some moment before its end, or else there, and says so."""
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
