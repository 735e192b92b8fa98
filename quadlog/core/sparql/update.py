"""Parser of SPARQL updates: from the text to unambiguous operations."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from quadlog.core.sparql.forms import FormParser
from quadlog.core.sparql.planning import NoPlan, plan_of
from quadlog.core.sparql.text.caution import is_tame
from quadlog.core.sparql.text.skeleton import taken_apart
from quadlog.core.sparql.text.syntax import RESERVED_PREFIX, check_update
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.sparql.operations import Operation
    from quadlog.core.sparql.plan import Plan
    from quadlog.core.sparql.text.skeleton import Skeleton
    from quadlog.core.sparql.using import Using

PLANNED: Final = 8 * 1024
"""Maximum length in characters of a text for which a plan is made: longer texts rarely share a skeleton."""

PLANS: Final = 128
"""Number of cached skeletons: 17 MB if all have plans and the maximum length, with 250 quads each."""


def parse_update(text: str, *, tx_id: bytes, using: Using | None = None) -> tuple[Operation, ...]:
    """Return the operations of an update, which depend only on its text, dataset and transaction id.

    Terms are in the form in which oxigraph stores them.  Labels of blank nodes are derived from the id.

    >>> parse_update("INSERT DATA { <urn:s> a 01 }", tx_id=b"1")[0].quads[0].object.value
    '1'

    Raises:
        SyntaxRefused: the text is not SPARQL; the message contains line and column.
        UserError: the text has USING or WITH, and `using` is given.
        Unsupported: the text is SPARQL, but not (completely) understood.
        Forbidden: the text names a reserved graph.
    """
    if using is not None or len(text) > PLANNED or RESERVED_PREFIX in text:
        return read_update(text, tx_id=tx_id, using=using)
    skeleton, constants = taken_apart(text)
    known = _known(skeleton)
    if known.plan is not None and (planned := known.plan.operations(constants, tx_id)) is not None:
        return planned
    operations = read_update(text, tx_id=tx_id)
    known.learn(constants, tx_id, operations)
    return operations


def read_update(text: str, *, tx_id: bytes, using: Using | None = None) -> tuple[Operation, ...]:
    """Return the same as `parse_update`, without a plan: parse the text from the first token to the last."""
    try:
        operations = tuple(FormParser(text, tx_id, using).operations())
    except UserError:
        # pyoxigraph decides what is SPARQL, and its message is better.  It is not called if the
        # text could crash it.
        if is_tame(text):
            check_update(text)
        raise
    check_update(text)
    return operations


class _SeenSkeleton:
    """A cached skeleton.  Its second accepted text leads to a plan, if one is possible."""

    def __init__(self, skeleton: Skeleton) -> None:
        self._skeleton = skeleton
        self._texts = 0
        self.plan: Plan | None = None

    def learn(self, constants: Sequence[str], tx_id: bytes, operations: tuple[Operation, ...]) -> None:
        """Count an accepted text of the skeleton; with the second one, make the plan and check its result."""
        self._texts += 1
        if self._texts == 2:  # noqa: PLR2004 - a skeleton of a single text is not worth the cost
            try:
                plan = plan_of(self._skeleton)
            except NoPlan:
                return
            if plan.operations(constants, tx_id) == operations:
                self.plan = plan


@lru_cache(maxsize=PLANS)
def _known(skeleton: Skeleton) -> _SeenSkeleton:
    return _SeenSkeleton(skeleton)
